// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

const (
	keepIn         = 10 * time.Minute
	keepDeadLetter = 30 * 24 * time.Hour
	// Nothing is de-duplicated, so the broker remembers as little as possible.
	duplicates = 100 * time.Millisecond
)

// ensureStreams makes the streams that do not exist, and changes those that have
// other settings.
func (s *settings) ensureStreams(ctx context.Context, js jetstream.JetStream) error {
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In, synchronizer.DeadLetter} {
		if err := s.ensureStream(ctx, js, d); err != nil {
			return fmt.Errorf("preparing stream %s: %w", s.streamName(d), err)
		}
	}
	return nil
}

func (s *settings) ensureStream(ctx context.Context, js jetstream.JetStream, d synchronizer.Direction) error {
	name := s.streamName(d)
	there, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := s.stream(d, jetstream.StreamConfig{Name: name, Storage: jetstream.FileStorage, Replicas: max(1, s.replicas)})
		if _, err = js.CreateStream(ctx, config); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			there, err = js.Stream(ctx, name) // another process was faster
		} else {
			return err
		}
	}
	if err != nil {
		return err
	}
	is := there.CachedInfo().Config
	if problem := unusable(&is); problem != "" {
		return fmt.Errorf("%w: it exists and %s, which cannot be changed: remove the stream or choose another prefix (now %q)",
			synchronizer.ErrInvalid, problem, s.prefix)
	}
	want := s.stream(d, is)
	if s.replicas > 0 {
		want.Replicas = s.replicas
	}
	// Unchanged settings need no right to change them.
	if reflect.DeepEqual(is, want) {
		return nil
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("changing its settings: %w", err)
	}
	return nil
}

// unusable names what stands in the way of using a stream.
func unusable(c *jetstream.StreamConfig) string {
	switch {
	case c.Storage != jetstream.FileStorage:
		return "keeps its records in memory"
	case c.Retention == jetstream.WorkQueuePolicy:
		return "is a work queue"
	case c.Mirror != nil:
		return "mirrors another stream"
	case c.Sealed:
		return "is sealed"
	case c.DenyPurge:
		return "denies removing records"
	}
	return ""
}

// stream gives a stream's settings, those that are ours; what else an operator has
// chosen (placement, compression, description) stays.
func (s *settings) stream(d synchronizer.Direction, config jetstream.StreamConfig) jetstream.StreamConfig {
	config.Subjects = []string{s.prefix + "." + d.String() + ".>"}
	// Acknowledged records of out are removed by the trimmer: the broker's own work
	// queues refuse AckAll, which costs a third less, and streams by interest keep
	// nothing before the first consumer comes.
	config.Retention = jetstream.LimitsPolicy
	config.Discard = jetstream.DiscardOld
	config.Duplicates = duplicates
	config.NoAck = false
	config.MaxMsgs, config.MaxMsgSize, config.MaxMsgsPerSubject = -1, -1, -1
	config.DiscardNewPerSubject = false
	switch d {
	case synchronizer.Out:
		config.MaxBytes, config.MaxAge, config.Discard = s.outBytes, s.outAge, jetstream.DiscardNew
	case synchronizer.In:
		config.MaxBytes, config.MaxAge = s.outBytes/4, keepIn
	default:
		config.MaxBytes, config.MaxAge = s.outBytes/8, keepDeadLetter
	}
	return config
}
