// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Event is one report as the API shows it. Object (with full=true) is the
// report's own JSON.
type Event struct {
	Account         string          `json:"account"`
	Cluster         string          `json:"cluster"`
	Group           string          `json:"group"`
	Version         string          `json:"version"`
	Resource        string          `json:"resource"`
	Namespace       string          `json:"namespace"`
	Name            string          `json:"name"`
	UID             string          `json:"uid,omitempty"`
	ResourceVersion string          `json:"resourceVersion,omitempty"`
	At              time.Time       `json:"at"`
	Object          json.RawMessage `json:"object,omitempty"`
}

// EventList is the answer of GET /api/v1/events, the newest first.
type EventList struct {
	Items    []Event `json:"items"`
	Continue string  `json:"continue,omitempty"`
}

// eventParameters are those of GET /api/v1/events.
var eventParameters = map[string]bool{
	"account": false, "cluster": true, "group": true, "version": true, "resource": true, "namespace": true,
	"since": false, "until": false, "limit": false, "continue": false, "full": false,
}

func (s *server) listEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := parseEventQuery(r.URL.Query())
	if err != nil {
		return err
	}
	scope := synchronizer.ObjectQuery{Account: q.Account, Clusters: q.Clusters}
	if err := narrow(r, &scope); err != nil {
		return err
	}
	q.Account, q.Clusters = scope.Account, scope.Clusters
	if q.Account == "" {
		return fmt.Errorf("%w: query parameter \"account\" is missing: events are listed by account", synchronizer.ErrInvalid)
	}
	page, err := s.Events.Events(r.Context(), q)
	if err != nil {
		return err
	}
	list := EventList{Items: make([]Event, len(page.Events)), Continue: page.Continue}
	for i := range page.Events {
		e := &page.Events[i]
		list.Items[i] = Event{
			Account: e.Key.Account, Cluster: e.Key.Cluster,
			Group: e.Key.Kind.Group, Version: e.Key.Kind.Version, Resource: e.Key.Kind.Resource,
			Namespace: e.Key.Namespace, Name: e.Key.Name, UID: e.UID, ResourceVersion: e.ResourceVersion, At: e.At,
		}
		if len(e.Body) > 0 && rawjson.Valid(e.Body) {
			list.Items[i].Object = e.Body
		}
	}
	return writeJSON(w, list)
}

func parseEventQuery(v url.Values) (synchronizer.EventQuery, error) {
	p := readParameters(v, eventParameters)
	q := synchronizer.EventQuery{
		Account: v.Get("account"), Clusters: v["cluster"], Groups: v["group"], Versions: v["version"],
		Resources: v["resource"], Namespaces: v["namespace"], Continue: v.Get("continue"),
		Full: p.boolean("full"), Limit: p.positive("limit"), Since: p.instant("since"), Until: p.instant("until"),
	}
	return q, p.err
}

// Events lists one page; query holds the parameters of GET /api/v1/events.
func (c *Client) Events(ctx context.Context, query url.Values) (EventList, error) {
	var list EventList
	err := c.get(ctx, "/api/v1/events", query, &list)
	return list, err
}
