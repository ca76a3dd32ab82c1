// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/kube"
	"synchronizer/internal/rawjson"
)

// isCommand tells the kind whose objects are orders to the operator: each that
// appears is carried out.
func isCommand(kind synchronizer.Kind) bool {
	return kind.Group == "kubescape.io" && kind.Resource == "operatorcommands"
}

// mostCommands bounds how many commands are remembered, 16 bytes each and a map's
// share; the oldest is forgotten first.
const mostCommands = 10_000

// commands remembers the commands that were seen in the cluster, so that a replay
// does not create again what was carried out and cleaned up.
type commands struct {
	mu    sync.Mutex
	known map[checksum.Digest]bool
	order []checksum.Digest // a ring, the oldest at next
	next  int
}

func (c *commands) has(d checksum.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[d]
}

func (c *commands) add(d checksum.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[d] {
		return
	}
	if c.known == nil {
		c.known = map[checksum.Digest]bool{}
	}
	c.known[d] = true
	if len(c.order) < mostCommands {
		c.order = append(c.order, d)
		return
	}
	delete(c.known, c.order[c.next])
	c.order[c.next] = d
	c.next = (c.next + 1) % mostCommands
}

// putCommand creates a command and never changes one. It is not created if its
// own status says that it was started, or if it was seen in the cluster before.
func (a *Applier) putCommand(ctx context.Context, t target, desired *value) (Result, error) {
	status := desired.get("status")
	for _, name := range []string{"started", "completed"} {
		if v := status.get(name); v.is(rawjson.Bool) && string(v.raw) == "true" {
			return Result{}, refuse(ReasonRan, "the command says that it was carried out")
		}
	}
	id, err := t.identify(desired)
	if err != nil {
		return Result{}, err
	}
	if a.commands.has(id) {
		return a.seen(ctx, t)
	}
	body, err := a.newObject(t, desired)
	if err != nil {
		return Result{}, err
	}
	o, err := a.options.Cluster.Create(ctx, t.kind, t.namespace, body)
	switch {
	case err == nil:
		a.commands.add(id)
		return Result{Outcome: Applied, ResourceVersion: o.ResourceVersion}, nil
	case errors.Is(err, kube.ErrAlreadyExists):
		a.commands.add(id)
		return Result{Outcome: Unchanged, Reason: ReasonExists, Message: "the command is there already and is not changed"}, nil
	}
	return Result{}, missing(err)
}

// seen is the result for a command that was in the cluster before.
func (a *Applier) seen(ctx context.Context, t target) (Result, error) {
	o, err := a.options.Cluster.Get(ctx, t.kind, t.namespace, t.name)
	if err == nil {
		return Result{Outcome: Unchanged, Reason: ReasonExists, Message: "the command is there already and is not changed", ResourceVersion: o.ResourceVersion}, nil
	}
	if errors.Is(err, synchronizer.ErrNotFound) {
		return Result{}, refuse(ReasonRan, "the command was created before and is gone")
	}
	return Result{}, err
}

// identify tells commands apart: by name and by what they order.
func (t target) identify(desired *value) (checksum.Digest, error) {
	spec := []byte("null")
	if s := desired.get("spec"); s != nil {
		spec = s.raw
	}
	id := rawjson.AppendQuote([]byte{'['}, []byte(t.namespace))
	id = append(rawjson.AppendQuote(append(id, ','), []byte(t.name)), ',')
	digest, err := checksum.V2(append(append(id, spec...), ']'))
	if err != nil {
		return digest, fmt.Errorf("reading command: %w", err)
	}
	return digest, nil
}
