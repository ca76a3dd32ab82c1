// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/kube"
)

// Outcome is what became of a statement of the backend.
type Outcome string

// The outcomes. Refused is a decision: the same again ends the same until
// something else changes. Failed means that another try may succeed.
const (
	Applied   Outcome = "applied"
	Unchanged Outcome = "unchanged" // the cluster is as desired already
	Refused   Outcome = "refused"
	Failed    Outcome = "failed"
)

// Reason is a stable code, for counters and replies.
type Reason string

// The reasons. Those of Refused come first, then those of Failed.
const (
	ReasonNotConfigured        Reason = "not_configured"        // the kind is not in inCluster.resources
	ReasonNotPatched           Reason = "not_patched"           // a patch for a kind of strategy copy
	ReasonMasked               Reason = "masked_value"          // a mask or hash of the policy would be written
	ReasonInvalid              Reason = "invalid"               // not an object, another object, or the API server says so
	ReasonImmutable            Reason = "immutable"             // a field that may not change
	ReasonTooLarge             Reason = "too_large"             // for us or for the API server
	ReasonForbidden            Reason = "forbidden"             // RBAC
	ReasonQuota                Reason = "quota"                 // ResourceQuota
	ReasonWebhook              Reason = "denied_by_webhook"     // admission webhook
	ReasonPolicy               Reason = "denied_by_policy"      // other admission
	ReasonNamespaceTerminating Reason = "namespace_terminating" // nothing can be created there
	ReasonNamespaceNotFound    Reason = "namespace_not_found"
	ReasonNotServed            Reason = "kind_not_served" // the API server does not have the kind
	ReasonRan                  Reason = "already_ran"     // an OperatorCommand that was carried out

	ReasonConflict    Reason = "conflict"           // others change the object faster than we do
	ReasonTerminating Reason = "object_terminating" // the object is being deleted and does not go away
	ReasonNotFound    Reason = "not_found"          // a patch for an object that does not exist
	ReasonChecksum    Reason = "checksum_mismatch"  // a patch for another state of the object
	ReasonUnavailable Reason = "unavailable"        // the API server did not decide

	ReasonExists Reason = "exists" // with Unchanged: an OperatorCommand that is there already
)

// Result is what became of one statement.
type Result struct {
	Outcome Outcome
	Reason  Reason // empty if applied, or unchanged for no special reason
	// Message says more, for a log line: names of fields and words of the API
	// server, never values of the object.
	Message string
	// ResourceVersion is that of the object as it is now, where that is known.
	ResourceVersion string
	// AskObject: a patch was not applied; answer it with GetObject (on link v1 with
	// an empty BaseObject).
	AskObject bool
}

// refusal is a decision of this package.
type refusal struct {
	reason  Reason
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(reason Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// causes maps what the API server says to reasons; the first that fits holds.
var causes = []struct {
	err     error
	reason  Reason
	outcome Outcome
}{
	{kube.ErrImmutable, ReasonImmutable, Refused},
	{synchronizer.ErrInvalid, ReasonInvalid, Refused},
	{synchronizer.ErrTooLarge, ReasonTooLarge, Refused},
	{synchronizer.ErrForbidden, ReasonForbidden, Refused},
	{kube.ErrQuota, ReasonQuota, Refused},
	{kube.ErrDeniedByWebhook, ReasonWebhook, Refused},
	{kube.ErrDeniedByPolicy, ReasonPolicy, Refused},
	{kube.ErrNamespaceTerminating, ReasonNamespaceTerminating, Refused},
	{synchronizer.ErrKindNotServed, ReasonNotServed, Refused},
	{synchronizer.ErrNotFound, ReasonNotFound, Failed},
	{kube.ErrConflict, ReasonConflict, Failed},
	{kube.ErrAlreadyExists, ReasonConflict, Failed},
}

// explain makes the result of an error. The error comes back if nobody decided.
func explain(err error) (Result, error) {
	var own *refusal
	if errors.As(err, &own) {
		outcome := Refused
		switch own.reason {
		case ReasonConflict, ReasonTerminating, ReasonNotFound, ReasonChecksum:
			outcome = Failed
		}
		return Result{Outcome: outcome, Reason: own.reason, Message: own.message}, nil
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return Result{Outcome: c.outcome, Reason: c.reason, Message: err.Error()}, nil
		}
	}
	return Result{Outcome: Failed, Reason: ReasonUnavailable, Message: err.Error()}, err
}
