// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestReadersThatStartWhileTheBrokerIsAway wait for it.
func TestReadersThatStartWhileTheBrokerIsAway(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	q := openTCP(t, tcpConfig(t, server))
	defer shut(t, q)
	server.Stop(t)
	require.Eventually(t, q.read.IsReconnecting, patience, time.Millisecond)
	var (
		readers  errgroup.Group
		tailed   synchronizer.Tail
		consumer synchronizer.Consumer
	)
	ctx := limited(t)
	readers.Go(func() (err error) {
		tailed, err = q.Tail(ctx)
		return err
	})
	readers.Go(func() (err error) {
		consumer, err = q.Consume(ctx, "g")
		return err
	})
	server.Start(t)
	require.NoError(t, readers.Wait())
	for _, d := range []synchronizer.Direction{synchronizer.In, synchronizer.Out} {
		require.NoError(t, q.Publish(ctx, d, numbers("a/c", 0, 1, 8)))
	}
	records, err := tailed.Next(ctx)
	require.NoError(t, err)
	require.Len(t, records, 1)
	batch, err := consumer.Next(ctx, 10, 1<<20)
	require.NoError(t, err)
	require.Len(t, batch.Records, 1)
}
