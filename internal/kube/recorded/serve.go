// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// list writes one page. A continue token is the list's resourceVersion and the
// place of the next item. While changes are played an item may be newer than the
// list; the watch from the list's resourceVersion then sends it again.
func (c *collection) list(w http.ResponseWriter, limitText, token string) {
	c.mu.Lock()
	items, version := c.items, c.version
	c.mu.Unlock()
	from := 0
	if token != "" {
		versionText, place, _ := strings.Cut(token, ".")
		v, err1 := strconv.ParseInt(versionText, 10, 64)
		i, err2 := strconv.Atoi(place)
		if err1 != nil || err2 != nil || i < 0 || i > len(items) {
			writeStatus(w, http.StatusBadRequest, "BadRequest", "continue key is not valid", "")
			return
		}
		version, from = v, i
	}
	to := len(items)
	if limit, err := strconv.Atoi(limitText); err == nil && limit > 0 {
		to = min(from+limit, len(items))
	}
	metadata := fmt.Sprintf(`"metadata":{"resourceVersion":"%d"`, version)
	if to < len(items) {
		metadata += fmt.Sprintf(`,"continue":"%d.%d","remainingItemCount":%d`, version, to, len(items)-to)
	}
	metadata += "}"

	out := bufio.NewWriterSize(w, 64<<10)
	set := c.set
	if set.ItemsFirst {
		_, _ = fmt.Fprintf(out, `{"apiVersion":%q,"items":[`, set.Kind.GroupVersion())
	} else {
		_, _ = fmt.Fprintf(out, `{"kind":"%sList","apiVersion":%q,%s,"items":[`, set.ObjectKind, set.Kind.GroupVersion(), metadata)
	}
	for i := from; i < to; i++ {
		if i > from {
			_ = out.WriteByte(',')
		}
		c.mu.Lock()
		item := items[i]
		c.mu.Unlock()
		_, _ = out.Write(item)
	}
	if set.ItemsFirst {
		_, _ = fmt.Fprintf(out, `],"kind":"%sList",%s}`+"\n", set.ObjectKind, metadata)
	} else {
		_, _ = out.WriteString("]}\n")
	}
	_ = out.Flush()
}

func (c *collection) get(w http.ResponseWriter, namespace, name string) {
	i, ok := c.index[namespace+"/"+name]
	if !ok {
		writeStatus(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", c.set.Kind.Resource, name), name)
		return
	}
	c.mu.Lock()
	item := c.items[i]
	c.mu.Unlock()
	_, _ = w.Write(append(c.set.typed(nil, item), '\n'))
}

// watch writes the changes behind resourceVersion as they come.
func (c *collection) watch(stop context.Context, w http.ResponseWriter, r *http.Request, resourceVersion string) {
	control := http.NewResponseController(w)
	c.mu.Lock()
	from, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		from = c.version
	}
	next := c.dropped
	for next < c.dropped+len(c.log) && c.log[next-c.dropped].version <= from {
		next++
	}
	gone := c.dropped > 0 && c.log[0].version > from+1 // every event has a version of its own
	c.mu.Unlock()
	if gone {
		_, _ = fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`)
		return
	}
	_ = control.Flush()
	bookmarks := time.NewTicker(BookmarkInterval)
	defer bookmarks.Stop()
	var lines [][]byte
	for {
		c.mu.Lock()
		if next < c.dropped {
			c.mu.Unlock()
			return // too slow; the client resumes and is told
		}
		lines = lines[:0]
		for _, e := range c.log[next-c.dropped:] {
			lines = append(lines, e.line)
		}
		next += len(lines)
		wake, version := c.wake, c.version
		c.mu.Unlock()
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
		if len(lines) > 0 && control.Flush() != nil {
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		case <-stop.Done():
			return
		case <-bookmarks.C:
			_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"}}}`+"\n",
				c.set.ObjectKind, c.set.Kind.GroupVersion(), version)
			_ = control.Flush()
		}
	}
}
