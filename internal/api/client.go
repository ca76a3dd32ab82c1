// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Client reads the API; the command line uses it.
type Client struct {
	Server string // base address, http://127.0.0.1:8090
	Token  string
	HTTP   *http.Client // default: one that waits a minute for an answer to begin
}

var defaultHTTP = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: t}
})

// Clusters lists the clusters that the token may see.
func (c *Client) Clusters(ctx context.Context) ([]Cluster, error) {
	var list ClusterList
	err := c.get(ctx, "/api/v1/clusters", nil, &list)
	return list.Items, err
}

// Objects lists one page; query holds the parameters of GET /api/v1/objects.
func (c *Client) Objects(ctx context.Context, query url.Values) (ObjectList, error) {
	var list ObjectList
	err := c.get(ctx, "/api/v1/objects", query, &list)
	return list, err
}

// EachPage lists page after page until the last one.
func (c *Client) EachPage(ctx context.Context, query url.Values, each func([]Object) error) error {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	for {
		page, err := c.Objects(ctx, query)
		if err != nil {
			return err
		}
		if err := each(page.Items); err != nil {
			return err
		}
		if page.Continue == "" {
			return nil
		}
		query.Set("continue", page.Continue)
	}
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.send(ctx, http.MethodGet, path, query, nil, into)
}

// problemOf reads the problem of an answer; anything else becomes one.
func problemOf(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	p := &Problem{}
	if err != nil || json.Unmarshal(text, p) != nil || p.Title == "" {
		p = &Problem{Title: resp.Status, Detail: strings.TrimSpace(string(text))}
	}
	p.Status = resp.StatusCode
	return p
}

// IsStatus reports whether err is a problem with this HTTP status.
func IsStatus(err error, status int) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == status
}
