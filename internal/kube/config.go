// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadOptions say where the configuration of the API server may come from.
type LoadOptions struct {
	Flag      string // --kubeconfig, a path
	Env       string // KUBECONFIG, one or more paths
	AllowHome bool   // whether ~/.kube/config may be used, when nothing else is there
	Home      string // the home folder; empty: the user's
	Context   string // of the kubeconfig; empty: its current one
}

// LoadConfig finds the API server: --kubeconfig, else KUBECONFIG, else the
// service account of the pod, else ~/.kube/config if that is allowed. What is
// named but cannot be read is an error and never a reason to look further. The
// description ("context dev at https://… from /path") is for the log.
func LoadConfig(options LoadOptions) (config *rest.Config, description string, err error) {
	if options.Flag != "" {
		return loadFiles([]string{options.Flag}, options.Context, "--kubeconfig")
	}
	if options.Env != "" {
		var paths []string
		for _, path := range filepath.SplitList(options.Env) {
			if path != "" {
				paths = append(paths, path)
			}
		}
		return loadFiles(paths, options.Context, "KUBECONFIG")
	}
	config, err = rest.InClusterConfig()
	switch {
	case err == nil:
		return config, "in-cluster service account at " + address(config), nil
	case !errors.Is(err, rest.ErrNotInCluster):
		return nil, "", fmt.Errorf("reading the pod's service account: %w; is automountServiceAccountToken off?", err)
	case !options.AllowHome:
		return nil, "", errors.New("no API server: not running in a pod; name a kubeconfig with --kubeconfig or KUBECONFIG")
	}
	home := options.Home
	if home == "" {
		if home, err = os.UserHomeDir(); err != nil {
			return nil, "", fmt.Errorf("no API server: finding the home folder: %w; name a kubeconfig with --kubeconfig or KUBECONFIG", err)
		}
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("no API server: not running in a pod, and %s does not exist; name a kubeconfig with --kubeconfig or KUBECONFIG", path)
	}
	return loadFiles([]string{path}, options.Context, "the home folder")
}

// loadFiles reads kubeconfig files; of several those that do not exist are
// passed over, as kubectl does.
func loadFiles(paths []string, context, source string) (*rest.Config, string, error) {
	var present []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist) && len(paths) > 1:
			continue
		case err != nil:
			return nil, "", fmt.Errorf("reading kubeconfig %s (from %s): %w; correct the path or its permissions", path, source, withoutPath(err))
		case info.IsDir():
			return nil, "", fmt.Errorf("reading kubeconfig %s (from %s): it is a folder; name a file", path, source)
		}
		if _, err := clientcmd.LoadFromFile(path); err != nil {
			return nil, "", fmt.Errorf("reading kubeconfig %s (from %s): %w; `kubectl --kubeconfig %s config view` shows whether it is valid", path, source, withoutPath(err), path)
		}
		present = append(present, path)
	}
	if len(present) == 0 {
		return nil, "", fmt.Errorf("reading kubeconfig (from %s): none of the files exists: %s", source, strings.Join(paths, ", "))
	}
	where := strings.Join(present, ", ")
	raw, err := (&clientcmd.ClientConfigLoadingRules{Precedence: present}).Load()
	if err != nil {
		return nil, "", fmt.Errorf("reading kubeconfig %s: %w", where, err)
	}
	name := context
	if name == "" {
		name = raw.CurrentContext
	}
	if name == "" {
		return nil, "", fmt.Errorf("reading kubeconfig %s: it has no current context; set one with `kubectl config use-context`", where)
	}
	if raw.Contexts[name] == nil {
		return nil, "", fmt.Errorf("reading kubeconfig %s: it has no context %q; `kubectl config get-contexts` lists them", where, name)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading kubeconfig %s: context %q: %w", where, name, err)
	}
	return config, fmt.Sprintf("context %s at %s from %s", name, address(config), where), nil
}

// address is the API server's, without credentials that it may hold.
func address(config *rest.Config) string {
	u, err := url.Parse(config.Host)
	if err != nil {
		return "an address that is not valid"
	}
	return u.Redacted()
}

func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
