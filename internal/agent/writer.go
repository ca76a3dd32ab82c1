// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"synchronizer"
	"synchronizer/internal/apply"
	"synchronizer/internal/dedup"
	"synchronizer/internal/telemetry/traceparent"
	"synchronizer/internal/wire"
)

// Applier writes statements of the backend into the cluster; apply.Applier is
// one. Many goroutines use it, but only one for each object. An error means that
// another try is worth it.
type Applier interface {
	Put(ctx context.Context, kind synchronizer.Kind, namespace, name string, desired []byte) (apply.Result, error)
	Patch(ctx context.Context, kind synchronizer.Kind, namespace, name string, change []byte, sum string) (apply.Result, error)
	Delete(ctx context.Context, kind synchronizer.Kind, namespace, name string) (apply.Result, error)
}

const (
	writers        = 4                // objects that are written at the same time
	writerQueue    = 1024             // statements that wait for one of them
	writerBytes    = 32 << 20         // of all that wait; a larger one waits alone
	writerPatience = 30 * time.Second // until a statement that finds no room is dropped
	writeTries     = 5                // of a statement that nobody decides
	writeTimeout   = time.Minute      // of one
	writeDelay     = 500 * time.Millisecond
)

// write is a statement that is to be written.
type write struct {
	session *session
	owner   *stream
	msg     synchronizer.Message
	cost    int64
}

// writer writes what the backend says into the cluster. Statements about one
// object go one after the other, in the order in which they came; nothing else is
// promised. Those of a link that broke are written all the same.
type writer struct {
	agent  *Agent
	seed   maphash.Seed
	lanes  [writers]chan write
	budget *semaphore.Weighted
	ctx    context.Context // of run
}

func newWriter(a *Agent) *writer {
	w := &writer{agent: a, seed: maphash.MakeSeed(), budget: semaphore.NewWeighted(writerBytes)}
	for i := range w.lanes {
		w.lanes[i] = make(chan write, writerQueue)
	}
	return w
}

// run starts the writing. It goes on until ctx ends, and with what waits then
// until life ends.
func (w *writer) run(ctx, life context.Context, all *sync.WaitGroup) {
	w.ctx = ctx
	for _, lane := range w.lanes {
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case next := <-lane:
					w.write(life, &next)
				case <-ctx.Done():
				}
			}
			for len(lane) > 0 {
				next := <-lane
				w.write(life, &next)
			}
		})
	}
}

// put takes a statement. It waits while too much waits already, so that the link
// is not read and the backend holds back; but not for ever, for requests come by
// the same link, and its end would not be noticed.
func (w *writer) put(next write) {
	next.cost = min(int64(next.msg.Size()), writerBytes)
	ctx, cancel := context.WithTimeout(w.ctx, writerPatience)
	defer cancel()
	if w.budget.Acquire(ctx, next.cost) != nil {
		w.agent.drop(synchronizer.DropBacklog, &next.msg)
		return
	}
	about := next.msg.Kind.String() + " " + next.msg.Namespace + "/" + next.msg.Name
	select {
	case w.lanes[maphash.String(w.seed, about)%writers] <- next:
	case <-ctx.Done():
		w.budget.Release(next.cost)
		w.agent.drop(synchronizer.DropBacklog, &next.msg)
	}
}

// write writes one statement, unless it is an exact repeat of one that was
// written. The repeat is known by the canonical frame of link v1, which holds all
// that the message said; its trace says nothing.
func (w *writer) write(ctx context.Context, next *write) {
	defer w.budget.Release(next.cost)
	memory := w.agent.options.Applied
	ctx = traceparent.NewContext(ctx, next.msg.TraceParent)
	canonical := next.msg
	canonical.TraceParent = ""
	frame, err := wire.AppendV1(nil, &canonical)
	identified := err == nil && next.msg.MsgID != "" // else two that look the same may be two
	f := dedup.Of(frame)
	frame = nil
	if identified && memory.Seen(f) {
		w.agent.drop(synchronizer.DropDuplicate, &next.msg)
		return
	}
	result := w.apply(ctx, &next.msg)
	w.agent.metrics.applied.WithLabelValues(string(result.Outcome), string(result.Reason)).Inc()
	w.agent.options.Logger.DebugContext(ctx, "applied", "event", next.msg.Event.String(), "kind", next.msg.Kind.String(),
		"namespace", next.msg.Namespace, "name", next.msg.Name, "msgId", next.msg.MsgID,
		"outcome", string(result.Outcome), "reason", string(result.Reason), "message", result.Message)
	if identified && (result.Outcome == apply.Applied || result.Outcome == apply.Unchanged) {
		memory.Applied(f)
	}
	if result.AskObject && next.msg.Event == synchronizer.EventPatch {
		w.ask(next)
	}
}

// apply tries for some seconds to have a statement decided.
func (w *writer) apply(life context.Context, msg *synchronizer.Message) apply.Result {
	for try := 0; ; try++ {
		result, err := w.try(life, msg)
		if err == nil || try == writeTries-1 || life.Err() != nil {
			return result
		}
		pause, stop := w.agent.options.Clock.After(spread(writeDelay << try))
		select {
		case <-pause:
		case <-w.ctx.Done(): // no time to wait any more
		}
		stop()
	}
}

func (w *writer) try(life context.Context, msg *synchronizer.Message) (apply.Result, error) {
	ctx, cancel := context.WithTimeout(life, writeTimeout)
	defer cancel()
	to := w.agent.options.Applier
	switch msg.Event {
	case synchronizer.EventPatch:
		return to.Patch(ctx, msg.Kind, msg.Namespace, msg.Name, msg.Body, msg.Checksum)
	case synchronizer.EventDelete:
		return to.Delete(ctx, msg.Kind, msg.Namespace, msg.Name)
	}
	return to.Put(ctx, msg.Kind, msg.Namespace, msg.Name, msg.Body)
}

// ask asks the backend for the whole object, in the name of a patch that could
// not be applied. The owner of the kind sends it, as everything.
func (w *writer) ask(next *write) {
	msg := &next.msg
	if msg.Depth+1 > synchronizer.MaxDepth {
		w.agent.drop(synchronizer.DropTooDeep, msg)
		return
	}
	next.owner.inbox.put(request{
		session: next.session, key: keyOf(msg.Namespace, msg.Name), msgID: msg.MsgID, depth: msg.Depth, trace: msg.TraceParent, fetch: true,
	})
}
