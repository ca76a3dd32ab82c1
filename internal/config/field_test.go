// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tables declare exactly the keys of the struct tree, each with a text.
func TestTablesMatchTheStructTree(t *testing.T) {
	declared := map[string]bool{}
	for _, table := range [][]Field{clientFields, serverFields} {
		for _, f := range table {
			require.False(t, declared[f.Path], "%s is declared twice", f.Path)
			declared[f.Path] = true
		}
	}
	for _, f := range Fields() {
		require.True(t, declared[f.Path], "%s is not declared", f.Path)
		require.NotEmpty(t, f.Doc, f.Path)
		require.True(t, strings.HasSuffix(f.Doc, "."), f.Path)
		delete(declared, f.Path)
	}
	require.Empty(t, declared, "declared, but not in the struct tree")
}

// Every example is a value that the reader takes.
func TestExamplesCanBeRead(t *testing.T) {
	for _, f := range Fields() {
		if f.Example == "" {
			continue
		}
		text := f.Example
		parts := strings.Split(f.Path, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			key, list := strings.CutSuffix(parts[i], "[]")
			if list {
				text = "[" + text + "]"
			}
			text = `{"` + key + `":` + text + `}`
		}
		_, b := read(t, text)
		require.Empty(t, b.problems, text)
		require.Empty(t, b.warnings, text)
	}
}

func TestEnvironmentNames(t *testing.T) {
	names := map[string]string{}
	for _, f := range Fields() {
		if f.Env == "" {
			continue
		}
		require.Equal(t, Ours, f.Origin, f.Path)
		require.Empty(t, names[f.Env], "%s and %s share a variable", f.Path, names[f.Env])
		names[f.Env] = f.Path
	}
	require.Equal(t, "inCluster.spoolDir", names["SYNCHRONIZER_INCLUSTER_SPOOLDIR"])
}

// The printed defaults are a file that gives the defaults, without a warning.
func TestDefaultsRoundTrip(t *testing.T) {
	for _, role := range []Role{RoleClient, RoleServer, RoleIngester, RoleUp} {
		text, err := DefaultsJSON(role)
		require.NoError(t, err)
		c, b := read(t, string(text))
		require.Empty(t, b.problems)
		require.Empty(t, b.warnings)
		b.normalize(c)
		require.Equal(t, Default(), c)
		_, warnings := c.check(role, true)
		require.Empty(t, warnings)
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	text, err := SchemaJSON()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	for _, f := range Fields() {
		place := schema
		for _, part := range strings.Split(f.Path, ".") {
			key, list := strings.CutSuffix(part, "[]")
			properties, ok := place["properties"].(map[string]any)
			require.True(t, ok, f.Path)
			place, ok = properties[key].(map[string]any)
			require.True(t, ok, f.Path)
			if list {
				place, ok = place["items"].(map[string]any)
				require.True(t, ok, f.Path)
			}
		}
		require.Equal(t, f.Doc, place["description"], f.Path)
		require.Equal(t, f.Secret, place["writeOnly"] == true, f.Path)
	}
}

// Optional sections have defaults that pass the checks of the tables.
func TestDefaultsOfOptionalSections(t *testing.T) {
	c := Default()
	for _, section := range []any{&c.HTTPEndpoint, &c.Backend.PulsarConfig, &c.Backend.MessageQueue.KafkaConfig, &c.Backend.MessageQueue.NATSConfig} {
		pointer := reflect.ValueOf(section).Elem()
		pointer.Set(allocate(pointer.Type().Elem()))
	}
	for _, role := range []Role{RoleClient, RoleServer} {
		problems, _ := c.check(role, false)
		for _, p := range problems {
			require.Contains(t, []string{"backend.pulsarConfig.url", "backend.allowAnonymous"}, p.Path, p.Message)
		}
	}
}

// TestKeysAreThoseOfTheirFields: two keys that have changed places would be read
// without a word.
func TestKeysAreThoseOfTheirFields(t *testing.T) {
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			name := strings.ToLower(of.Field(i).Name)
			if key == "-" {
				continue
			}
			key = strings.TrimSuffix(strings.ToLower(key), "config") // reconciliationTaskConfig
			require.Equal(t, strings.TrimSuffix(name, "config"), key, of.Name())
			visit(of.Field(i).Type)
		}
	}
	visit(reflect.TypeFor[Config]())
}
