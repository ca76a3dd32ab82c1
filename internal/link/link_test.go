// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testHello = synchronizer.Hello{
	ClusterID:           synchronizer.ClusterID{Account: "11111111", Cluster: "cluster-1"},
	SynchronizerVersion: "v0.0.140", HelmVersion: "h", GitVersion: "v1.36.3", CloudProvider: "aws",
}

func testDialer(server *httptest.Server, setup linktest.Setup) *Dialer {
	return &Dialer{
		URL: server.URL, Hello: testHello, AccessKey: "key", Drop: setup.ClientDrop,
		Limits: Limits{MaxMessageBytes: setup.MaxMessageBytes, WriteTimeout: setup.WriteTimeout, PingInterval: setup.PingInterval},
	}
}

// testServer gives every accepted link to the channel.
func testServer(t testing.TB, setup linktest.Setup, start func(*httptest.Server)) (*httptest.Server, <-chan synchronizer.Link) {
	links := make(chan synchronizer.Link, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hello, key, err := ParseHello(r, ExtraHeaders{ClusterUID: "X-Uid", ResourceGroup: "X-Group"})
		if err == nil && key != "key" {
			err = synchronizer.ErrUnauthorized
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		l, err := Accept(w, r, Options{
			Hello: hello, Drop: setup.ServerDrop,
			Limits: Limits{MaxMessageBytes: setup.MaxMessageBytes, WriteTimeout: setup.WriteTimeout, PingInterval: setup.PingInterval},
		})
		if err == nil {
			links <- l
		}
	}))
	start(server)
	t.Cleanup(server.Close)
	return server, links
}

func pair(t testing.TB, setup linktest.Setup, start func(*httptest.Server)) (client, server *v1) {
	s, links := testServer(t, setup, start)
	d := testDialer(s, setup)
	if s.TLS != nil {
		d.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	c, err := d.Dial(t.Context())
	require.NoError(t, err)
	client, server = c.(*v1), (<-links).(*v1)
	t.Cleanup(func() {
		client.conn.abort() // many tests leave a peer that does not read
		require.NoError(t, client.Close(1000, ""))
		require.NoError(t, server.Close(1000, ""))
	})
	return client, server
}

func factory(start func(*httptest.Server)) linktest.Factory {
	return func(t *testing.T, setup linktest.Setup) linktest.Pair {
		client, server := pair(t, setup, start)
		inject := func(l *v1) func([]byte, bool) error {
			return func(frame []byte, binary bool) error {
				typ := websocket.MessageText
				if binary {
					typ = websocket.MessageBinary
				}
				return l.ws.Write(context.Background(), typ, frame) // t.Context would close it
			}
		}
		return linktest.Pair{
			Client: client, Server: server, ToServer: inject(client), ToClient: inject(server),
			Cut: func() {
				client.conn.abort()
				server.conn.abort()
			},
		}
	}
}

func TestContract(t *testing.T)        { linktest.Run(t, factory((*httptest.Server).Start)) }
func TestContractOverTLS(t *testing.T) { linktest.Run(t, factory((*httptest.Server).StartTLS)) }
