// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// read binds a text without validating it.
func read(t testing.TB, text string) (*Config, *binder) {
	t.Helper()
	root, err := parseObject([]byte(text))
	require.NoError(t, err)
	b := &binder{file: "config.json", lines: map[string]int{}}
	c := Default()
	b.section(tree, reflect.ValueOf(c).Elem(), root, "")
	return c, b
}

func TestReadingRules(t *testing.T) {
	port := func(c *Config) any { return c.Backend.Port }
	include := func(c *Config) any { return c.InCluster.IncludeNamespaces }
	window := func(c *Config) any { return c.InCluster.CoalesceWindow.Std() }
	anonymous := func(c *Config) any { return c.Backend.AllowAnonymous }
	account := func(c *Config) any { return c.InCluster.Account }
	for _, test := range []struct {
		text string
		get  func(*Config) any
		want any
	}{
		{`{"backend":{"port":8089}}`, port, 8089},
		{`{"BACKEND":{"PORT":"8089"}}`, port, 8089},
		{`{"backend":{"port":8089.0}}`, port, 8089},
		{`{"backend":{"port":"08"}}`, port, 8},
		{`{"backend":{"port":null}}`, port, 8080},
		{`{"backend":{"port":""}}`, port, 8080},
		{`{"backend":null}`, port, 8080},
		{"\ufeff" + `{"backend":{"port":1}}`, port, 1},
		{`{"backend":{"allowAnonymous":"true"}}`, anonymous, true},
		{`{"backend":{"allowAnonymous":1}}`, anonymous, true},
		{`{"backend":{"allowAnonymous":""}}`, anonymous, false},
		{`{"inCluster":{"account":12345678901234567890}}`, account, "12345678901234567890"},
		{`{"inCluster":{"includeNamespaces":"a, b,,c"}}`, include, []string{"a", " b", "", "c"}},
		{`{"inCluster":{"includeNamespaces":""}}`, include, []string{}},
		{`{"inCluster":{"includeNamespaces":["a,b",1]}}`, include, []string{"a,b", "1"}},
		{`{"inCluster":{"coalesceWindow":"250ms"}}`, window, 250 * time.Millisecond},
		{`{"inCluster":{"coalesceWindow":2}}`, window, 2 * time.Second},
		{`{"inCluster":{"coalesceWindow":"2.5"}}`, window, 2500 * time.Millisecond},
		{`{"inCluster":{"coalesceWindow":0}}`, window, time.Duration(0)},
		{`{"inCluster":{"resources":{"version":"v1"}}}`, func(c *Config) any { return c.InCluster.Resources }, []Resource{{Version: "v1"}}},
		{`{"httpEndpoint":{}}`, func(c *Config) any { return c.HTTPEndpoint.ServerPort }, 8089},
		{`{"httpEndpoint":null}`, func(c *Config) any { return c.HTTPEndpoint == nil }, true},
		{`{"ingester":{"enabled":"false"}}`, func(c *Config) any { return c.IngesterEnabled() }, false},
		{`{"backend":{"authenticationServer":{"headerToHeaderMapping":{"X-Api-Key":"X-Key"}}}}`, func(c *Config) any {
			return c.Backend.AuthenticationServer.HeaderToHeaderMapping
		}, map[string]string{"X-Api-Key": "X-Key"}},
	} {
		c, b := read(t, test.text)
		require.Empty(t, b.problems, test.text)
		require.Equal(t, test.want, test.get(c), test.text)
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]error{
		"-1s": errNegative, "-1": errNegative, "9999999999999h": errTooLarge, "1e300": errTooLarge, "1e999": errTooLarge,
		"abc": errSyntax, "": errSyntax, "NaN": errSyntax, "5 apples": errSyntax, "1s": nil, "3": nil, "0": nil, "1h30m": nil,
	} {
		_, err := parseDuration(text)
		require.ErrorIs(t, err, want, text)
	}
}

func TestLimitsThatMeanTheDefault(t *testing.T) {
	for _, ttl := range []string{"0", "-3", "99999999999999999999", "1e30", "9223372036854775807", `"9300000000"`} {
		c, b := read(t, `{"inCluster":{"deduplication":{"ttlSeconds":`+ttl+`,"maxMessages":-1}},"backend":{"replay":{"ttlSeconds":`+ttl+`}}}`)
		b.normalize(c)
		require.Empty(t, b.problems, ttl)
		require.Equal(t, Deduplication{TTLSeconds: 600, MaxMessages: 10000}, c.InCluster.Deduplication, ttl)
		require.Equal(t, Seconds(300), c.Backend.Replay.TTLSeconds, ttl)
	}
}

func TestEnvironment(t *testing.T) {
	load := func(content string, pairs ...string) (*Config, Warnings, error) {
		return LoadServer(variables(folder(t, "config.json", content), pairs...))
	}
	const local = `{"backend":{"Listen":"127.0.0.1:0","PORT":1,"skipAlertsFrom":[],"allowAnonymous":true}}`

	c, _, err := load(local, "BACKEND.PORT", "9090", "BACKEND.SKIPALERTSFROM", "a,b", "BACKEND.ALLOWANONYMOUS", "false")
	require.NoError(t, err)
	require.Equal(t, 9090, c.Backend.Port)
	require.Equal(t, []string{"a", "b"}, c.Backend.SkipAlertsFrom)
	require.False(t, c.Backend.AllowAnonymous)

	c, _, err = load(local, "BACKEND.HEALTHPORT", "9091", "BACKEND_PORT", "2", "backend.port", "3", "BACKEND.PORT", "")
	require.NoError(t, err)
	require.Equal(t, 7888, c.Backend.HealthPort, "the key is not in the file")
	require.Equal(t, 1, c.Backend.Port, "an empty variable counts as unset, other spellings are not read")

	c, _, err = load(`{"backend":{"listen":null,"allowAnonymous":true}}`, "BACKEND.LISTEN", "127.0.0.1:5")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:5", c.Backend.Listen, "null is in the file")

	c, _, err = load(local, "SYNCHRONIZER_BACKEND_HEALTHPORT", "9091", "SYNCHRONIZER_BACKEND_PORT", "tcp://10.0.0.1:8080",
		"SYNCHRONIZER_INGESTER_ENABLED", "true", "SYNCHRONIZER_BACKEND_MESSAGEQUEUE_NATSCONFIG_PREFIX", "x",
		"BACKEND.LISTEN", "127.0.0.1:6", "SYNCHRONIZER_BACKEND_LISTEN", "127.0.0.1:7")
	require.NoError(t, err, "Kubernetes sets such a variable for a service")
	require.Equal(t, 9091, c.Backend.HealthPort)
	require.Equal(t, "127.0.0.1:7", c.Backend.Listen, "the prefixed form wins")
	require.Equal(t, "x", c.Backend.MessageQueue.NATSConfig.Prefix)
	require.True(t, *c.Ingester.Enabled)

	_, _, err = load(local, "BACKEND.PORT", "many", "SYNCHRONIZER_INGESTER_TOMBSTONETTL", "-5", "MAX_OBJECT_SIZE", "big")
	require.EqualError(t, err, `configuration has 3 problems:
  backend.port: "many" is not a number, from the environment variable BACKEND.PORT
  ingester.tombstoneTTL: "-5" must not be negative, from the environment variable SYNCHRONIZER_INGESTER_TOMBSTONETTL
  MAX_OBJECT_SIZE: must be a number of bytes, 1 or more`)

	client, _, err := LoadClient(variables(folder(t, "config.json", minimalClient),
		"INCLUSTER.RESOURCES", `[{"version":"v1","resource":"nodes"}]`, "INCLUSTER.ACCOUNT", "other", "SYNCHRONIZER_INCLUSTER_BURST", "7"))
	require.NoError(t, err)
	require.Equal(t, []Resource{{Version: "v1", Resource: "nodes", Strategy: StrategyCopy}}, client.InCluster.Resources)
	require.Equal(t, "other", client.InCluster.Account)
	require.Equal(t, 7, client.InCluster.Burst)

	_, _, err = LoadClient(variables(folder(t, "config.json", minimalClient), "INCLUSTER.RESOURCES", `pods`))
	require.ErrorContains(t, err, "inCluster.resources: the environment variable INCLUSTER.RESOURCES must hold JSON")
}

// Secrets appear in no error, warning, print or JSON.
func TestSecretsStayHidden(t *testing.T) {
	const secret = "hunter2"
	content := strings.ReplaceAll(`{"inCluster":{"serverUrl":"wss://u:S@h","accessKey":"S","account":"a","clusterName":"c",
 "resources":[{"version":"v1","resource":"pods"}]},
 "backend":{"messageQueue":{"kafkaConfig":{"saslPassword":"S"},"natsConfig":{"password":"S","token":"S"}},
 "pulsarConfig":{"adminUrl":"http://u:S@h:1/%zz","url":"pulsar://u:S@h"}},"store":{"postgres":{"url":"postgres://u:S@h/d"}}}`, "S", secret)
	c, b := read(t, content)
	redactedConfig := c.Redacted()
	text, err := json.Marshal(redactedConfig)
	require.NoError(t, err)
	require.NotContains(t, string(text), secret)
	require.Contains(t, string(text), redacted)
	require.NotContains(t, fmt.Sprintf("%+v %#v %s", redactedConfig.InCluster, *redactedConfig, redactedConfig.Store.Postgres.URL), secret)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", c.InCluster.AccessKey, c.Store, c.Store, c.Store.Postgres.URL), secret)
	require.Equal(t, secret, c.InCluster.AccessKey.Reveal(), "the original is untouched")
	for _, role := range []Role{RoleClient, RoleServer, RoleIngester, RoleUp} {
		problems, warnings := c.check(role, true)
		require.NotContains(t, problems.Error()+warnings.String(), secret)
	}
	require.NotContains(t, b.warnings.String(), secret)

	_, err = ParseRole("x")
	require.Error(t, err)
	_, b = read(t, `{"inCluster":{"accessKey":["hunter2"],"account":"x"},"store":{"postgres":{"url":{"hunter2":1}}}}`)
	require.Len(t, b.problems, 2)
	require.NotContains(t, b.problems.Error(), secret)
}

// Whatever the bytes: no panic, and what is read and written again is the same configuration.
func FuzzReader(f *testing.F) {
	f.Add([]byte(minimalClient))
	f.Add([]byte(`{"backend":{"port":"1","replay":{"ttlSeconds":1e30},"messageQueue":{"natsConfig":{}}},"api":{"listen":""},"resources":[{}]}`))
	f.Add([]byte(`{"ingester":{"enabled":"no","tombstoneTTL":"9h","v1Kinds":"a,b"},"httpEndpoint":{"resources":{"version":1}}}`))
	f.Add([]byte(`[1,]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := parseObject(data)
		if err != nil {
			return
		}
		b := &binder{lines: map[string]int{}}
		c := Default()
		b.section(tree, reflect.ValueOf(c).Elem(), root, "")
		b.normalize(c)
		for _, role := range []Role{RoleClient, RoleServer, RoleIngester, RoleUp} {
			problems, warnings := c.check(role, true)
			_ = problems.Error() + warnings.String()
		}
		// Secrets do not come back from JSON, so two printed forms are compared.
		printed, err := json.Marshal(c.Redacted())
		require.NoError(t, err)
		again, second := read(t, string(printed))
		require.Empty(t, second.problems)
		printedAgain, err := json.Marshal(again.Redacted())
		require.NoError(t, err)
		require.JSONEq(t, string(printed), string(printedAgain))
	})
}
