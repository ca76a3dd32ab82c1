// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

// revocable are access keys that can be revoked, or not be read, while they are used.
type revocable struct {
	synchronizer.Credentials

	mu    sync.Mutex
	known map[[32]byte]synchronizer.AccessKey
	err   error
	asked int
	slow  time.Duration // before an answer
}

func newRevocable(keys map[string]synchronizer.AccessKey) *revocable {
	r := &revocable{known: map[[32]byte]synchronizer.AccessKey{}}
	for secret, key := range keys {
		r.known[synchronizer.HashSecret(secret)] = key
	}
	return r
}

func (r *revocable) AccessKey(_ context.Context, hash [32]byte) (synchronizer.AccessKey, error) {
	r.mu.Lock()
	slow := r.slow
	r.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow) // of the bubble
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	key, ok := r.known[hash]
	if !ok && r.err == nil {
		return key, synchronizer.ErrNotFound
	}
	return key, r.err
}

func (r *revocable) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *revocable) revoke(secret string) {
	r.set(func() { delete(r.known, synchronizer.HashSecret(secret)) })
}

// closedLink is a silentLink that remembers how it was closed.
type closedLink struct {
	silentLink
	code *int
}

func (l closedLink) Close(code int, reason string) error {
	if *l.code == 0 {
		*l.code = code
	}
	return l.silentLink.Close(code, reason)
}

// admit does what ServeHTTP does with a client that shows a key; the code is that
// with which its connection was closed.
func (c *clock) admit(t *testing.T, id synchronizer.ClusterID, key string) (code *int) {
	t.Helper()
	code = new(int)
	conn := &connection{
		server: c.Server, source: "s-" + id.String(), since: time.Now(), key: synchronizer.HashSecret(key),
		link:  closedLink{silentLink{gone: make(chan struct{})}, code},
		hello: synchronizer.Hello{ClusterID: id},
	}
	conn.ctx, conn.end = context.WithCancel(context.WithoutCancel(t.Context()))
	conn.up, conn.down = newPump(c.options.UpwardBytes, conn.publish), newPump(c.options.BacklogBytes, conn.send)
	require.True(t, c.enter())
	done, err := c.registry.enter(t.Context(), id)
	require.NoError(t, err)
	older, replacements := c.registry.add(conn, conn.since)
	done()
	go c.serve(conn, older, replacements, c.open.Done)
	synctest.Wait()
	return code
}

// runs runs the server in the bubble until the test ends.
func (c *clock) runs(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	synctest.Wait()
}

// TestRevokedKeysCloseConnections on every server within 30 s, and those of other
// keys stay.
func TestRevokedKeysCloseConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newRevocable(map[string]synchronizer.AccessKey{"one": {Account: "a"}, "two": {Account: "a"}, "bound": {Account: "b", Cluster: "c"}})
		var log logs
		pods := []*clock{newClock(t, 0), newClock(t, 0)}
		cluster := func(i int) synchronizer.ClusterID {
			return synchronizer.ClusterID{Account: "a", Cluster: fmt.Sprint("c-", i)}
		}
		var revoked, kept []*int
		for i, pod := range pods {
			pod.options.Authenticator = AccessKeys{Credentials: keys}
			pod.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			pod.runs(t)
			revoked = append(revoked, pod.admit(t, cluster(i), "one"), pod.admit(t, cluster(i+10), "one"))
			kept = append(kept, pod.admit(t, cluster(i+20), "two"), pod.admit(t, synchronizer.ClusterID{Account: "b", Cluster: "c"}, "bound"))
		}
		closed := func() (n int) {
			for _, code := range append(revoked, kept...) {
				if *code != 0 {
					n++
				}
			}
			return n
		}
		pass(5 * time.Minute)
		require.Zero(t, closed())
		keys.revoke("one")
		pass(30 * time.Second)
		for _, code := range revoked {
			require.Equal(t, 1008, *code)
		}
		require.Equal(t, len(revoked), closed(), "the others stay")
		for _, pod := range pods {
			require.Equal(t, 2, pod.registry.count())
			require.InDelta(t, 2, testutil.ToFloat64(pod.metrics.revoked), 0)
		}
		require.Contains(t, log.String(), `cluster=c-0 connection=s-a/c-0 reason="unauthorized: the access key is unknown or was revoked"`)
		require.NotContains(t, log.String(), "one\"")
	})
}

// deafLink is one whose client does not answer when it is closed.
type deafLink struct {
	silentLink
	closed *atomic.Int32
}

func (l deafLink) Close(code int, reason string) error {
	time.Sleep(time.Second) // of the bubble
	l.closed.Add(1)
	return l.silentLink.Close(code, reason)
}

// TestRevokedRightAfterALook is the worst case: the connections are looked at again
// only later, the store is slow, and of ten thousand clients none answers.
func TestRevokedRightAfterALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newRevocable(map[string]synchronizer.AccessKey{"one": {Account: "a"}})
		c := newClock(t, 0)
		c.options.Authenticator = AccessKeys{Credentials: keys}
		c.runs(t)
		began := time.Now()
		var closed atomic.Int32
		for i := range 10_000 {
			conn := &connection{
				server: c.Server, source: fmt.Sprint(i), since: began, opened: began, key: synchronizer.HashSecret("one"),
				hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: fmt.Sprint(i)}},
			}
			conn.link = deafLink{silentLink{gone: make(chan struct{})}, &closed}
			leave, err := c.registry.enter(t.Context(), conn.id())
			require.NoError(t, err)
			c.registry.add(conn, began)
			leave()
			defer c.registry.remove(conn)
		}
		pass(5 * time.Minute)
		require.Zero(t, closed.Load())
		require.Zero(t, time.Since(began)%recheckInterval, "it has just looked")
		keys.revoke("one")
		keys.set(func() { keys.slow = recheckTimeout - time.Second })
		pass(30 * time.Second)
		require.EqualValues(t, 10_000, closed.Load())
	})
}

// TestRecheckWhileTheStoreIsAway: it closes nothing, says so, and goes on.
func TestRecheckWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newRevocable(map[string]synchronizer.AccessKey{"one": {Account: "a"}})
		var log logs
		c := newClock(t, 0)
		c.options.Authenticator, c.options.Logger = AccessKeys{Credentials: keys}, slog.New(slog.NewTextHandler(&log, nil))
		c.runs(t)
		code := c.admit(t, synchronizer.ClusterID{Account: "a", Cluster: "c"}, "one")
		keys.revoke("one")
		keys.set(func() { keys.err = errors.New("database is locked") })
		pass(5 * time.Minute)
		require.Zero(t, *code)
		require.Contains(t, log.String(), "they stay connected")
		keys.set(func() { keys.err = nil })
		pass(30 * time.Second)
		require.Equal(t, 1008, *code)
	})
}

// TestRecheckAsksOnce about each key; it may be bound to another cluster by now.
func TestRecheckAsksOnce(t *testing.T) {
	keys := newRevocable(map[string]synchronizer.AccessKey{"one": {Account: "a", Cluster: "c"}})
	key, id := synchronizer.HashSecret("one"), synchronizer.ClusterID{Account: "a", Cluster: "c"}
	holders := []Holder{{ClusterID: id, Key: key}, {ClusterID: id, Key: key}, {ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "d"}, Key: key}}
	refused, err := AccessKeys{Credentials: keys}.Recheck(t.Context(), holders)
	require.NoError(t, err)
	require.Equal(t, 1, keys.asked)
	require.NoError(t, refused[0])
	require.NoError(t, refused[1])
	require.ErrorIs(t, refused[2], synchronizer.ErrUnauthorized)
}

// ring lists keys.
type ring struct {
	synchronizer.Keyring
	keys []synchronizer.IssuedKey
	err  error
}

func (r ring) AccessKeys(context.Context, string) ([]synchronizer.IssuedKey, error) {
	return r.keys, r.err
}

// TestRecheckOfManyKeys reads the list instead of each of them, with the same result.
func TestRecheckOfManyKeys(t *testing.T) {
	keys := newRevocable(nil)
	var list ring
	var holders []Holder
	for i := range fewKeys + 3 {
		hash := synchronizer.HashSecret(fmt.Sprint(i))
		key := synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a", Cluster: "c"}, ID: synchronizer.SecretID(hash)}
		switch i {
		case 0:
			key.Revoked = time.Now()
		case 1:
			key.ID = "another"
		case 2:
			key.Cluster = "d"
		}
		list.keys = append(list.keys, key)
		holders = append(holders, Holder{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}, Key: hash})
	}
	refused, err := AccessKeys{Credentials: keys, Keys: list}.Recheck(t.Context(), holders)
	require.NoError(t, err)
	require.Zero(t, keys.asked)
	for i, err := range refused {
		if i < 3 {
			require.ErrorIs(t, err, synchronizer.ErrUnauthorized, i)
		} else {
			require.NoError(t, err, i)
		}
	}
	list.err = errors.New("database is locked")
	_, err = AccessKeys{Credentials: keys, Keys: list}.Recheck(t.Context(), holders)
	require.ErrorContains(t, err, "reading access keys: database is locked")
	_, err = AccessKeys{Credentials: keys}.Recheck(t.Context(), holders)
	require.NoError(t, err)
	require.Equal(t, len(holders), keys.asked)
}

// TestRevokedClientSees its connection closed with the code for that, and is
// refused when it comes back.
func TestRevokedClientSees(t *testing.T) {
	keys := newRevocable(map[string]synchronizer.AccessKey{"key": {Account: "a"}})
	f := newFixture(t, Options{Authenticator: AccessKeys{Credentials: keys}}, nil)
	c := f.connect("a", "c")
	require.Eventually(t, func() bool { return f.registry.count() == 1 }, limit, time.Millisecond)
	keys.revoke("key")
	ended := make(chan websocket.StatusCode, 1)
	go func() { ended <- c.ended() }()
	require.NoError(t, f.recheck(t.Context(), AccessKeys{Credentials: keys}))
	require.Equal(t, websocket.StatusPolicyViolation, <-ended)
	response, _ := f.upgrade(nil)
	require.Equal(t, 401, response.StatusCode)
}
