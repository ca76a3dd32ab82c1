// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"synchronizer"
)

// client checks what the tables cannot say about the client's sections.
func (k *checker) client() {
	in := &k.config.InCluster
	if k.config.Process.APIURL == "" {
		k.required("inCluster.serverUrl", in.ServerURL, "set it, or name a file with SERVICES, or the backend's API with API_URL")
	}
	k.readable("inCluster.caFile", in.CAFile)
	k.required("inCluster.clusterName", in.ClusterName, "set it, CLUSTER_NAME, or clusterName in clusterData.json")
	k.required("inCluster.account", in.Account, "set it, or provide the file account in the credentials folder")
	k.required("inCluster.accessKey", in.AccessKey.Reveal(), "set it, or provide the file accessKey in the credentials folder")
	if in.ServerURL != "" {
		if fault := faultOfServerURL(in.ServerURL); fault != "" {
			k.problem("inCluster.serverUrl", "%s", fault)
		}
	}
	// They travel as headers of the handshake.
	k.headerText("inCluster.clusterName", in.ClusterName)
	k.headerText("inCluster.account", in.Account)
	k.headerText("inCluster.accessKey", in.AccessKey.Reveal())
	if strings.Contains(in.Account, "/") {
		k.problem("inCluster.account", "must not contain /")
	}
	if in.NamespaceFilterConfigMapName != "" && in.Namespace == "" {
		k.required("inCluster.namespace", "", "it is where the ConfigMap of inCluster.namespaceFilterConfigMapName is")
	}
	if k.config.HTTPEndpoint == nil && len(in.Resources) == 0 {
		k.problem("inCluster.resources", "nothing to do: list kinds here, or add a section httpEndpoint")
	}
	k.resources("inCluster.resources", in.Resources, true)
	k.policy()
	if endpoint := k.config.HTTPEndpoint; endpoint != nil {
		k.resources("httpEndpoint.resources", endpoint.Resources, false)
		if endpoint.ServerPort == in.HealthPort && in.HealthPort != 0 {
			k.problem("httpEndpoint.serverPort", "is the same port as inCluster.healthPort, %d", in.HealthPort)
		}
	}
}

// required misses a value, unless the file is looked at alone and the value may come from elsewhere.
func (k *checker) required(path, text, remedy string) {
	switch {
	case text != "":
	case k.complete:
		k.problem(path, "missing: %s", remedy)
	default:
		k.warn(path, "not in this file: %s", remedy)
	}
}

func (k *checker) headerText(path, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		k.problem(path, "must not contain line breaks or other control characters")
	}
}

// faultOfServerURL says what is wrong with an address, without repeating a password in it.
func faultOfServerURL(text string) string {
	u, err := url.Parse(text)
	var fault *url.Error
	switch {
	case errors.As(err, &fault) || err != nil:
		return "is not an address: write it like wss://host:port"
	case u.Scheme != "ws" && u.Scheme != "wss":
		return strconv.Quote(redactURL(text)) + " must begin with ws:// or wss://"
	case u.Hostname() == "":
		return strconv.Quote(redactURL(text)) + " has no host"
	}
	return ""
}

var (
	resourceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	groupForm    = regexp.MustCompile(`^$|^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
)

// resources checks a list of kinds, which each must be there once. Only what is watched may
// have wildcards.
func (k *checker) resources(path string, list []Resource, watched bool) {
	first := make(map[synchronizer.Kind]int)
	for i, r := range list {
		item := path + "[" + strconv.Itoa(i) + "]"
		k.kindPart(item+".group", r.Group, groupForm, watched, "must be an API group in lower case, or empty")
		if r.Version == "" {
			k.problem(item+".version", "missing")
		}
		k.kindPart(item+".version", r.Version, resourceForm, watched, `must be an API version such as "v1"`)
		if r.Resource == "" {
			k.problem(item+".resource", "missing")
		}
		k.kindPart(item+".resource", r.Resource, resourceForm, watched, `must be a plural name in lower case, such as "pods"`)
		k.selection(item, &r)
		if earlier, double := first[r.Kind()]; double {
			k.problem(item, "%s is already in %s[%d]", r.Kind(), path, earlier)
			continue
		}
		first[r.Kind()] = i
	}
}

// selection checks what selects objects of a kind.
func (k *checker) selection(item string, r *Resource) {
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		k.problem(item+".labelSelector", "%q is not a label selector: %v", r.LabelSelector, err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		k.problem(item+".fieldSelector", "%q is not a field selector: %v", r.FieldSelector, err)
	}
	for _, namespace := range r.Namespaces {
		if !resourceForm.MatchString(namespace) {
			k.problem(item+".namespaces", "%q cannot be a namespace", namespace)
		}
	}
}

func (k *checker) kindPart(path, text string, form *regexp.Regexp, wildcard bool, rule string) {
	switch {
	case text == "*" && wildcard:
	case text == "*":
		k.problem(path, "the wildcard * is only for what is watched, in inCluster.resources")
	case text != "" && !form.MatchString(text):
		k.problem(path, "%q %s", text, rule)
	}
}

// Kind names the kind.
func (r Resource) Kind() synchronizer.Kind {
	return synchronizer.Kind{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// Patches reports whether differences are sent for the kind; without a strategy, objects are.
func (r Resource) Patches() bool { return r.Strategy == StrategyPatch }

// eventResources are the reports that components of Kubescape post: several different ones
// have the same name.
var eventResources = []string{"runtimealerts", "networkstreams", "nodeprofiles", "registrystatuses", "aisandboxheartbeats"}

// Events reports whether every state of the kind's objects is a report that is kept.
func (r Resource) Events() bool {
	if r.Mode == "" {
		return r.Group == "kubescape.io" && slices.Contains(eventResources, r.Resource)
	}
	return r.Mode == "event"
}

// server checks what the tables cannot say about the sections of server, ingester and up.
func (k *checker) server(role Role) {
	b := &k.config.Backend
	k.kinds("ingester.v1Kinds", k.config.Ingester.V1Kinds)
	k.kinds("ingester.eventKinds", k.config.Ingester.EventKinds)
	k.queue(b)
	k.databaseURL(k.config.Store.Postgres.URL.Reveal())
	if role == RoleIngester {
		if b.QueueType() == QueueEmbedded {
			k.problem("backend.messageQueue", "the embedded queue can be read only inside the server: run server or up, or choose a broker")
		}
		if k.config.Store.Postgres.URL == "" {
			k.problem("store.postgres.url", "missing: SQLite can be used only inside the server")
		}
		return
	}
	if enabled := k.config.Ingester.Enabled; enabled != nil && !*enabled && b.QueueType() == QueueEmbedded {
		k.warn("ingester.enabled", "nothing will read the embedded queue: no other process can")
	}
	if b.DataDir == "" && (b.MessageQueue.Embedded.Path == "" || k.config.Store.SQLite.Path == "") {
		k.problem("backend.dataDir", "must not be empty")
	}
	if _, ok := k.address("backend.listen", b.ListenAddress()); ok {
		k.anonymous(b)
	}
	k.authentication(b)
	k.schedules(b)
	k.features(b)
	k.listenerTLS("backend.tls", b.TLS)
	k.publicURL(b.PublicURL)
	if k.config.API.Listen != "" {
		host, ok := k.address("api.listen", k.config.API.Listen)
		if ok && !isLoopback(host) {
			k.problem("api.listen", "%q is not a loopback address: plain HTTP would carry tokens in the clear. Put a proxy with TLS in front of 127.0.0.1:8090", k.config.API.Listen)
		}
	}
	k.ports(b)
}

// databaseURL checks the form only, and repeats nothing of it: a password is in it.
func (k *checker) databaseURL(text string) {
	isURL := strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
	_, err := url.Parse(text)
	if text != "" && (isURL && err != nil || !isURL && !strings.Contains(text, "=")) {
		k.problem("store.postgres.url", "is no address of PostgreSQL: write it like postgres://user:password@host:5432/database?sslmode=verify-full, with other characters than letters and digits of the password as %%40 for @")
	}
}

func (k *checker) kinds(path string, texts []string) {
	for _, text := range texts {
		if _, err := synchronizer.ParseKind(text); err != nil {
			k.problem(path, "%q is not group/version/resource", text)
		}
	}
}

func (k *checker) address(path, text string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		k.problem(path, "%q is not host:port", text)
		return "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > maxPort {
		k.problem(path, "%q must end with a port, 0 to %d", text, maxPort)
		return "", false
	}
	return host, true
}

// ports finds listeners of one process that would take each other's port.
func (k *checker) ports(b *Backend) {
	health, metrics := strconv.Itoa(b.HealthPort), "0"
	if b.PrometheusConfig.Enabled {
		metrics = strconv.Itoa(b.PrometheusConfig.Port) // that of health is shared
	}
	for _, other := range []struct{ path, address string }{
		{"the port for clients", b.ListenAddress()},
		{"api.listen", k.config.API.Listen},
	} {
		_, port, err := net.SplitHostPort(other.address)
		if err != nil || port == "0" {
			continue
		}
		if port == health {
			k.problem("backend.healthPort", "is the same port as %s, %s", other.path, port)
		}
		if port == metrics && metrics != health {
			k.problem("backend.prometheusConfig.port", "is the same port as %s, %s", other.path, port)
		}
	}
	if k.config.API.Listen != "" && k.config.API.Listen == b.ListenAddress() && !strings.HasSuffix(b.ListenAddress(), ":0") {
		k.problem("api.listen", "is the same address as backend.listen")
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
