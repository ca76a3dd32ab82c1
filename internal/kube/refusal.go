// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"synchronizer"
)

// Why the API server does not write. Their messages may be logged: they name
// fields and never hold values of the object (those of webhooks and admission
// policies are the words of whoever runs them).
var (
	// ErrAlreadyExists: an object of this name exists.
	ErrAlreadyExists = errors.New("object exists already")

	// ErrConflict: the object is no longer in the state that the write expects,
	// or in one that forbids it. Read it again.
	ErrConflict = errors.New("conflict with another change")

	// ErrImmutable: a field may not change once it is set. It comes with
	// synchronizer.ErrInvalid.
	ErrImmutable = errors.New("field is immutable")

	// ErrNamespaceTerminating: nothing can be created in a namespace that is being
	// deleted.
	ErrNamespaceTerminating = errors.New("namespace is being deleted")

	// ErrQuota: a ResourceQuota would be exceeded, or is not ready.
	ErrQuota = errors.New("quota exceeded")

	// ErrDeniedByWebhook: an admission webhook refused.
	ErrDeniedByWebhook = errors.New("denied by an admission webhook")

	// ErrDeniedByPolicy: a ValidatingAdmissionPolicy, a LimitRange, a pod security
	// standard or another admission plugin refused.
	ErrDeniedByPolicy = errors.New("denied by an admission policy")
)

// refusalLimit bounds what is read of a refusal, which may quote a whole object.
const refusalLimit = 1 << 20

// refusal is a metav1.Status that refuses a write.
type refusal struct {
	status
	Details struct {
		Name   string  `json:"name"`
		Causes []cause `json:"causes"`
	} `json:"details"`
}

type cause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

func readRefusal(raw []byte, code int) refusal {
	var r refusal
	if json.Unmarshal(raw, &r) != nil || r.Kind != "Status" {
		r = refusal{}
	}
	r.status = readStatus(raw)
	r.Code = code
	return r
}

// err is what the refusal means.
func (r refusal) err(header http.Header) error {
	switch message := r.Message; {
	case strings.Contains(message, "admission webhook ") && strings.Contains(message, " denied the request"):
		return r.as(ErrDeniedByWebhook, message)
	case strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, " denied request"):
		return r.as(ErrDeniedByPolicy, message)
	}
	switch r.Code {
	case http.StatusUnauthorized:
		return r.as(synchronizer.ErrForbidden, r.Message)
	case http.StatusForbidden:
		return r.forbidden()
	case http.StatusNotFound:
		if r.Details.Name != "" {
			return r.as(synchronizer.ErrNotFound, r.Message)
		}
		return r.as(synchronizer.ErrKindNotServed, r.Message)
	case http.StatusMethodNotAllowed:
		return r.as(synchronizer.ErrKindNotServed, r.Message)
	case http.StatusConflict:
		if r.Reason == "AlreadyExists" {
			return r.as(ErrAlreadyExists, r.Message)
		}
		return r.as(ErrConflict, r.Message)
	case http.StatusRequestEntityTooLarge:
		return r.as(synchronizer.ErrTooLarge, r.Message)
	case http.StatusUnprocessableEntity:
		return r.invalid()
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		// The message may quote what could not be decoded.
		return r.as(synchronizer.ErrInvalid, r.Reason)
	}
	return r.status.err(header)
}

func (r refusal) forbidden() error {
	for _, c := range r.Details.Causes {
		if c.Reason == "NamespaceTerminating" {
			return r.as(ErrNamespaceTerminating, r.Message)
		}
	}
	for _, words := range []string{"exceeded quota: ", "failed quota: ", "status unknown for quota: ", "insufficient quota to match"} {
		if strings.Contains(r.Message, words) {
			return r.as(ErrQuota, r.Message)
		}
	}
	// All authorizers say this; what admission plugins say has no common form.
	if r.Message == "" || strings.Contains(r.Message, `User "`) && strings.Contains(r.Message, " cannot ") {
		return r.as(synchronizer.ErrForbidden, r.Message)
	}
	return r.as(ErrDeniedByPolicy, r.Message)
}

// invalid names the fields that are wrong. The messages quote their values,
// environment variables and all, so they are not kept.
func (r refusal) invalid() error {
	const most = 5
	immutable := strings.Contains(r.Message, "field is immutable")
	var fields []string
	for i, c := range r.Details.Causes {
		immutable = immutable || strings.Contains(c.Message, "field is immutable")
		if i < most {
			fields = append(fields, fmt.Sprintf("%s (%s)", c.Field, c.Reason))
		}
	}
	if more := len(r.Details.Causes) - most; more > 0 {
		fields = append(fields, fmt.Sprintf("and %d more", more))
	}
	err := r.as(synchronizer.ErrInvalid, strings.Join(fields, ", "))
	if immutable {
		return fmt.Errorf("%w: %w", ErrImmutable, err)
	}
	return err
}

// as makes the error; message goes into it if there is one.
func (r refusal) as(sentinel error, message string) error {
	const longest = 500
	if message == "" {
		return fmt.Errorf("%w: API server answered %d", sentinel, r.Code)
	}
	if len(message) > longest {
		message = message[:longest]
	}
	return fmt.Errorf("%w: API server answered %d: %q", sentinel, r.Code, message)
}
