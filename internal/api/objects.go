// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Object is one row as the API shows it. Object (with full=true) is the
// object's own JSON.
type Object struct {
	Account         string          `json:"account"`
	Cluster         string          `json:"cluster"`
	Group           string          `json:"group"`
	Version         string          `json:"version"`
	Resource        string          `json:"resource"`
	Namespace       string          `json:"namespace"`
	Name            string          `json:"name"`
	UID             string          `json:"uid"`
	ResourceVersion string          `json:"resourceVersion"`
	Checksum        string          `json:"checksum"`
	UpdatedAt       time.Time       `json:"updatedAt"`
	DeletedAt       time.Time       `json:"deletedAt,omitzero"`
	State           string          `json:"state,omitempty"`
	Object          json.RawMessage `json:"object,omitempty"`
}

// ObjectList is the answer of GET /api/v1/objects.
type ObjectList struct {
	Items    []Object `json:"items"`
	Continue string   `json:"continue,omitempty"`
}

func (s *server) listObjects(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	if err := narrow(r, &q); err != nil {
		return err
	}
	page, err := s.Reader.Objects(r.Context(), q)
	if err != nil {
		return err
	}
	list := ObjectList{Items: make([]Object, len(page.Rows)), Continue: page.Continue}
	for i := range page.Rows {
		list.Items[i] = objectOf(&page.Rows[i])
	}
	return writeJSON(w, list)
}

// getObject answers with the object's own bytes.
func (s *server) getObject(w http.ResponseWriter, r *http.Request) error {
	group, namespace := r.PathValue("group"), r.PathValue("namespace")
	if group == "core" {
		group = ""
	}
	if namespace == "-" {
		namespace = ""
	}
	q := synchronizer.ObjectQuery{Account: r.PathValue("account"), Clusters: []string{r.PathValue("cluster")}}
	if err := narrow(r, &q); err != nil {
		return err
	}
	key := synchronizer.ObjectKey{
		ClusterID: synchronizer.ClusterID{Account: q.Account, Cluster: q.Clusters[0]},
		Kind:      synchronizer.Kind{Group: group, Version: r.PathValue("version"), Resource: r.PathValue("resource")},
		Namespace: namespace, Name: r.PathValue("name"),
	}
	row, err := s.Reader.Object(r.Context(), key)
	if err != nil {
		return err
	}
	if row.Deleted() {
		return fmt.Errorf("%s was deleted at %s: %w", key, row.DeletedAt.Format(time.RFC3339), synchronizer.ErrNotFound)
	}
	if len(row.Body) == 0 {
		return fmt.Errorf("%s is known, but its body is not stored (%s): %w", key, row.State, synchronizer.ErrNotFound)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(row.Body) // an error only says that the reader has left
	return nil
}

func objectOf(r *synchronizer.Row) Object {
	o := Object{
		Account: r.Key.Account, Cluster: r.Key.Cluster,
		Group: r.Key.Kind.Group, Version: r.Key.Kind.Version, Resource: r.Key.Kind.Resource,
		Namespace: r.Key.Namespace, Name: r.Key.Name, UID: r.UID, ResourceVersion: r.ResourceVersion,
		Checksum: r.Checksum, UpdatedAt: r.UpdatedAt, DeletedAt: r.DeletedAt, State: r.State,
	}
	if len(r.Body) > 0 && rawjson.Valid(r.Body) {
		o.Object = r.Body
	}
	return o
}

// repeatable tells for each parameter of GET /api/v1/objects whether it may be
// given more than once.
var repeatable = map[string]bool{
	"account": false, "cluster": true, "group": true, "version": true, "resource": true, "namespace": true,
	"name": true, "namePrefix": false, "search": false, "labelSelector": false, "deleted": false, "updatedSince": false,
	"limit": false, "continue": false, "full": false,
}

func parseQuery(v url.Values) (q synchronizer.ObjectQuery, err error) {
	p := readParameters(v, repeatable)
	q = synchronizer.ObjectQuery{
		Account: v.Get("account"), Clusters: v["cluster"], Groups: v["group"], Versions: v["version"],
		Resources: v["resource"], Namespaces: v["namespace"], Names: v["name"],
		NamePrefix: v.Get("namePrefix"), Search: v.Get("search"), Continue: v.Get("continue"),
		Deleted: p.boolean("deleted"), Full: p.boolean("full"), Limit: p.positive("limit"), UpdatedSince: p.instant("updatedSince"),
	}
	if p.err != nil {
		return q, p.err
	}
	q.Labels, err = ParseLabelSelector(v.Get("labelSelector"))
	return q, err
}

// writeJSON writes v without escaping HTML, so that an embedded object keeps its
// code points.
func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(answer{w})
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// answer hides errors of writing, which only say that the reader has left.
type answer struct{ http.ResponseWriter }

func (a answer) Write(p []byte) (int, error) {
	_, _ = a.ResponseWriter.Write(p)
	return len(p), nil
}
