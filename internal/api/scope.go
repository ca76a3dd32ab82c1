// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"slices"

	"synchronizer"
)

// narrow bounds a query to what the request's token may see. What another
// account has is not forbidden but not found: a token learns nothing of others.
func narrow(r *http.Request, q *synchronizer.ObjectQuery) error {
	token, ok := r.Context().Value(tokenKey{}).(synchronizer.APIToken)
	if !ok {
		return &Problem{Status: http.StatusUnauthorized, Title: "unauthorized"}
	}
	if token.Account != "" {
		if q.Account != "" && q.Account != token.Account {
			return notVisible
		}
		q.Account = token.Account
	}
	if token.Cluster != "" {
		if len(q.Clusters) > 0 && !slices.Contains(q.Clusters, token.Cluster) {
			return notVisible
		}
		q.Clusters = []string{token.Cluster}
	}
	return nil
}

var notVisible = &Problem{Status: http.StatusNotFound, Title: "not found", Detail: "no such account or cluster for this token"}
