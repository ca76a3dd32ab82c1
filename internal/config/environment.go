// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"strings"
)

// envPrefix begins the environment form of the keys that only this project has. Keys of the
// field have none: Kubernetes itself sets variables such as SYNCHRONIZER_BACKEND_PORT for a
// service called synchronizer-backend.
const envPrefix = "SYNCHRONIZER_"

// Env is the world around the process. Its zero value has no variables and no files.
type Env struct {
	// Lookup returns an environment variable, like os.LookupEnv; nil: there are none.
	Lookup func(key string) (string, bool)
	// ConfigDir is searched for config.json after $CONFIG, and holds the default
	// clusterData.json and services.json; /etc/config. "" means none.
	ConfigDir string
	// CredentialsDir holds the files account and accessKey; /etc/credentials. "" means none.
	CredentialsDir string
}

// OS is the environment of this process.
func OS() Env {
	return Env{Lookup: os.LookupEnv, ConfigDir: "/etc/config", CredentialsDir: "/etc/credentials"}
}

// With returns a copy in which the variable key has the value; for flags that stand for one.
func (e Env) With(key, value string) Env {
	lookup := e.Lookup
	e.Lookup = func(name string) (string, bool) {
		if name == key {
			return value, true
		}
		if lookup == nil {
			return "", false
		}
		return lookup(name)
	}
	return e
}

// get returns a variable; like in the field, an empty one counts as unset.
func (e Env) get(key string) string {
	if e.Lookup == nil {
		return ""
	}
	text, _ := e.Lookup(key)
	return text
}

// environment overrides keys: those in the file by their dotted path, ours by the prefixed form
// as well.
func (b *binder) environment(env Env, n *node, resolve func() reflect.Value) {
	for _, child := range n.children {
		field := func() reflect.Value { return fieldOf(resolve(), child) }
		if child.Section {
			b.environment(env, child, func() reflect.Value { return present(field(), child) })
			continue
		}
		if _, inFile := b.lines[strings.ToLower(child.Path)]; inFile {
			b.override(child, field, env, strings.ToUpper(child.Path))
		}
		if child.Env != "" {
			b.override(child, field, env, child.Env)
		}
	}
}

// present makes an optional section that a variable wants to write into.
func present(section reflect.Value, n *node) reflect.Value {
	if !n.optional {
		return section
	}
	if section.IsNil() {
		section.Set(allocate(n.typ))
	}
	return section.Elem()
}

// override sets one key from one variable. Lists of sections and maps are written as JSON.
func (b *binder) override(n *node, field func() reflect.Value, env Env, variable string) {
	text := env.get(variable)
	if text == "" {
		return
	}
	v := &value{kind: 's', text: text}
	if isSectionList(n.typ) || n.typ.Kind() == reflect.Map {
		parsed, err := parse([]byte(text))
		if err != nil {
			b.problems = append(b.problems, Problem{Path: n.Path, Message: "the environment variable " + variable + " must hold JSON"})
			return
		}
		v = parsed
	}
	inner := &binder{lines: map[string]int{}}
	inner.set(n, field(), v, n.Path)
	for _, p := range inner.problems {
		b.problems = append(b.problems, Problem{Path: p.Path, Message: p.Message + ", from the environment variable " + variable})
	}
	for _, w := range inner.warnings {
		b.warnings = append(b.warnings, Problem{Path: w.Path, Message: w.Message + ", from the environment variable " + variable})
	}
	delete(b.lines, strings.ToLower(n.Path)) // the value is no longer the one in the file
}
