// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/catalog"
	"synchronizer/internal/config"
	"synchronizer/internal/filter"
	"synchronizer/internal/policy"
	"synchronizer/internal/policy/trial"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", GroupID: "tools", Short: "Try what of an object leaves the cluster"}
	cmd.AddCommand(newPolicyTest())
	return cmd
}

// policyTrial is one run of policy test.
type policyTrial struct {
	file, configDir, link, output, resource, namespace string
	kubeconfig, context                                string

	transform *policy.Transform
	filter    *filter.Filter
	config    *config.InCluster // nil: no configuration was given
	groups    []catalog.Group   // of a cluster; nil: none was given
	rules     []config.PolicyRule
	out, note io.Writer
	printed   int
}

func newPolicyTest() *cobra.Command {
	var f policyTrial
	cmd := &cobra.Command{
		Use: "test -f FILE", Args: usageArgs(cobra.NoArgs),
		Short: "Print what of an object would leave the cluster",
		Long: `Print what of the objects in a file would leave the cluster under inCluster.policy and
the built-in rules. Which rules are about an object, and whether it would leave at all,
stands on standard error; with -o diff it stands, together with every place that was
removed (-) or replaced (~), on standard output.

JSON comes out byte for byte but for what rules change. YAML is turned into JSON first.
Nothing is read from or sent to a cluster; with --kubeconfig it is only asked which
kinds it serves, for wildcards and for the plural names of kinds. Exit code 2 if the
file or the configuration is wrong.`,
		Example: "  kubectl get deployment web -o json | synchronizer policy test -f - --config ./configuration/client\n  synchronizer policy test -f secret.yaml -o diff",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.out, f.note = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if f.output == "diff" {
				f.note = f.out
			}
			return f.run(cmd)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.file, "filename", "f", "", "file with objects as YAML or JSON; - is standard input")
	fl.StringVar(&f.configDir, "config", "", "folder of the client's config.json (default: the built-in rules, and all kinds)")
	fl.StringVar(&f.link, "link", "v1", "version of the link, v1 or v2: v1 sets some fields to null that v2 removes")
	fl.StringVarP(&f.output, "output", "o", "", "json, yaml or diff (default: what the file is)")
	fl.StringVar(&f.resource, "resource", "", "plural name of the kind, where it cannot be guessed")
	fl.StringVarP(&f.namespace, "namespace", "n", "", "namespace of objects that name none")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of a cluster that is asked which kinds it serves (default: none is asked)")
	fl.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
	completeOutput(cmd, "json", "yaml", "diff")
	markDirectory(cmd, "config")
	return cmd
}

func (f *policyTrial) run(cmd *cobra.Command) error {
	if f.file == "" {
		return fmt.Errorf("%w: name a file with -f, or - for standard input", app.ErrUsage)
	}
	if !slices.Contains([]string{"", "json", "yaml", "diff"}, f.output) {
		return fmt.Errorf("%w: -o %q is not json, yaml or diff", app.ErrUsage, f.output)
	}
	link, ok := map[string]policy.Link{"v1": policy.LinkV1, "v2": policy.LinkV2}[f.link]
	if !ok {
		return fmt.Errorf("%w: --link %q is neither v1 nor v2", app.ErrUsage, f.link)
	}
	if err := f.configure(cmd, link); err != nil {
		return err
	}
	if err := f.discover(cmd.Context()); err != nil {
		return err
	}
	objects, err := f.read(cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("%w: %s: %w", app.ErrUsage, f.file, err)
	}
	for i := range objects {
		if err := f.try(&objects[i]); err != nil {
			return fmt.Errorf("%w: %s: %s %s: %w", app.ErrUsage, f.file, objects[i].Kind, objects[i].Name, err)
		}
	}
	return nil
}

func (f *policyTrial) read(stdin io.Reader) ([]trial.Object, error) {
	if f.file == "-" {
		return trial.Read(stdin)
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	return trial.Read(file)
}

// configure compiles the policy of the configuration, of which the rest may be missing.
func (f *policyTrial) configure(cmd *cobra.Command, link policy.Link) (err error) {
	if f.configDir == "" {
		f.transform = policy.New(link)
		return nil
	}
	name := f.configDir
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "config.json")
	}
	c, warnings, err := config.ReadFile(name, config.RoleClient)
	for _, w := range warnings {
		if strings.HasPrefix(w.Path, "inCluster.policy") {
			cmd.PrintErrln("Warning:", w.String())
		}
	}
	if err != nil {
		return err
	}
	if f.transform, _, err = c.TrialPolicy(link); err != nil {
		return err
	}
	f.filter, f.rules = client.Filter(c), c.InCluster.Policy
	f.config = &c.InCluster
	if name := c.InCluster.NamespaceFilterConfigMapName; name != "" {
		cmd.PrintErrf("Warning: the namespace rules of the ConfigMap %s are in the cluster; those of the file are used here\n", name)
	}
	return nil
}

// try prints one object as it would leave the cluster.
func (f *policyTrial) try(o *trial.Object) error {
	if o.Namespace == "" {
		o.Namespace = f.namespace
	}
	kind := f.kindOf(o)
	holding, err := f.transform.Explain(kind.Group, kind.Resource, o.Namespace, o.JSON)
	if err != nil {
		return err
	}
	if f.output == "diff" && f.printed > 0 {
		f.line("")
	}
	f.line("%s %s", kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	reason, err := f.stays(kind, o)
	if err != nil {
		return err
	}
	if reason != "" {
		f.printed++
		f.line("  does not leave the cluster: %s", reason)
		return nil
	}
	for _, h := range holding {
		var paths []string
		for _, p := range h.Paths {
			paths = append(paths, fmt.Sprintf("%s (%d found)", p.Path, p.Values))
		}
		f.line("  inCluster.policy[%d] %s %s", h.Rule, h.Action, strings.Join(paths, ", "))
	}
	after, err := f.transform.Apply(nil, kind.Group, kind.Resource, o.Namespace, o.JSON)
	if err != nil {
		return err
	}
	f.printed++
	return f.print(o, after)
}

// line writes about an object: where the objects are not, unless it is for a person.
func (f *policyTrial) line(format string, args ...any) {
	if f.output != "diff" {
		format = "# " + format
	}
	_, _ = fmt.Fprintf(f.note, format+"\n", args...)
}

func (f *policyTrial) print(o *trial.Object, after []byte) error {
	switch {
	case f.output == "diff":
		changes, err := trial.Changes(o.JSON, after)
		if err != nil {
			return err
		}
		for _, c := range changes {
			f.line("  %s", c)
		}
		if len(changes) == 0 {
			f.line("  unchanged")
		}
		return nil
	case f.output == "yaml" || f.output == "" && o.YAML:
		text, err := yaml.JSONToYAML(after)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		if f.printed > 1 {
			text = append([]byte("---\n"), text...)
		}
		_, err = f.out.Write(text)
		return err
	default:
		_, err := f.out.Write(append(slices.Clip(after), '\n'))
		return err
	}
}
