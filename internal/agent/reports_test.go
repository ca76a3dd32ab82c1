// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/policy"
)

// reportLink is a link that takes messages, or fails from the nth Send on.
type reportLink struct {
	sent    chan synchronizer.Message
	failing bool
	closed  chan struct{}
}

func newReportLink(failing bool) *reportLink {
	return &reportLink{sent: make(chan synchronizer.Message, 100), failing: failing, closed: make(chan struct{})}
}

func (l *reportLink) Send(_ context.Context, msgs ...synchronizer.Message) error {
	if l.failing {
		return synchronizer.ErrDisconnected
	}
	for _, m := range msgs {
		l.sent <- m
	}
	return nil
}

func (l *reportLink) Receive(ctx context.Context) (synchronizer.Message, error) {
	select {
	case <-l.closed:
		return synchronizer.Message{}, synchronizer.ErrDisconnected
	case <-ctx.Done():
		return synchronizer.Message{}, ctx.Err()
	}
}

func (l *reportLink) Peer() synchronizer.Hello { return synchronizer.Hello{} }

func (l *reportLink) Close(int, string) error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// reportDialer hands out the links that a test has made.
type reportDialer struct{ links chan *reportLink }

func (d reportDialer) Dial(ctx context.Context) (synchronizer.Link, error) {
	select {
	case l := <-d.links:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func alert(id string) synchronizer.Message {
	return synchronizer.Message{Event: synchronizer.EventPut, Depth: 1, MsgID: id, Kind: configmaps, Name: "alert", Body: []byte("{}")}
}

// An agent without kinds carries reports only. One that was handed over when its
// link broke goes over the next; without a link nothing is taken.
func TestReportsOutliveTheirLink(t *testing.T) {
	dialer := reportDialer{links: make(chan *reportLink, 2)}
	a, err := New(Options{
		Cluster: emptyCluster(), Dialer: dialer, Policy: policy.New(policy.LinkV1),
		Drop: func(synchronizer.DropReason, string) {}, Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.False(t, a.Connected())
	require.ErrorIs(t, a.Report(t.Context(), alert("early")), synchronizer.ErrDisconnected)

	broken, good := newReportLink(true), newReportLink(false)
	dialer.links <- broken
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	require.Eventually(t, a.Connected, 10*time.Second, time.Millisecond)
	require.NoError(t, a.Report(t.Context(), alert("first")))
	dialer.links <- good
	require.Equal(t, "first", (<-good.sent).MsgID)
	require.Eventually(t, a.Connected, 10*time.Second, time.Millisecond)
	require.NoError(t, a.Report(t.Context(), alert("second")))
	require.Equal(t, "second", (<-good.sent).MsgID)
	cancel()
	require.NoError(t, <-done)
	require.ErrorIs(t, a.Report(t.Context(), alert("late")), synchronizer.ErrDisconnected)
}

// Who waits for the worker goes when the request ends.
func TestReportWaitsNoLongerThanItsRequest(t *testing.T) {
	a, err := New(Options{
		Cluster: emptyCluster(), Dialer: reportDialer{}, Policy: policy.New(policy.LinkV1),
		Drop: func(synchronizer.DropReason, string) {}, Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	a.hub.set(newSession(newReportLink(false), time.Now())) // nobody works
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Report(ctx, alert("stuck")) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
