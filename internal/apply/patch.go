// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
)

// Patch applies a merge patch, as link v1 means it, to the object as the policy
// shows it, verifies checksum v1 of the result and writes what differs as Put
// does. Whatever goes wrong, the result says that the whole object is to be asked
// for (but not if the kind is not configured). An error means what it does for Put.
func (a *Applier) Patch(ctx context.Context, kind synchronizer.Kind, namespace, name string, change []byte, sum string) (Result, error) {
	result, err := a.patch(ctx, target{kind, namespace, name}, change, sum)
	if err == nil {
		return result, nil
	}
	result, err = explain(err)
	result.AskObject = result.Reason != ReasonNotConfigured
	return result, err
}

func (a *Applier) patch(ctx context.Context, t target, change []byte, sum string) (Result, error) {
	switch strategy := a.options.Strategy(t.kind); {
	case strategy == NotConfigured:
		return Result{}, refuse(ReasonNotConfigured, "kind %v is not configured", t.kind)
	case strategy != Patch:
		return Result{}, refuse(ReasonNotPatched, "kind %v has strategy copy", t.kind)
	case isCommand(t.kind):
		return Result{}, refuse(ReasonNotPatched, "a command is created once and not changed")
	}
	desire := func(shown []byte) (*value, error) {
		body, err := patch.ApplyV1(shown, change)
		if err != nil {
			return nil, err
		}
		if err := verify(body, sum); err != nil {
			return nil, err
		}
		return t.read(body)
	}
	for attempt := range a.options.Attempts - 1 {
		result, err := a.change(ctx, t, desire)
		if err == nil || !again(err) {
			return result, err
		}
		if err := a.pause(ctx, attempt+1); err != nil {
			return Result{}, err
		}
	}
	return a.change(ctx, t, desire)
}

// verify compares checksum v1 of a patched object. A patch for a client of the
// field sets metadata.resourceVersion to null and has the checksum of the result
// without it; of one that leaves it in place the checksum may be either.
func verify(body []byte, sum string) error {
	is, err := checksum.V1(body)
	if err != nil {
		return fmt.Errorf("computing checksum of the patched object: %w", err)
	}
	if is == sum {
		return nil
	}
	bare, err := patch.ApplyV1(body, []byte(`{"metadata":{"resourceVersion":null}}`))
	if err == nil {
		is, err = checksum.V1(bare)
	}
	if err != nil {
		return fmt.Errorf("computing checksum of the patched object: %w", err)
	}
	if is != sum {
		return refuse(ReasonChecksum, "the patch was made for another state of the object")
	}
	return nil
}
