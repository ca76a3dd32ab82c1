// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"synchronizer/internal/api"
	"synchronizer/internal/app"
)

// getFlags are the flags of get.
type getFlags struct {
	fleet
	clusters      []string
	account       string
	namespace     string
	allNamespaces bool
	selector      string
	deleted       bool
	output        string
}

func newGet() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use: "get RESOURCE[.GROUP] [NAME ...]", GroupID: "read", Args: usageArgs(cobra.MinimumNArgs(1)),
		Short: "List stored objects",
		Long: `List stored objects of one resource, or of all of them ("all"), of one cluster or
of the whole fleet. Cluster-scoped objects are shown whatever the namespace.`,
		Example: `  synchronizer get deployments -A
  synchronizer get deploy web -n shop --cluster prod -o json
  synchronizer get pods -A -l app=web,tier!=cache
  synchronizer get widgets.example.com -A
  synchronizer get all -n default`,
		ValidArgsFunction: completeResource,
		RunE:              func(cmd *cobra.Command, args []string) error { return get(cmd, &f, args[0], args[1:]) },
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&f.clusters, "cluster", nil, "only this cluster (may be repeated)")
	fl.StringVar(&f.account, "account", "", "only this account")
	fl.StringVarP(&f.namespace, "namespace", "n", "default", "namespace")
	fl.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "all namespaces")
	fl.StringVarP(&f.selector, "selector", "l", "", "label selector, as kubectl's")
	fl.BoolVar(&f.deleted, "deleted", false, "deleted objects too")
	fl.StringVarP(&f.output, "output", "o", "table", "table, wide, name or json")
	completeOutput(cmd, "table", "wide", "name", "json")
	return cmd
}

// aliases are kubectl's short names of common resources.
var aliases = map[string]string{
	"po": "pods", "pod": "pods", "svc": "services", "service": "services", "cm": "configmaps", "configmap": "configmaps",
	"ns": "namespaces", "namespace": "namespaces", "no": "nodes", "node": "nodes", "sa": "serviceaccounts",
	"serviceaccount": "serviceaccounts", "pv": "persistentvolumes", "deploy": "deployments", "deployment": "deployments",
	"sts": "statefulsets", "statefulset": "statefulsets", "ds": "daemonsets", "daemonset": "daemonsets",
	"rs": "replicasets", "replicaset": "replicasets", "job": "jobs", "cj": "cronjobs", "cronjob": "cronjobs",
	"ing": "ingresses", "ingress": "ingresses", "netpol": "networkpolicies", "networkpolicy": "networkpolicies",
	"role": "roles", "rolebinding": "rolebindings", "clusterrole": "clusterroles",
	"clusterrolebinding": "clusterrolebindings", "sc": "storageclasses", "storageclass": "storageclasses",
}

func completeResource(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []string{"all"}
	for _, name := range aliases {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// query is the API query for a resource argument and names.
func (f *getFlags) query(resource string, names []string) url.Values {
	q := url.Values{"limit": {"1000"}}
	resource, group, hasGroup := strings.Cut(strings.ToLower(resource), ".")
	if full, ok := aliases[resource]; ok {
		resource = full
	}
	if resource != "all" {
		q.Set("resource", resource)
	}
	if hasGroup {
		q.Set("group", group)
	}
	q["name"] = names
	q["cluster"] = f.clusters
	if f.account != "" {
		q.Set("account", f.account)
	}
	if !f.allNamespaces {
		q["namespace"] = []string{f.namespace, "-"}
	}
	if f.selector != "" {
		q.Set("labelSelector", f.selector)
	}
	if f.deleted {
		q.Set("deleted", "true")
	}
	if f.output == "json" {
		q.Set("full", "true")
	}
	return q
}

func get(cmd *cobra.Command, f *getFlags, resource string, names []string) error {
	p, err := newPrinter(f.output, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	missing := slices.Clone(names)
	err = client.EachPage(cmd.Context(), f.query(resource, names), func(page []api.Object) error {
		for i := range page {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == page[i].Name })
			if err := p.print(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return f.explain(err)
	}
	if err := p.end(); err != nil {
		return err
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("%s %s: not found", resource, strings.Join(missing, ", "))
	case p.count() == 0 && f.output != "json":
		where := "in namespace " + f.namespace + " (-A shows all namespaces)"
		if f.allNamespaces {
			where = "in any namespace"
		}
		cmd.PrintErrf("No %s found %s.\n", resource, where)
	}
	return nil
}

// printer writes objects as they come.
type printer interface {
	print(o *api.Object) error
	end() error
	count() int
}

func newPrinter(output string, w io.Writer) (printer, error) {
	switch output {
	case "table", "wide":
		return &tablePrinter{w: tabwriter.NewWriter(w, 0, 4, 3, ' ', 0), wide: output == "wide"}, nil
	case "name":
		return &namePrinter{w: w}, nil
	case "json":
		return &jsonPrinter{w: w}, nil
	}
	return nil, fmt.Errorf("%w: -o %q is none of table, wide, name, json", app.ErrUsage, output)
}

type tablePrinter struct {
	w    *tabwriter.Writer
	wide bool
	n    int
}

func (p *tablePrinter) print(o *api.Object) error {
	if p.n == 0 {
		head := "CLUSTER\tNAMESPACE\tRESOURCE\tNAME\tCHANGED"
		if p.wide {
			head += "\tACCOUNT\tUID\tRESOURCE VERSION\tCHECKSUM"
		}
		_, _ = fmt.Fprintln(p.w, head)
	}
	p.n++
	name := o.Name
	if !o.DeletedAt.IsZero() {
		name += " (deleted)"
	}
	_, _ = fmt.Fprintf(p.w, "%s\t%s\t%s\t%s\t%s", o.Cluster, orDash(o.Namespace), qualified(o), name, age(o.UpdatedAt))
	if p.wide {
		_, _ = fmt.Fprintf(p.w, "\t%s\t%s\t%s\t%.12s", o.Account, o.UID, o.ResourceVersion, o.Checksum)
	}
	_, err := fmt.Fprintln(p.w)
	return err
}

func (p *tablePrinter) end() error { return p.w.Flush() }
func (p *tablePrinter) count() int { return p.n }

type namePrinter struct {
	w io.Writer
	n int
}

func (p *namePrinter) print(o *api.Object) error {
	p.n++
	_, err := fmt.Fprintf(p.w, "%s/%s\n", qualified(o), o.Name)
	return err
}

func (p *namePrinter) end() error { return nil }
func (p *namePrinter) count() int { return p.n }

// jsonPrinter writes one document, {"items":[…]}, object by object.
type jsonPrinter struct {
	w io.Writer
	n int
}

func (p *jsonPrinter) print(o *api.Object) error {
	before := ",\n"
	if p.n == 0 {
		before = "{\"items\":[\n"
	}
	p.n++
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // people read "<", and so it stands in the object
	if err := enc.Encode(o); err != nil {
		return fmt.Errorf("marshalling %s: %w", o.Name, err)
	}
	_, err := fmt.Fprintf(p.w, "%s%s", before, bytes.TrimSpace(text.Bytes()))
	return err
}

func (p *jsonPrinter) end() error {
	if p.n == 0 {
		_, err := fmt.Fprintln(p.w, `{"items":[]}`)
		return err
	}
	_, err := fmt.Fprintln(p.w, "\n]}")
	return err
}

func (p *jsonPrinter) count() int { return p.n }

// qualified is the resource as kubectl writes it: "deployments.apps".
func qualified(o *api.Object) string {
	if o.Group == "" {
		return o.Resource
	}
	return o.Resource + "." + o.Group
}
