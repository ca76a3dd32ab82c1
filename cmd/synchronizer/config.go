// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"synchronizer/internal/app"
	"synchronizer/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", GroupID: "tools", Args: usageArgs(cobra.NoArgs),
		Short: "Check a configuration, and show what can be configured",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigValidate(), newConfigDefaults(), newConfigSchema())
	return cmd
}

func newConfigValidate() *cobra.Command {
	var roleName string
	cmd := &cobra.Command{
		Use: "validate FILE|FOLDER", Args: usageArgs(cobra.ExactArgs(1)),
		Short: "Check a config.json and print all problems at once",
		Long: `Check a config.json and print all problems at once, each with its path. Exit code
2 if there is one; warnings do not count.`,
		Example: "  synchronizer config validate ./configuration/client\n  synchronizer config validate server.json --role server",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				name = filepath.Join(name, "config.json")
			}
			role, err := config.RoleOfFile(name)
			if roleName != "" {
				role, err = config.ParseRole(roleName)
				if err != nil {
					err = fmt.Errorf("%w: %w", app.ErrUsage, err)
				}
			}
			if err != nil {
				return err
			}
			warnings, err := config.ValidateFile(name, role)
			for _, w := range warnings {
				cmd.PrintErrln("Warning:", w.String())
			}
			if err != nil {
				return err
			}
			cmd.Printf("%s is a valid configuration for role %s.\n", name, role)
			return nil
		},
	}
	cmd.Flags().StringVar(&roleName, "role", "", "client, server, ingester or up (default: what the file looks like)")
	return cmd
}

func newConfigDefaults() *cobra.Command {
	var roleName string
	cmd := &cobra.Command{
		Use: "defaults", Args: usageArgs(cobra.NoArgs),
		Short: "Print the configuration that an empty file gives",
		RunE: func(cmd *cobra.Command, _ []string) error {
			role, err := config.ParseRole(roleName)
			if err != nil {
				return fmt.Errorf("%w: %w", app.ErrUsage, err)
			}
			text, err := config.DefaultsJSON(role)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&roleName, "role", "client", "client, server, ingester or up")
	return cmd
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Args: usageArgs(cobra.NoArgs),
		Short: "Print the JSON schema of config.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := config.SchemaJSON()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
