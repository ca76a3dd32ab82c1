// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", GroupID: "manage", Args: usageArgs(cobra.NoArgs),
		Short: "Make, list and revoke the access keys of clients",
		Long: `Make, list and revoke the access keys with which clients connect to a server
that has backend.accessKeys: store.

The commands ask the API of a running server (--server, --token-file; the token
needs the scope admin). With --config they open the store of that configuration
themselves: PostgreSQL at any time, SQLite while no server runs; a running one is
asked instead.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysRevoke())
	return cmd
}

// keyFlags say where the keys are and how they are shown.
type keyFlags struct {
	fleet
	configDir, output string
}

func (f *keyFlags) register(cmd *cobra.Command) {
	f.fleet.register(cmd)
	cmd.Flags().StringVar(&f.configDir, "config", "", "folder of the server's config.json: open its store instead of asking its API")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	cmd.MarkFlagsMutuallyExclusive("config", "server")
	markDirectory(cmd, "config")
	completeOutput(cmd, "table", "json")
}

func newKeysCreate() *cobra.Command {
	var f keyFlags
	var k api.NewAccessKey
	var keyFile string
	cmd := &cobra.Command{
		Use: "create --account ACCOUNT [--cluster CLUSTER]", Args: usageArgs(cobra.NoArgs),
		Short: "Make an access key and show it once",
		Long: `Make an access key for an account, or for one of its clusters, and show it once:
the store keeps only a hash. With --key-file a key is taken that clients have
already.`,
		Example: `  synchronizer keys create --account acme --description "all clusters of acme"
  synchronizer keys create --account acme --cluster prod -o json
  synchronizer keys create --account acme --key-file ./access-key --config ./configuration/server`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if k.Account == "" {
				return fmt.Errorf("%w: --account is missing; see %s --help", app.ErrUsage, cmd.CommandPath())
			}
			if keyFile != "" {
				text, err := os.ReadFile(keyFile)
				if err != nil {
					return fmt.Errorf("reading the key: %w", err)
				}
				if k.Secret = strings.TrimSpace(string(text)); k.Secret == "" {
					return fmt.Errorf("reading the key: %s is empty", keyFile)
				}
			}
			return f.with(cmd, func(ctx context.Context, ring keyring) error {
				key, err := ring.CreateKey(ctx, k)
				if err != nil {
					return err
				}
				if keyFile != "" {
					key.Secret = "" // whoever has the file knows it
				}
				return f.show(cmd, key)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&k.Account, "account", "", "account of the clients")
	cmd.Flags().StringVar(&k.Cluster, "cluster", "", "the one cluster that may use the key (default: every cluster of the account)")
	cmd.Flags().StringVar(&k.Description, "description", "", "what the key is for, in one line")
	cmd.Flags().StringVar(&keyFile, "key-file", "", "file of a key that clients have already, instead of a new one")
	return cmd
}

func newKeysList() *cobra.Command {
	var f keyFlags
	var account string
	var all bool
	cmd := &cobra.Command{
		Use: "list", Args: usageArgs(cobra.NoArgs),
		Short:   "List access keys",
		Example: "  synchronizer keys list\n  synchronizer keys list --account acme --all -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, ring keyring) error {
				keys, err := ring.Keys(ctx, account)
				if err != nil {
					return err
				}
				shown := []api.AccessKey{}
				for _, key := range keys {
					if all || key.Revoked.IsZero() {
						shown = append(shown, key)
					}
				}
				return f.showList(cmd, shown)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&account, "account", "", "only keys of this account")
	cmd.Flags().BoolVar(&all, "all", false, "revoked keys too")
	return cmd
}

func newKeysRevoke() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "revoke ID", Args: usageArgs(cobra.ExactArgs(1)),
		Short: "Revoke an access key",
		Long: `Revoke an access key: nobody can connect with it from now on, and every server
closes the connections that it has let in within 30 seconds.`,
		Example: "  synchronizer keys revoke 3f9c01d2a4b5c6d7",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, ring keyring) error {
				key, err := ring.RevokeKey(ctx, args[0])
				if api.IsNotFound(err) {
					return fmt.Errorf("there is no access key %q: `synchronizer keys list` shows their IDs", args[0])
				}
				if err != nil {
					return err
				}
				return f.show(cmd, key)
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			if len(args) == 0 {
				_ = f.with(cmd, func(ctx context.Context, ring keyring) error { // there is nobody to tell
					keys, err := ring.Keys(ctx, "")
					for _, key := range keys {
						if key.Revoked.IsZero() {
							ids = append(ids, key.ID+"\t"+scopeOf(key)+" "+key.Description)
						}
					}
					return err
				})
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.register(cmd)
	return cmd
}

// keyring is what the API's client and an open store have in common.
type keyring interface {
	CreateKey(ctx context.Context, k api.NewAccessKey) (api.AccessKey, error)
	Keys(ctx context.Context, account string) ([]api.AccessKey, error)
	RevokeKey(ctx context.Context, id string) (api.AccessKey, error)
}

// opened is the keyring of a store that this process has open.
type opened struct{ ring synchronizer.Keyring }

func (o opened) CreateKey(ctx context.Context, k api.NewAccessKey) (api.AccessKey, error) {
	return api.IssueKey(ctx, o.ring, k, time.Now())
}

func (o opened) Keys(ctx context.Context, account string) ([]api.AccessKey, error) {
	return api.ListKeys(ctx, o.ring, account)
}

func (o opened) RevokeKey(ctx context.Context, id string) (api.AccessKey, error) {
	return api.RevokeKey(ctx, o.ring, "", id, time.Now())
}

// with calls do with the keys that the flags name.
func (f *keyFlags) with(cmd *cobra.Command, do func(context.Context, keyring) error) (err error) {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("%w: -o %q is neither table nor json", app.ErrUsage, f.output)
	}
	if f.configDir != "" {
		keys, err := server.OpenKeys(cmd.Context(), f.configDir)
		var running *server.InUseError
		switch {
		case err == nil:
			for _, w := range keys.Warnings {
				cmd.PrintErrln("Warning: configuration:", w.String())
			}
			warnUnused(cmd, keys.Used)
			return errors.Join(do(cmd.Context(), opened{keys.Keyring}), keys.Close())
		case !errors.As(err, &running):
			return err
		}
		warnUnused(cmd, running.Used)
		f.server = running.API
		if !cmd.Flags().Changed("token-file") {
			f.tokenFile = running.TokenFile
		}
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	return f.explain(do(cmd.Context(), client))
}

func warnUnused(cmd *cobra.Command, used bool) {
	if !used {
		cmd.PrintErrln("Warning: backend.accessKeys is not \"store\" in this configuration: its servers do not look at these keys.")
	}
}

// show prints one key, with its secret if it was just made.
func (f *keyFlags) show(cmd *cobra.Command, key api.AccessKey) error {
	if f.output == "json" {
		return printJSON(cmd, key)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 3, ' ', 0)
	for _, line := range [][2]string{
		{"ID", key.ID},
		{"Account", key.Account},
		{"Cluster", orText(key.Cluster, "(all of the account)")},
		{"Description", orDash(key.Description)},
		{"Revoked", timeOrDash(key.Revoked)},
		{"Access key", key.Secret},
	} {
		if line[1] != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if key.Secret != "" {
		cmd.PrintErrln("The access key is shown only now: the store keeps a hash of it.")
	}
	return nil
}

func (f *keyFlags) showList(cmd *cobra.Command, keys []api.AccessKey) error {
	if f.output == "json" {
		return printJSON(cmd, api.AccessKeyList{Items: keys})
	}
	if len(keys) == 0 {
		cmd.PrintErrln("No access keys. Make one: synchronizer keys create --account ACCOUNT")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tACCOUNT\tCLUSTER\tAGE\tREVOKED\tDESCRIPTION")
	for _, k := range keys {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Account, orText(k.Cluster, "*"), age(k.Created), timeOrDash(k.Revoked), orDash(k.Description))
	}
	return w.Flush()
}

func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func scopeOf(k api.AccessKey) string { return k.Account + "/" + orText(k.Cluster, "*") }

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func timeOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
