// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics of a stock API server
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// proxyName is who kube-apiserver is towards an aggregated API server.
const proxyName = "front-proxy-client"

// apiServerFlags are the flags of a stock kube-apiserver that make it small,
// independent of the machine's network, and complete without other components.
func apiServerFlags(c certificates, etcdEndpoint, tokenFile string) []string {
	return []string{
		"--etcd-servers=" + etcdEndpoint,
		"--bind-address=127.0.0.1",
		// Asked of the machine's routes otherwise, of which a sandbox may have none.
		"--advertise-address=127.0.0.1",
		"--tls-cert-file=" + c.serving.cert,
		"--tls-private-key-file=" + c.serving.key,
		"--client-ca-file=" + c.ca.cert,
		"--token-auth-file=" + tokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.serviceAccountKey,
		"--service-account-signing-key-file=" + c.serviceAccountKey,
		// Nobody makes the service account that this plugin demands of every pod.
		"--disable-admission-plugins=ServiceAccount",
		// It would want an address that is not loopback.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged=true",
		"--enable-priority-and-fairness=false",
		"--profiling=false",
		// Open watches are told to end; without it they hold up the end for a minute.
		"--shutdown-watch-termination-grace-period=1s",
		"--requestheader-client-ca-file=" + c.proxyCA.cert,
		"--requestheader-allowed-names=" + proxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.proxy.cert,
		"--proxy-client-key-file=" + c.proxy.key,
	}
}

// serveAPI runs kube-apiserver on listener until ctx ends.
func serveAPI(ctx context.Context, listener net.Listener, flags []string) error {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	logs.AddFlags(fs, logs.SkipLoggingConfigurationFlags())
	if err := fs.Parse(flags); err != nil {
		return fmt.Errorf("reading kube-apiserver flags: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return errors.New("listener is not TCP")
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindPort = address.Port
	s.SecureServing.ExternalAddress = address.IP

	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	// The server warns itself of the deprecated kinds that it serves.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := s.Complete(ctx)
	if err != nil {
		return fmt.Errorf("completing kube-apiserver options: %w", err)
	}
	if problems := completed.Validate(); len(problems) > 0 {
		return fmt.Errorf("checking kube-apiserver options: %w", utilerrors.NewAggregate(problems))
	}
	return app.Run(ctx, completed)
}
