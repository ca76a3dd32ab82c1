// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"synchronizer"
)

// The two reviews as far as the endpoint needs them; the client links no types
// of the API server.
const (
	tokenReviews  = "/apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type tokenReview struct {
	typeMeta
	Spec struct {
		Token     string   `json:"token"`
		Audiences []string `json:"audiences"`
	} `json:"spec"`
}

type tokenStatus struct {
	Authenticated bool     `json:"authenticated"`
	User          identity `json:"user"`
	Audiences     []string `json:"audiences"`
}

// identity is who a token belongs to. All of it takes part in the decision on
// access: rights may hang on a group, and webhooks look at uid and extra.
type identity struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

type accessReview struct {
	typeMeta
	Spec accessSpec `json:"spec"`
}

type accessSpec struct {
	User               string              `json:"user,omitempty"`
	UID                string              `json:"uid,omitempty"`
	Groups             []string            `json:"groups,omitempty"`
	Extra              map[string][]string `json:"extra,omitempty"`
	ResourceAttributes resourceAttributes  `json:"resourceAttributes"`
}

type resourceAttributes struct {
	Namespace string `json:"namespace"`
	Verb      string `json:"verb"`
	Group     string `json:"group"`
	Resource  string `json:"resource"`
}

type accessStatus struct {
	Allowed bool `json:"allowed"`
	Denied  bool `json:"denied"`
}

var errNoStatus = errors.New("the answer holds no status")

// authenticate asks whose token it is; ok says that it is valid for our audience.
func (g *gate) authenticate(ctx context.Context, token string) (user identity, ok bool, err error) {
	review := tokenReview{typeMeta: typeMeta{"authentication.k8s.io/v1", "TokenReview"}}
	review.Spec.Token, review.Spec.Audiences = token, []string{g.auth.Audience}
	var status tokenStatus
	if err := g.ask(ctx, tokenReviews, &review, &status); err != nil {
		return identity{}, false, fmt.Errorf("reviewing a token: %w", err)
	}
	// A server that knows nothing of audiences answers with none, for tokens that
	// were made for somebody else as well.
	if !status.Authenticated || !slices.Contains(status.Audiences, g.auth.Audience) {
		return identity{}, false, nil
	}
	if status.User.Username == "" && len(status.User.Groups) == 0 {
		return identity{}, false, errors.New("reviewing a token: the answer names no user")
	}
	return status.User, true, nil
}

// mayCreate asks whether the user may create objects of the kind in our namespace.
func (g *gate) mayCreate(ctx context.Context, user identity, kind synchronizer.Kind) (bool, error) {
	review := accessReview{
		typeMeta: typeMeta{"authorization.k8s.io/v1", "SubjectAccessReview"},
		Spec: accessSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra,
			ResourceAttributes: resourceAttributes{Namespace: g.auth.Namespace, Verb: "create", Group: kind.Group, Resource: kind.Resource},
		},
	}
	var status accessStatus
	if err := g.ask(ctx, accessReviews, &review, &status); err != nil {
		return false, fmt.Errorf("reviewing access: %w", err)
	}
	return status.Allowed && !status.Denied, nil
}

// ask posts a review and reads the status of the answer. An answer without one
// decides nothing.
func (g *gate) ask(ctx context.Context, path string, review, status any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	answer, err := g.server.Post(ctx, path, body)
	if err != nil {
		return err
	}
	var envelope struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if len(envelope.Status) == 0 || envelope.Status[0] != '{' {
		return errNoStatus
	}
	if err := json.Unmarshal(envelope.Status, status); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
