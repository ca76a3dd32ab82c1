// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/diff"
	"synchronizer/internal/link/stock"
)

// What a client never told, although its connection was never cut, is found by the
// schedule of the configuration file: a server process, and a client of the field.
func TestScheduledReconciliation(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), reserve(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"backend":{"accessKeys":"store","reconciliationTaskConfig":{
		"cronSchedule":"CRON_TZ=Asia/Kolkata */2 * * * * *","intervalFromConnectionSeconds":1,"sendBatch":true}}}`), 0o600))
	p := startCommand(t, "up", exec.Command(program, "up", "--config", dir, "--data-dir", dir, "--listen", at.clients, "--api-listen", at.api, "--health-port", "0"))
	eventually(t, "the backend is ready", func() bool {
		_, err := os.Stat(filepath.Join(dir, "addresses.json"))
		return err == nil || !p.runs()
	})
	require.True(t, p.runs(), "the backend has ended")
	b := &backend{clients: at.clients, api: newAPI(t, at.api, secret(t, dir, "api-token"))}

	const cluster = "scheduled"
	var mu sync.Mutex // guards state and the order of what is sent
	state := stock.NewCluster(map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy})
	transport := &http.Transport{}
	ws, _, err := websocket.Dial(t.Context(), "ws://"+at.clients, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{
			"X-Api-Account": {server.LocalAccount}, "X-Api-Cluster": {cluster}, "X-Api-Key": {secret(t, dir, "access-key")}, "X-Synchronizer-Version": {"v0.0.140"},
		},
	})
	require.NoError(t, err)
	ws.SetReadLimit(-1)
	ctx, ended := context.WithoutCancel(t.Context()), make(chan struct{})
	t.Cleanup(func() {
		_ = ws.CloseNow() // ends the reader
		<-ended
		transport.CloseIdleConnections()
	})
	say := func(change func() []stock.Frame) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range change() {
			if ws.Write(ctx, websocket.MessageBinary, f.Raw) != nil {
				return // it has ended
			}
		}
	}
	go func() {
		defer close(ended)
		for {
			_, raw, err := ws.Read(ctx)
			if err != nil {
				return
			}
			say(func() []stock.Frame { return state.Answer(raw) })
		}
	}()
	want := diff.Set{}
	agree := func(what string) {
		t.Helper()
		eventually(t, what, func() bool {
			stored, err := b.stored(t.Context(), server.LocalAccount, cluster)
			return err == nil && diff.Compare(want, stored).Equal()
		})
	}
	has := func(o stock.Object) {
		want[diff.Key{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}] = diff.Entry{UID: "uid-of-" + o.Name, Checksum: stock.Checksum(o.JSON)}
	}
	for _, name := range []string{"stays", "changes", "goes"} {
		o := stockObject(configMaps, name, 0)
		has(o)
		say(func() []stock.Frame { return state.Set(o) })
	}
	agree("what was told is stored")

	// Nobody tells any of this.
	changed, created := stockObject(configMaps, "changes", 1), stockObject(configMaps, "comes", 1)
	has(changed)
	has(created)
	delete(want, diff.Key{Kind: configMaps, Namespace: "default", Name: "goes"})
	mu.Lock()
	state.Set(changed)
	state.Set(created)
	state.Delete(configMaps, "default", "goes")
	mu.Unlock()
	agree("what was not told was found")
}
