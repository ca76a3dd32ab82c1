// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/catalog"
	"synchronizer/internal/config"
	"synchronizer/internal/diff"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
)

// errDiffers is the result of a comparison that found differences.
var errDiffers = errors.New("store and cluster differ")

type diffFlags struct {
	fleet
	account, configDir, kubeconfig, context, output string
	wait                                            time.Duration
}

func newDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use: "diff CLUSTER", GroupID: "read", Args: usageArgs(cobra.ExactArgs(1)),
		Short: "Compare a live cluster with the store",
		Long: `List a live cluster afresh and compare key, uid and checksum of every object with
what the store has of it. Exit code 0 if they agree, 1 if not.`,
		Example: "  synchronizer diff dev --kubeconfig ~/.kube/config\n  synchronizer diff dev --kubeconfig ~/.kube/config --wait 30s",
		RunE:    func(cmd *cobra.Command, args []string) error { return runDiff(cmd, &f, args[0]) },
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.account, "account", "", "account of the cluster (default: the token's)")
	fl.StringVar(&f.configDir, "config", "", "folder of the client's config.json, for kinds and namespace rules (default: the common kinds)")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: KUBECONFIG)")
	fl.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
	fl.DurationVar(&f.wait, "wait", 0, "repeat until they agree, at most for so long")
	fl.StringVarP(&f.output, "output", "o", "text", "text or json")
	completeOutput(cmd, "text", "json")
	markDirectory(cmd, "config")
	return cmd
}

func runDiff(cmd *cobra.Command, f *diffFlags, name string) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("%w: -o %q is neither text nor json", app.ErrUsage, f.output)
	}
	c, err := f.configuration()
	if err != nil {
		return err
	}
	reader, err := f.client()
	if err != nil {
		return err
	}
	rest, _, err := kube.LoadConfig(kube.LoadOptions{Flag: f.kubeconfig, Env: os.Getenv("KUBECONFIG"), Context: f.context})
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	cluster, err := kube.New(kube.Options{Config: rest})
	if err != nil {
		return err
	}
	defer cluster.Close()
	scope, view, err := newScope(cmd.Context(), c, cluster)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(f.wait)
	for {
		report, err := f.compare(cmd.Context(), view, reader, scope, name)
		if err != nil {
			return f.explain(err)
		}
		if report.Equal() || time.Now().After(deadline) {
			return printReport(cmd, f.output, name, report)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

// configuration is the client's.
func (f *diffFlags) configuration() (*config.Config, error) {
	c := config.Default()
	if f.configDir != "" {
		var err error
		if c, _, err = config.LoadClient(config.OS().With("CONFIG", f.configDir)); err != nil {
			return nil, err
		}
	}
	if len(c.InCluster.Resources) == 0 {
		c.InCluster.Resources = config.CommonResources()
	}
	return c, nil
}

// rulesTimeout is how long the ConfigMap with namespace rules may take.
const rulesTimeout = 10 * time.Second

// newScope is what the configuration lets out of the cluster: which kinds, by
// which rules, and what of each its selectors and namespaces leave.
func newScope(ctx context.Context, c *config.Config, cluster *kube.Cluster) (scope diff.Scope, view synchronizer.Cluster, err error) {
	if scope.Transform, err = c.Policy(policy.LinkV1); err != nil {
		return scope, nil, err
	}
	if scope.Filter, err = client.CurrentFilter(ctx, c, cluster, rulesTimeout); err != nil {
		return scope, nil, err
	}
	var groups []catalog.Group
	if slices.ContainsFunc(c.InCluster.Resources, func(r config.Resource) bool { return catalog.IsPattern(r.Kind()) }) {
		if groups, err = cluster.Groups(ctx); err != nil {
			return scope, nil, fmt.Errorf("asking the API server for its kinds: %w", err)
		}
	}
	parts := selectedCluster{Cluster: cluster, parts: map[synchronizer.Kind]synchronizer.Cluster{}}
	for _, k := range client.ExpandKinds(&c.InCluster, groups) {
		scope.Kinds = append(scope.Kinds, k.Kind)
		parts.parts[k.Kind] = client.Selected(cluster, k)
	}
	return scope, parts, nil
}

// selectedCluster lists of each kind what its selectors and namespaces leave.
type selectedCluster struct {
	synchronizer.Cluster
	parts map[synchronizer.Kind]synchronizer.Cluster
}

// List implements synchronizer.Cluster.
func (c selectedCluster) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	return c.parts[kind].List(ctx, kind, each)
}

// compare lists the store, then the cluster: what changes between the two is a
// difference that the next look no longer has.
func (f *diffFlags) compare(ctx context.Context, cluster synchronizer.Cluster, reader *api.Client, scope diff.Scope, name string) (diff.Report, error) {
	stored, err := f.stored(ctx, reader, name)
	if err != nil {
		return diff.Report{}, err
	}
	scope.Stored = stored
	live, _, err := diff.Live(ctx, cluster, scope)
	if err != nil {
		return diff.Report{}, err
	}
	return diff.Compare(live, stored), nil
}

// stored lists what the store has of the cluster.
func (f *diffFlags) stored(ctx context.Context, reader *api.Client, name string) (diff.Set, error) {
	query := url.Values{"cluster": {name}, "limit": {"5000"}}
	if f.account != "" {
		query.Set("account", f.account)
	}
	set, account := diff.Set{}, f.account
	err := reader.EachPage(ctx, query, func(page []api.Object) error {
		for i := range page {
			o := &page[i]
			if account == "" {
				account = o.Account
			}
			if o.Account != account {
				return fmt.Errorf("%w: accounts %q and %q both have a cluster %q; say which with --account", app.ErrUsage, account, o.Account, name)
			}
			kind := synchronizer.Kind{Group: o.Group, Version: o.Version, Resource: o.Resource}
			set[diff.Key{Kind: kind, Namespace: o.Namespace, Name: o.Name}] = diff.Entry{
				UID: o.UID, Checksum: o.Checksum, ResourceVersion: o.ResourceVersion,
			}
		}
		return nil
	})
	return set, err
}

func printReport(cmd *cobra.Command, output, name string, r diff.Report) error {
	if output == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else {
		for _, part := range []struct {
			sign string
			list []string
		}{{"+ only in the cluster: ", r.Missing}, {"- only in the store:   ", r.Extra}, {"~ different:           ", r.Different}} {
			for _, object := range part.list {
				cmd.Println(part.sign + object)
			}
		}
		cmd.Printf("%s: %d objects agree, %d do not (key, uid and checksum)\n", name, r.Agree, len(r.Missing)+len(r.Extra)+len(r.Different))
	}
	if !r.Equal() {
		return errDiffers
	}
	return nil
}
