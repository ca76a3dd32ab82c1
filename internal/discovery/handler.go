// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
)

// Paths of the two versions of the document.
const (
	PathV2 = "/api/v2/servicediscovery"
	PathV3 = "/api/v3/servicediscovery"
)

// Addresses are what a server tells; empty ones are told as empty.
type Addresses struct {
	// Synchronizer is where clients connect. Empty: made from the request, ws or wss
	// and the host that was asked.
	Synchronizer string

	EventReceiverHTTP, EventReceiverWS, Gateway, APIServer, Metrics, Storage string
}

// The documents, with their members in the order of the field's.
type (
	documentV2 struct {
		Version  string     `json:"version"`
		Response responseV2 `json:"response"`
	}
	responseV2 struct {
		EventReceiverHTTP string `json:"event-receiver-http"`
		EventReceiverWS   string `json:"event-receiver-ws"`
		Gateway           string `json:"gateway"`
		APIServer         string `json:"api-server"`
		Metrics           string `json:"metrics"`
		Synchronizer      string `json:"synchronizer"`
	}
	documentV3 struct {
		Version  string     `json:"version"`
		Response responseV3 `json:"response"`
	}
	responseV3 struct {
		EventReceiverHTTP string `json:"event-receiver-http"`
		APIServer         string `json:"api-server"`
		Metrics           string `json:"metrics"`
		Synchronizer      string `json:"synchronizer"`
		Storage           string `json:"storage"`
	}
)

// Handler answers the two paths and leaves everything else to next, also clients
// that connect under these paths: they may under any.
func Handler(tell Addresses, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// API_URL with a slash at its end makes two of them.
		wanted := path.Clean(r.URL.Path)
		if wanted != PathV2 && wanted != PathV3 || isClient(r) {
			next.ServeHTTP(w, r)
			return
		}
		answer(w, r, tell, wanted)
	})
}

// isClient is true for who wants a WebSocket. Others offer an upgrade too, such as
// programs that would like HTTP/2.
func isClient(r *http.Request) bool {
	return strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Upgrade"), ",")), "websocket")
}

func answer(w http.ResponseWriter, r *http.Request, tell Addresses, wanted string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "service discovery answers GET", http.StatusMethodNotAllowed)
		return
	}
	if tell.Synchronizer == "" {
		tell.Synchronizer = asked(r)
	}
	var document any = documentV3{"v3", responseV3{tell.EventReceiverHTTP, tell.APIServer, tell.Metrics, tell.Synchronizer, tell.Storage}}
	if wanted == PathV2 {
		document = documentV2{"v2", responseV2{tell.EventReceiverHTTP, tell.EventReceiverWS, tell.Gateway, tell.APIServer, tell.Metrics, tell.Synchronizer}}
	}
	w.Header().Set("Content-Type", "application/json")
	// It depends on the request, so nobody on the way may answer others with it.
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(document) // whoever asked may have left
}

// asked is the address under which this server was found.
func asked(r *http.Request) string {
	if r.Host == "" {
		return ""
	}
	// Of several proxies, the first one is the one that the client spoke to.
	outside, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if r.TLS != nil || strings.EqualFold(strings.TrimSpace(outside), "https") {
		return "wss://" + r.Host
	}
	return "ws://" + r.Host
}
