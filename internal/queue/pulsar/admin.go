// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"synchronizer"
)

const adminTimeout = 30 * time.Second

// What a namespace that we make keeps of a topic although nobody needs it: a tail
// has no subscription, so the broker knows nothing of what it has yet to read; and
// dead letters wait for a person.
const (
	keepMinutes           = 60
	keepDeadLetterMinutes = 30 * 24 * 60
	keepMegabytes         = 512
)

// admin is the broker's admin service.
type admin struct {
	url   string
	token string
	http  *http.Client
}

func newAdmin(config *Config, secure *tls.Config, token string) *admin {
	return &admin{
		url: strings.TrimRight(config.AdminURL, "/") + "/admin/v2/", token: token,
		http: &http.Client{Timeout: adminTimeout, Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}},
	}
}

// prepare makes the tenant and the namespaces, if they are not there.
func (a *admin) prepare(ctx context.Context, config *Config) error {
	clusters := config.Clusters
	if len(clusters) == 0 {
		if _, err := a.call(ctx, http.MethodGet, "clusters", nil, &clusters); err != nil {
			return fmt.Errorf("asking Pulsar for its clusters: %w", err)
		}
	}
	tenant := url.PathEscape(config.Tenant)
	if _, err := a.call(ctx, http.MethodPut, "tenants/"+tenant, map[string]any{"allowedClusters": clusters}, nil); err != nil {
		return fmt.Errorf("making tenant %q: %w", config.Tenant, err)
	}
	for name, minutes := range map[string]int{config.Namespace: keepMinutes, config.Namespace + deadLetterNamespace: keepDeadLetterMinutes} {
		path := "namespaces/" + tenant + "/" + url.PathEscape(name)
		made, err := a.call(ctx, http.MethodPut, path, map[string]any{"replication_clusters": clusters}, nil)
		if err != nil {
			return fmt.Errorf("making namespace %s/%s: %w", config.Tenant, name, err)
		}
		if !made { // its policies are somebody else's
			continue
		}
		retention := map[string]int{"retentionTimeInMinutes": minutes, "retentionSizeInMB": keepMegabytes}
		if _, err := a.call(ctx, http.MethodPost, path+"/retention", retention, nil); err != nil {
			return fmt.Errorf("setting retention of namespace %s/%s: %w", config.Tenant, name, err)
		}
	}
	return nil
}

// call is one request; done is false when the thing was there before.
func (a *admin) call(ctx context.Context, method, path string, body, answer any) (done bool, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return false, fmt.Errorf("writing request: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(text))
	if err != nil {
		return false, fmt.Errorf("making request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return false, fmt.Errorf("calling admin service: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return false, fmt.Errorf("reading answer of admin service: %w", err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusConflict:
		return false, nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return false, fmt.Errorf("%w: admin service answers %s: %s", synchronizer.ErrUnauthorized, response.Status, brief(said))
	case code >= 300:
		return false, fmt.Errorf("admin service answers %s: %s", response.Status, brief(said))
	}
	if answer != nil {
		if err := json.Unmarshal(said, answer); err != nil {
			return false, fmt.Errorf("reading answer of admin service: %w", err)
		}
	}
	return true, nil
}

// brief is the reason in an error's JSON, or the beginning of the text.
func brief(said []byte) string {
	var body struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(said, &body) == nil && body.Reason != "" {
		return body.Reason
	}
	return string(said[:min(len(said), 200)])
}
