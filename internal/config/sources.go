// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"synchronizer/internal/discovery"
)

// ClusterData is what the client reads of clusterData.json; other keys are ignored.
type ClusterData struct {
	ClusterName string
	Namespace   string
}

// ReadClusterData reads a clusterData.json.
func ReadClusterData(name string) (ClusterData, error) {
	root, err := readObject(name)
	if err != nil {
		return ClusterData{}, err
	}
	return ClusterData{ClusterName: root.textOf("clusterName"), Namespace: root.textOf("namespace")}, nil
}

// Services is what the client reads of a services file.
type Services struct {
	// Version is v2 or v3.
	Version string
	// Synchronizer is the address of the server; "" when the file does not say.
	Synchronizer string
}

var errServicesVersion = errors.New(`version must be "v2" or "v3"`)

// ReadServices reads a services file, version v2 or v3.
func ReadServices(name string) (Services, error) {
	root, err := readObject(name)
	if err != nil {
		return Services{}, err
	}
	s := Services{Version: root.textOf("version"), Synchronizer: root.member("response").textOf("synchronizer")}
	if s.Version != "v2" && s.Version != "v3" {
		return Services{}, errServicesVersion
	}
	if s.Synchronizer != "" && !strings.Contains(s.Synchronizer, "://") {
		s.Synchronizer = "wss://" + s.Synchronizer
	}
	return s, nil
}

// textOf is the scalar under a key as text, "" for anything else.
func (v *value) textOf(key string) string {
	if m := v.member(key); m != nil {
		return m.text
	}
	return ""
}

// resolveClient fills in what other files and the environment say about the client.
func (b *binder) resolveClient(env Env, c *Config) {
	b.clusterData(env, c)
	if name := env.get("CLUSTER_NAME"); name != "" {
		c.InCluster.ClusterName = name
		b.forget("inCluster.clusterName")
	}
	b.serverURL(env, c)
	b.credentials(env, c)
}

// forget drops the line of a key whose value is no longer the one in config.json.
func (b *binder) forget(path string) { delete(b.lines, strings.ToLower(path)) }

// optionalFile is a file that a variable names, else one in the configuration folder, which may
// be absent. ok is false when there is none.
func optionalFile(env Env, variable, fallback string) (name string, ok bool) {
	if name := env.get(variable); name != "" {
		return name, true
	}
	if env.ConfigDir == "" {
		return "", false
	}
	name = filepath.Join(env.ConfigDir, fallback)
	_, err := os.Stat(name)
	return name, !errors.Is(err, fs.ErrNotExist)
}

func (b *binder) clusterData(env Env, c *Config) {
	name, ok := optionalFile(env, "CLUSTER_CONFIG", "clusterData.json")
	if !ok {
		return
	}
	data, err := ReadClusterData(name)
	if err != nil {
		b.problems = append(b.problems, *fileProblem("CLUSTER_CONFIG", name, err))
		return
	}
	if data.ClusterName != "" {
		c.InCluster.ClusterName = data.ClusterName
		b.forget("inCluster.clusterName")
	}
	if data.Namespace != "" {
		c.InCluster.Namespace = data.Namespace
		b.forget("inCluster.namespace")
	}
}

// serverURL finds the server: the services file, else discovery at API_URL, else the config.
func (b *binder) serverURL(env Env, c *Config) {
	name, ok := optionalFile(env, "SERVICES", "services.json")
	if !ok {
		b.apiURL(env, c)
		return
	}
	services, err := ReadServices(name)
	if err != nil {
		b.problems = append(b.problems, *fileProblem("SERVICES", name, err))
		return
	}
	if services.Synchronizer == "" {
		b.apiURL(env, c)
		next := "inCluster.serverUrl"
		if c.Process.APIURL != "" {
			next = "API_URL"
		}
		b.warn("SERVICES", 0, "%s has no response.synchronizer: using %s", name, next)
		return
	}
	if fault := faultOfServerURL(services.Synchronizer); fault != "" {
		b.problem("SERVICES", 0, "response.synchronizer in %s %s", name, fault)
		return
	}
	c.InCluster.ServerURL = services.Synchronizer
	b.forget("inCluster.serverUrl")
}

// apiURL notes where to ask for the server; that is done when the client runs.
func (b *binder) apiURL(env Env, c *Config) {
	text := env.get("API_URL")
	if text == "" {
		return
	}
	if _, err := discovery.ParseAPI(text); err != nil {
		b.problem("API_URL", 0, "%v", err)
		return
	}
	c.Process.APIURL = text
}

// credentials: if one of the two files exists, both values come from the files.
func (b *binder) credentials(env Env, c *Config) {
	if env.CredentialsDir == "" {
		return
	}
	account, hasAccount := b.credential(env, "account")
	key, hasKey := b.credential(env, "accessKey")
	if !hasAccount && !hasKey {
		return
	}
	c.InCluster.Account, c.InCluster.AccessKey = account, Secret(key)
	b.forget("inCluster.account")
	b.forget("inCluster.accessKey")
	for _, file := range []struct{ name, text string }{{"account", account}, {"accessKey", key}} {
		if file.text == "" && !b.about("inCluster."+file.name) {
			b.problem("inCluster."+file.name, 0, "missing: there are credentials in %s, which win over the configuration, but its file %s is absent or empty",
				env.CredentialsDir, file.name)
		}
	}
}

// about reports whether there is a problem with the key already.
func (b *binder) about(path string) bool {
	for _, p := range b.problems {
		if p.Path == path {
			return true
		}
	}
	return false
}

func (b *binder) credential(env Env, name string) (text string, exists bool) {
	file := filepath.Join(env.CredentialsDir, name)
	data, err := readFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		b.problems = append(b.problems, *fileProblem("inCluster."+name, file, err))
		return "", true
	}
	return strings.TrimSpace(string(data)), true
}
