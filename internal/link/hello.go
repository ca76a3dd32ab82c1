// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"synchronizer"
)

// The headers of the handshake.
const (
	headerKey                 = "X-API-KEY"
	headerAccount             = "X-API-ACCOUNT"
	headerCluster             = "X-API-CLUSTER"
	headerHelmVersion         = "X-HELM-VERSION"
	headerSynchronizerVersion = "X-SYNCHRONIZER-VERSION"
	headerGitVersion          = "X-GIT-VERSION"
	headerCloudProvider       = "X-CLOUD-PROVIDER"
)

// ExtraHeaders names the two headers that newer clients send. Their names are
// not fixed; an empty name means that the header is neither sent nor read.
type ExtraHeaders struct {
	ClusterUID    string
	ResourceGroup string
}

// minVersion is the lowest version that servers in the field accept for all
// events, and what a client of unknown version calls itself.
const minVersion = "v0.0.57"

var minSemver = semver.MustParse(minVersion)

// ParseHello reads what a client says of itself in its upgrade request. The
// error is the answer to give, see Refuse: first ErrUnauthorized for a missing
// header, then ErrUnsupportedVersion for the version "invalid", which is what
// clients in the field call themselves if they cannot tell. An account or cluster that
// cannot be an identity is ErrInvalid. The access key is not checked and must
// not be logged.
func ParseHello(r *http.Request, extra ExtraHeaders) (hello synchronizer.Hello, accessKey string, err error) {
	get := func(name string) string {
		if name == "" {
			return ""
		}
		return r.Header.Get(name)
	}
	hello = synchronizer.Hello{
		ClusterID:           synchronizer.ClusterID{Account: get(headerAccount), Cluster: get(headerCluster)},
		SynchronizerVersion: get(headerSynchronizerVersion),
		HelmVersion:         get(headerHelmVersion),
		GitVersion:          get(headerGitVersion),
		CloudProvider:       get(headerCloudProvider),
		ClusterUID:          get(extra.ClusterUID),
		ResourceGroup:       get(extra.ResourceGroup),
	}
	for _, name := range []string{headerKey, headerAccount, headerCluster} {
		if get(name) == "" {
			return hello, "", fmt.Errorf("%w: header %s is missing", synchronizer.ErrUnauthorized, name)
		}
	}
	if hello.SynchronizerVersion == "invalid" {
		return hello, "", fmt.Errorf("%w: the client calls its version %q; update it", synchronizer.ErrUnsupportedVersion, hello.SynchronizerVersion)
	}
	for _, name := range []string{headerAccount, headerCluster} {
		if n := len(get(name)); n > synchronizer.MaxNameBytes {
			return hello, "", fmt.Errorf("%w: header %s has %d bytes, and %d are the most", synchronizer.ErrInvalid, name, n, synchronizer.MaxNameBytes)
		}
	}
	if err := hello.Validate(); err != nil {
		return hello, "", fmt.Errorf("reading the client's identity: %w", err)
	}
	return hello, get(headerKey), nil
}

// Refuse answers an upgrade request that is not accepted: 401 for
// ErrUnauthorized, 424 for ErrUnsupportedVersion, 503 with Retry-After for
// RetryAfterError, else 400. The error's text is sent.
func Refuse(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	var later *synchronizer.RetryAfterError
	switch {
	case errors.As(err, &later):
		code = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(later.After.Seconds()))))
	case errors.Is(err, synchronizer.ErrUnauthorized):
		code = http.StatusUnauthorized
	case errors.Is(err, synchronizer.ErrUnsupportedVersion):
		code = http.StatusFailedDependency
	}
	http.Error(w, err.Error(), code)
}

// header is the client's side of ParseHello. Like clients in the field it sends
// the optional headers also when they are empty.
func (d *Dialer) header(limits Limits) http.Header {
	h := http.Header{}
	h.Set("User-Agent", "synchronizer")
	h.Set(headerKey, d.AccessKey)
	h.Set(headerAccount, d.Hello.Account)
	h.Set(headerCluster, d.Hello.Cluster)
	h.Set(headerHelmVersion, d.Hello.HelmVersion)
	h.Set(headerSynchronizerVersion, announced(d.Hello.SynchronizerVersion))
	h.Set(headerGitVersion, d.Hello.GitVersion)
	h.Set(headerCloudProvider, d.Hello.CloudProvider)
	h.Set(headerPing, limits.PingInterval.String())
	if d.ExtraHeaders.ClusterUID != "" && d.Hello.ClusterUID != "" {
		h.Set(d.ExtraHeaders.ClusterUID, d.Hello.ClusterUID)
	}
	if d.ExtraHeaders.ResourceGroup != "" && d.Hello.ResourceGroup != "" {
		h.Set(d.ExtraHeaders.ResourceGroup, d.Hello.ResourceGroup)
	}
	return h
}

// announced is version if it is v<semver> and new enough, else minVersion:
// servers in the field refuse or restrict anything else.
func announced(version string) string {
	number, ok := strings.CutPrefix(version, "v")
	if !ok {
		return minVersion
	}
	v, err := semver.StrictNewVersion(number)
	if err != nil || v.LessThan(minSemver) {
		return minVersion
	}
	return version
}
