// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"synchronizer"
)

// fieldManager is the name under which the API server notes what was written.
const fieldManager = "synchronizer"

// Media types of what is sent; mergePatch is RFC 7386.
const (
	jsonBody   = "application/json"
	mergePatch = "application/merge-patch+json"
)

// Create creates an object; body is all of it. The result is the object as the
// API server stored it. Errors of all writes wrap one of the sentinels of this
// package, or synchronizer.ErrForbidden, ErrNotFound (the object, or the
// namespace of a new one), ErrInvalid, ErrTooLarge, ErrKindNotServed or
// *RetryAfterError. Every other error says that the API server did not decide:
// the write may have happened, and is worth another try.
func (c *Cluster) Create(ctx context.Context, kind synchronizer.Kind, namespace string, body []byte) (synchronizer.Object, error) {
	o, err := c.write(ctx, "create", kind, namespace, "", jsonBody, body)
	return o, because("creating", kind, namespace, "", err)
}

// Update replaces an object by body. With a metadata.resourceVersion in it, the
// object must still be in that state, else the error is ErrConflict.
func (c *Cluster) Update(ctx context.Context, kind synchronizer.Kind, namespace, name string, body []byte) (synchronizer.Object, error) {
	o, err := c.write(ctx, "update", kind, namespace, name, jsonBody, body)
	return o, because("updating", kind, namespace, name, err)
}

// Patch applies a merge patch (RFC 7386) to an object.
func (c *Cluster) Patch(ctx context.Context, kind synchronizer.Kind, namespace, name string, patch []byte) (synchronizer.Object, error) {
	o, err := c.write(ctx, "patch", kind, namespace, name, mergePatch, patch)
	return o, because("patching", kind, namespace, name, err)
}

// Delete asks for an object to be deleted, and for what it owns to follow in the
// background. It does not wait for finalizers. ErrNotFound: it does not exist.
func (c *Cluster) Delete(ctx context.Context, kind synchronizer.Kind, namespace, name string) error {
	_, err := c.write(ctx, "delete", kind, namespace, name, jsonBody, nil)
	return because("deleting", kind, namespace, name, err)
}

func because(doing string, kind synchronizer.Kind, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %v %s/%s: %w", doing, kind, namespace, name, err)
}

var methods = map[string]string{
	"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
}

// write sends one request. Only a create has no name: a deletion without one
// would be that of all objects.
func (c *Cluster) write(ctx context.Context, verb string, kind synchronizer.Kind, namespace, name, contentType string, body []byte) (synchronizer.Object, error) {
	var none synchronizer.Object
	if err := checkKind(kind); err != nil {
		return none, err
	}
	if namespace != "" && !isSegment(namespace) || verb != "create" && !isSegment(name) {
		return none, fmt.Errorf("%w: no object can have this name", synchronizer.ErrInvalid)
	}
	target := path(kind, namespace)
	query := url.Values{"fieldManager": {fieldManager}}
	if name != "" {
		target += "/" + name
	}
	if verb == "delete" {
		query = url.Values{"propagationPolicy": {"Background"}}
	}
	a, err := c.change(ctx, call{
		method: methods[verb], verb: verb, path: target, query: query, accept: jsonBody,
		contentType: contentType, body: body, silence: c.options.ReadSilence,
	})
	if err != nil {
		if errors.Is(err, synchronizer.ErrKindNotServed) {
			c.forget(kind)
		}
		return none, err
	}
	defer a.Close()
	// What was done is done: an answer that cannot be read to its end is no
	// reason to do it again.
	raw, err := readBody(a, c.options.ItemBytes)
	if err != nil || verb == "delete" {
		return none, nil
	}
	o, _ := c.itemReader(ctx, kind, "").object(raw)
	return o, nil
}

// change sends one request that changes something and reads what the API server
// thinks of it. The caller must close the answer.
func (c *Cluster) change(ctx context.Context, k call) (*answer, error) {
	a, response, err := c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		raw, _ := io.ReadAll(io.LimitReader(a, refusalLimit))
		a.Close()
		return nil, readRefusal(raw, response.StatusCode).err(response.Header)
	}
	a.timer.Stop()
	return a, nil
}
