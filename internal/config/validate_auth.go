// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// anonymous refuses to let everyone in on an address that others can reach, unless asked to.
func (k *checker) anonymous(b *Backend) {
	if b.AllowAnonymous || b.AuthenticationServer.URL != "" || b.AccessKeys != "" {
		return
	}
	host, _, _ := net.SplitHostPort(b.ListenAddress())
	if isLoopback(host) {
		return
	}
	file := k.config.Process.File
	if file == "" {
		file = "config.json"
	}
	k.problem("backend.allowAnonymous", "the server listens on %s and would let every client in: set in %s backend.accessKeys to \"store\", or backend.authenticationServer.url, or backend.allowAnonymous to true if that is meant, or backend.listen to a loopback address such as 127.0.0.1:8080", b.ListenAddress(), file)
}

// authentication checks the section of the authentication server.
func (k *checker) authentication(b *Backend) {
	const path = "backend.authenticationServer"
	a := &b.AuthenticationServer
	if a.URL == "" {
		for _, mapping := range []struct {
			key   string
			pairs map[string]string
		}{{"headerToQueryParamMapping", a.HeaderToQueryParamMapping}, {"headerToHeaderMapping", a.HeaderToHeaderMapping}} {
			if len(mapping.pairs) > 0 {
				k.warn(path+"."+mapping.key, "has no effect without %s.url", path)
			}
		}
		return
	}
	u, err := url.Parse(a.URL)
	switch {
	case err != nil || u.Hostname() == "":
		k.problem(path+".url", "is not an address: write it like https://auth.example.com/check")
	case u.Scheme != "http" && u.Scheme != "https":
		k.problem(path+".url", "%q must begin with https:// or http://", redactURL(a.URL))
	}
	if b.AccessKeys != "" {
		k.problem("backend.accessKeys", "the authentication server decides already: remove this or backend.authenticationServer.url")
	}
	passesKey := false
	for _, from := range slices.Sorted(maps.Keys(a.HeaderToQueryParamMapping)) {
		passesKey = k.mapping(path+".headerToQueryParamMapping", from, a.HeaderToQueryParamMapping[from]) || passesKey
	}
	for _, from := range slices.Sorted(maps.Keys(a.HeaderToHeaderMapping)) {
		to := a.HeaderToHeaderMapping[from]
		passesKey = k.mapping(path+".headerToHeaderMapping", from, to) || passesKey
		if to != "" && (!httpguts.ValidHeaderFieldName(to) || slices.Contains(reservedHeaders, http.CanonicalHeaderKey(to))) {
			k.problem(path+".headerToHeaderMapping", "%q cannot be set as a header", to)
		}
	}
	if !passesKey {
		k.warn(path, "no mapping passes X-API-KEY on: the authentication server cannot check it")
	}
}

// reservedHeaders are those that belong to a connection or that HTTP itself writes.
var reservedHeaders = []string{"Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Keep-Alive", "Proxy-Authorization"}

// mapping checks one pair and tells whether it passes the access key on.
func (k *checker) mapping(path, from, to string) bool {
	if !httpguts.ValidHeaderFieldName(from) {
		k.problem(path, "%q is not the name of a header", from)
	}
	if to == "" {
		k.problem(path, "%s: to what is missing", from)
	}
	return to != "" && strings.EqualFold(from, "X-API-KEY")
}

// listenerTLS wants both files or none.
func (k *checker) listenerTLS(path string, pair KeyPair) {
	if (pair.CertPath == "") != (pair.KeyPath == "") {
		k.problem(path, "certPath and keyPath belong together")
	}
	k.readable(path+".certPath", pair.CertPath)
	k.readable(path+".keyPath", pair.KeyPath)
}

// publicURL is told to everybody who asks.
func (k *checker) publicURL(text string) {
	const path = "backend.publicUrl"
	if text == "" {
		return
	}
	if fault := faultOfServerURL(text); fault != "" {
		k.problem(path, "%s", fault)
		return
	}
	if u, err := url.Parse(text); err == nil && (u.User != nil || u.Fragment != "") {
		k.problem(path, "%q must not contain a user, a password or a fragment: everybody is told", redactURL(text))
	}
}
