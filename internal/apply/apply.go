// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
)

// Cluster is what is needed of an API server; kube.Cluster is one. Errors wrap
// the sentinels of package kube and of the root package that kube.Create names.
type Cluster interface {
	Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error)
	// Create and Update return the object as it was stored; an Update whose body
	// names another resourceVersion than the object has is kube.ErrConflict.
	Create(ctx context.Context, kind synchronizer.Kind, namespace string, body []byte) (synchronizer.Object, error)
	Update(ctx context.Context, kind synchronizer.Kind, namespace, name string, body []byte) (synchronizer.Object, error)
	Delete(ctx context.Context, kind synchronizer.Kind, namespace, name string) error
}

// Strategy says what the backend may do with objects of a kind.
type Strategy uint8

// The strategies.
const (
	NotConfigured Strategy = iota // nothing
	Copy                          // put and delete
	Patch                         // that, and patch
)

// Options make an Applier.
type Options struct {
	Cluster Cluster
	// Policy is the one through which the backend sees the cluster.
	Policy *policy.Transform
	// Strategy gives that of a kind; it may change while the process runs. Default:
	// no kind is configured.
	Strategy func(synchronizer.Kind) Strategy
	// Attempts bounds how often an object is read and written if others change it
	// at the same time, or while it is being deleted. Default 6.
	Attempts int
	// Pause is the mean pause after the first attempt; it doubles with each, up to
	// sixteen times as much. Default 25 ms.
	Pause time.Duration
}

// Applier writes objects. Many goroutines may use it; of statements about one
// object the caller keeps the order.
type Applier struct {
	options  Options
	commands commands
}

// New makes an Applier. Cluster and Policy are needed.
func New(options Options) *Applier {
	if options.Strategy == nil {
		options.Strategy = func(synchronizer.Kind) Strategy { return NotConfigured }
	}
	if options.Attempts <= 0 {
		options.Attempts = 6
	}
	if options.Pause <= 0 {
		options.Pause = 25 * time.Millisecond
	}
	return &Applier{options: options}
}

// target is the object that a statement is about.
type target struct {
	kind            synchronizer.Kind
	namespace, name string
}

// Put makes an object as desired: it changes the one that exists by what differs
// (see the package comment), or creates it. An error means that the API server
// did not decide, so that another try is worth it; the result then says so too.
func (a *Applier) Put(ctx context.Context, kind synchronizer.Kind, namespace, name string, desired []byte) (Result, error) {
	t := target{kind, namespace, name}
	result, err := a.put(ctx, t, desired)
	if err != nil {
		return explain(err)
	}
	return result, nil
}

func (a *Applier) put(ctx context.Context, t target, body []byte) (Result, error) {
	if a.options.Strategy(t.kind) == NotConfigured {
		return Result{}, refuse(ReasonNotConfigured, "kind %v is not configured", t.kind)
	}
	desired, err := t.read(body)
	if err != nil {
		return Result{}, err
	}
	if isCommand(t.kind) {
		return a.putCommand(ctx, t, desired)
	}
	for attempt := range a.options.Attempts {
		if err = a.pause(ctx, attempt); err != nil {
			return Result{}, err
		}
		// Reading comes before creating: a creation that meets an object has been
		// through admission before anybody notices, webhooks with side effects and the
		// counting of quotas included.
		var result Result
		result, err = a.change(ctx, t, func([]byte) (*value, error) { return desired, nil })
		var hidden *unreadable
		if errors.Is(err, synchronizer.ErrNotFound) || errors.As(err, &hidden) {
			result, err = a.create(ctx, t, desired, hidden)
		}
		if !again(err) {
			return result, err
		}
	}
	return Result{}, fmt.Errorf("giving up after %d attempts: %w", a.options.Attempts, err)
}

// unreadable says that RBAC does not let us read the object, which may exist or not.
type unreadable struct{ error }

func (u *unreadable) Unwrap() error { return u.error }

// create creates an object that does not exist, or that is hidden from us.
func (a *Applier) create(ctx context.Context, t target, desired *value, hidden *unreadable) (Result, error) {
	body, err := a.newObject(t, desired)
	var o synchronizer.Object
	if err == nil {
		o, err = a.options.Cluster.Create(ctx, t.kind, t.namespace, body)
	}
	switch {
	case err == nil:
		return Result{Outcome: Applied, ResourceVersion: o.ResourceVersion}, nil
	case hidden != nil && (errors.Is(err, kube.ErrAlreadyExists) || isRefusal(err)):
		return Result{}, hidden // only the right to read would help
	}
	return Result{}, missing(err)
}

func isRefusal(err error) bool {
	var own *refusal
	return errors.As(err, &own)
}

// missing is why an object that does not exist was not created. That a thing
// was not found can only be its namespace.
func missing(refused error) error {
	if errors.Is(refused, synchronizer.ErrNotFound) {
		return refuse(ReasonNamespaceNotFound, "%v", refused)
	}
	return refused
}

// again tells whether an object is to be read and written once more.
func again(err error) bool {
	var own *refusal
	return errors.Is(err, kube.ErrConflict) || errors.Is(err, kube.ErrAlreadyExists) || errors.As(err, &own) && own.reason == ReasonTerminating
}

// pause waits before every attempt but the first.
func (a *Applier) pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	mean := a.options.Pause << min(attempt-1, 4)
	timer := time.NewTimer(mean/2 + rand.N(mean))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// change reads an object and writes what differs, once. Desire gives the desired
// object for the current one, as the policy shows it.
func (a *Applier) change(ctx context.Context, t target, desire func(shown []byte) (*value, error)) (Result, error) {
	o, err := a.options.Cluster.Get(ctx, t.kind, t.namespace, t.name)
	if errors.Is(err, synchronizer.ErrForbidden) {
		return Result{}, &unreadable{err}
	}
	if err != nil {
		return Result{}, err
	}
	current, err := read(o.Body)
	if err != nil {
		return Result{}, fmt.Errorf("reading current object: %w", err)
	}
	if !current.get("metadata").get("deletionTimestamp").absent() {
		return Result{}, refuse(ReasonTerminating, "the object is being deleted")
	}
	raw, shown, err := a.show(t, o.Body)
	if err != nil {
		return Result{}, err
	}
	desired, err := desire(raw)
	if err != nil {
		return Result{}, err
	}
	if is, should := current.text("kind"), desired.text("kind"); should != "" && is != should {
		return Result{}, refuse(ReasonInvalid, "the desired object is a %.100q, not a %.100q", should, is)
	}
	m := a.merger(t)
	written, changed := m.object(current, shown, desired)
	if err := a.fit(t, m, current, written); err != nil {
		return Result{}, err
	}
	result := Result{Outcome: Unchanged, ResourceVersion: o.ResourceVersion}
	if len(m.kept) > 0 {
		result.Message = "existing metadata keeps its value: " + list(m.kept)
	}
	if !changed {
		return result, nil
	}
	stored, err := a.options.Cluster.Update(ctx, t.kind, t.namespace, t.name, written)
	if err != nil {
		return Result{}, err
	}
	// What only lacked defaults is no change for the API server.
	if stored.ResourceVersion != o.ResourceVersion {
		result.Outcome, result.ResourceVersion = Applied, stored.ResourceVersion
	}
	return result, nil
}

// show gives a document as the policy shows it.
func (a *Applier) show(t target, doc []byte) ([]byte, *value, error) {
	raw, err := a.options.Policy.Apply(nil, t.kind.Group, t.kind.Resource, t.namespace, doc)
	if err != nil {
		return nil, nil, fmt.Errorf("showing the object: %w", err)
	}
	shown, err := read(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the object as shown: %w", err)
	}
	return raw, shown, nil
}

func (a *Applier) merger(t target) *merger {
	return &merger{secret: t.kind.Group == "" && t.kind.Resource == "secrets"}
}

// newObject gives what creates the desired object, or why it must not be created.
func (a *Applier) newObject(t target, desired *value) ([]byte, error) {
	m := a.merger(t)
	body := m.newObject(desired, t.name)
	if err := a.fit(t, m, nil, body); err != nil {
		return nil, err
	}
	return body, nil
}

// fit refuses to write what the policy put in the place of values, and numbers
// that would not be kept. Current is nil for a new object.
func (a *Applier) fit(t target, m *merger, current *value, body []byte) error {
	if len(m.masked) > 0 {
		return refuse(ReasonMasked, "masked value at %s", list(m.masked))
	}
	if len(m.inexact) > 0 {
		return refuse(ReasonInvalid, "the API server cannot store the number at %s exactly", list(m.inexact))
	}
	if !m.hashes {
		return nil
	}
	written, err := read(body)
	if err != nil {
		return fmt.Errorf("reading what is to be written: %w", err)
	}
	_, shown, err := a.show(t, body)
	if err != nil {
		return err
	}
	if found := hashed(current, written, shown); len(found) > 0 {
		return refuse(ReasonMasked, "hashed value at %s", list(found))
	}
	return nil
}

// list names a few paths.
func list(paths []string) string {
	if len(paths) > mostPaths {
		return strings.Join(paths[:mostPaths], ", ") + " and more"
	}
	return strings.Join(paths, ", ")
}

// read reads a desired object and checks that it is the one that the message
// names.
func (t target) read(body []byte) (*value, error) {
	desired, err := read(body)
	if err != nil {
		return nil, fmt.Errorf("reading desired object: %w", err)
	}
	metadata := desired.get("metadata")
	for _, c := range []struct{ what, is, should string }{
		{"apiVersion", desired.text("apiVersion"), t.kind.GroupVersion()},
		{"metadata.name", metadata.text("name"), t.name},
		{"metadata.namespace", metadata.text("namespace"), t.namespace},
	} {
		if c.is != "" && c.is != c.should {
			return nil, refuse(ReasonInvalid, "%s is %.100q and not %.100q", c.what, c.is, c.should)
		}
	}
	if t.name == "" {
		return nil, refuse(ReasonInvalid, "the object has no name; one that the API server makes would make another object with each repetition")
	}
	return desired, nil
}

// Delete deletes an object, what it owns in the background. Absent is success,
// and so is an object that is being deleted already.
func (a *Applier) Delete(ctx context.Context, kind synchronizer.Kind, namespace, name string) (Result, error) {
	if a.options.Strategy(kind) == NotConfigured {
		return explain(refuse(ReasonNotConfigured, "kind %v is not configured", kind))
	}
	err := a.options.Cluster.Delete(ctx, kind, namespace, name)
	switch {
	case err == nil:
		return Result{Outcome: Applied}, nil
	case errors.Is(err, synchronizer.ErrNotFound):
		return Result{Outcome: Unchanged}, nil
	case errors.Is(err, kube.ErrConflict) && a.terminating(ctx, target{kind, namespace, name}):
		// A namespace that is being emptied says so.
		return Result{Outcome: Unchanged}, nil
	}
	return explain(err)
}

func (a *Applier) terminating(ctx context.Context, t target) bool {
	o, err := a.options.Cluster.Get(ctx, t.kind, t.namespace, t.name)
	if err != nil {
		return errors.Is(err, synchronizer.ErrNotFound)
	}
	current, err := read(o.Body)
	return err == nil && !current.get("metadata").get("deletionTimestamp").absent()
}
