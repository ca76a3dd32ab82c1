// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"synchronizer/internal/api"
	"synchronizer/internal/app"
)

// fleet is how a command finds the API.
type fleet struct{ server, tokenFile string }

// register adds the flags that all reading commands share.
func (f *fleet) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "server", envOr("SYNCHRONIZER_SERVER", "http://127.0.0.1:8090"), "address of the API; SYNCHRONIZER_SERVER")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", envOr("SYNCHRONIZER_TOKEN_FILE", "./data/api-token"), "file of the API token; SYNCHRONIZER_TOKEN_FILE, or the token itself in SYNCHRONIZER_TOKEN")
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// client reads the token and makes the API's client.
func (f *fleet) client() (*api.Client, error) {
	token := os.Getenv("SYNCHRONIZER_TOKEN")
	if token == "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the API token: %w (name its file with --token-file; `synchronizer up` writes <data directory>/api-token)", err)
		}
		token = strings.TrimSpace(string(text))
	}
	server := f.server
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	if u, err := url.Parse(server); err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w: --server %q is not an address like http://127.0.0.1:8090", app.ErrUsage, f.server)
	}
	return &api.Client{Server: server, Token: token}, nil
}

// explain adds the remedy to what went wrong on the way to the API.
func (f *fleet) explain(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (is it running? `synchronizer up` starts one; --server names another)", err)
	case api.IsStatus(err, http.StatusUnauthorized):
		from := f.tokenFile
		if os.Getenv("SYNCHRONIZER_TOKEN") != "" {
			from = "the environment variable SYNCHRONIZER_TOKEN"
		}
		return fmt.Errorf("%w (token of %s; --token-file names another)", err, from)
	}
	return err
}
