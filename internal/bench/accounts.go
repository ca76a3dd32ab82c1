// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// openAccounts makes service accounts in a namespace of its own, each with a
// token for the HTTP endpoint and all with the right to post alerts and network
// streams.
func openAccounts(ctx context.Context, kubeconfig string, n int, bar *Progress) (_ *real, tokens []string, err error) {
	const core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
	accounts, roles, bindings := [2]string{core, "serviceaccounts"}, [2]string{rbac, "roles"}, [2]string{rbac, "rolebindings"}
	r, err := openNamespace(ctx, kubeconfig, bindings, roles, accounts)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	role := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"reports"},
		"rules":[{"apiGroups":["kubescape.io"],"resources":["runtimealerts","networkstreams"],"verbs":["create"]}]}`
	binding := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"reports"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reports"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:serviceaccounts:%s"}]}`, r.namespace)
	if err := r.post(ctx, r.collection(roles), role); err != nil {
		return nil, nil, fmt.Errorf("creating the callers' role: %w", err)
	}
	if err := r.post(ctx, r.collection(bindings), binding); err != nil {
		return nil, nil, fmt.Errorf("binding the callers' role: %w", err)
	}
	bar.Start("accounts", n)
	defer bar.Stop()
	tokens = make([]string, n)
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range n {
		g.Go(func() (err error) {
			tokens[i], err = r.account(creating, r.collection(accounts), fmt.Sprintf("caller-%d", i))
			bar.Add(1)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	return r, tokens, nil
}

// account makes one service account and a token for it.
func (r *real) account(ctx context.Context, collection, name string) (token string, err error) {
	if err := r.post(ctx, collection, fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`, name)); err != nil {
		return "", fmt.Errorf("creating service accounts: %w", err)
	}
	answer, err := r.do(ctx, http.MethodPost, collection+"/"+name+"/token", "application/json",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["kubescape.io"],"expirationSeconds":3600}}`))
	if err != nil {
		return "", fmt.Errorf("requesting tokens: %w", err)
	}
	var made struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &made); err != nil || made.Status.Token == "" {
		return "", errors.New("requesting tokens: the answer holds none")
	}
	return made.Status.Token, nil
}
