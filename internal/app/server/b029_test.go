// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/link"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// Case B029: cluster names that are ARNs, URLs or contain dots and blanks. Each is a
// client of its own everywhere: at the door, in the registry, the queue, the store,
// the API and the metrics.
func TestB029ClusterNames(t *testing.T) {
	names := []string{
		"arn:aws:eks:eu-north-1:000000000000:cluster/shop", "https://k8s.example.test:6443", "prod.eu", "My Cluster", "prod",
	}
	b := runBackend(t)
	for _, name := range names {
		require.NoError(t, b.store.IssueAccessKey(t.Context(), synchronizer.HashSecret("key of "+name), synchronizer.IssuedKey{
			AccessKey: synchronizer.AccessKey{Account: "a", Cluster: name, Created: time.Now()},
		}))
	}
	body := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","uid":"u"},"data":{"of":%q}}`, name)
	}
	clients := map[string]*stock.Client{}
	for _, name := range names {
		for _, other := range names {
			if name == other {
				clients[name] = stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{
					Account: "a", Cluster: name, AccessKey: "key of " + name, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
					Objects: []stock.Object{{Kind: configMaps, Namespace: "demo", Name: "one", JSON: body(name)}},
				})
				continue
			}
			d := &link.Dialer{URL: b.ClientsURL(), AccessKey: "key of " + other, Hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: name}}}
			_, err := d.Dial(t.Context())
			require.ErrorIs(t, err, synchronizer.ErrUnauthorized, "%q with the key of %q", name, other)
		}
	}
	for _, name := range names {
		key := synchronizer.ObjectKey{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: name}, Kind: configMaps, Namespace: "demo", Name: "one"}
		require.Eventually(t, func() bool {
			row, err := b.store.Object(t.Context(), key)
			return err == nil && string(row.Body) == body(name)
		}, limit, time.Millisecond, name)
	}
	clusters, err := b.store.Clusters(t.Context(), synchronizer.ClusterID{Account: "a"})
	require.NoError(t, err)
	require.Len(t, clusters, len(names))

	// A command is for one of them; a second one for all shows that nothing else came.
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	ask := func(cluster, object string) {
		m := synchronizer.Message{
			Event: synchronizer.EventGet, Depth: 2, MsgID: object, Kind: configMaps, Namespace: "demo", Name: object,
			ClusterID: synchronizer.ClusterID{Account: "a", Cluster: cluster},
		}
		record, err := encoder.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		require.NoError(t, b.Queue().Publish(t.Context(), synchronizer.In, []synchronizer.Record{record}))
	}
	ask("prod", "only-for-prod")
	for _, name := range names {
		ask(name, "for-all")
	}
	for _, name := range names {
		clients[name].WaitFor(stock.GetObject, configMaps, "demo", "for-all")
		got := 0
		for _, f := range clients[name].Received() {
			if f.Name == "only-for-prod" {
				got++
			}
		}
		require.Equal(t, name == "prod", got == 1, name)
	}

	for _, name := range names {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.APIAddress()+"/api/v1/clusters/a/"+url.PathEscape(name), nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+b.Secrets.APIToken)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		var cluster api.Cluster
		require.NoError(t, json.Unmarshal(text, &cluster), string(text))
		require.Equal(t, name, cluster.Cluster)
		require.EqualValues(t, 1, cluster.Objects)
		clients[name].Close()
	}
	require.Eventually(t, func() bool {
		families, err := b.process.Registry.Gather()
		require.NoError(t, err)
		ended := map[string]float64{}
		for _, family := range families {
			if family.GetName() != "synchronizer_client_disconnection_count" {
				continue
			}
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "cluster" {
						ended[label.GetValue()] = m.GetCounter().GetValue()
					}
				}
			}
		}
		for _, name := range names {
			if ended[name] != 1 {
				return false
			}
		}
		return len(ended) == len(names)
	}, limit, 10*time.Millisecond)
}
