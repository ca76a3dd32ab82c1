// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"synchronizer"
)

// EventIndex is what a list of events needs of a database. Account is its number
// there.
type EventIndex interface {
	// EventsBehind calls each with the events of an account that stand behind the
	// place, newest first, at most limit of them, until it returns false. They have
	// no bodies.
	EventsBehind(ctx context.Context, account int64, behind EventPlace, limit int, each func(*FoundEvent) bool) error
	// EventBodies reads the bodies of these events, in any order.
	EventBodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error
}

// EventPlace is a place in the list of an account's events, which goes from the
// greatest time and number to the least.
type EventPlace struct {
	At time.Time
	ID int64
}

// FoundEvent is an event and its number.
type FoundEvent struct {
	synchronizer.EventRow
	ID int64
}

// EventQuery is a checked EventQuery.
type EventQuery struct {
	synchronizer.EventQuery
	groups, namespaces []string
	behind             EventPlace
}

// farFuture is behind all events; databases can store it.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// NewEventQuery checks a query; its errors wrap synchronizer.ErrInvalid.
func NewEventQuery(q synchronizer.EventQuery) (*EventQuery, error) {
	limit, err := PageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	if q.Account == "" {
		return nil, fmt.Errorf("%w: events are read of one account, and none was named", synchronizer.ErrInvalid)
	}
	if terms := len(q.Clusters) + len(q.Groups) + len(q.Versions) + len(q.Resources) + len(q.Namespaces); terms > maxTerms {
		return nil, fmt.Errorf("%w: a query of %d terms; %d is the most", synchronizer.ErrInvalid, terms, maxTerms)
	}
	q.Limit = limit
	checked := &EventQuery{
		EventQuery: q, groups: NamesOf(q.Groups, "core"), namespaces: NamesOf(q.Namespaces, "-"),
		behind: EventPlace{At: farFuture},
	}
	if !q.Until.IsZero() {
		// Exclusive: behind every number at that time.
		checked.behind = EventPlace{At: q.Until.Truncate(time.Microsecond), ID: 0}
	}
	if q.Continue != "" {
		place, err := parseEventPlace(q.Continue)
		if err != nil {
			return nil, err
		}
		if place.before(checked.behind) {
			checked.behind = place
		}
	}
	return checked, nil
}

// before reports whether p stands further down the list than other.
func (p EventPlace) before(other EventPlace) bool {
	return p.At.Before(other.At) || p.At.Equal(other.At) && p.ID < other.ID
}

func (p EventPlace) token() string {
	b := binary.AppendVarint([]byte{positionVersion}, p.At.UnixMicro())
	return base64.RawURLEncoding.EncodeToString(binary.AppendVarint(b, p.ID))
}

func parseEventPlace(token string) (EventPlace, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 3 || b[0] != positionVersion {
		return EventPlace{}, errToken()
	}
	at, n := binary.Varint(b[1:])
	if n <= 0 {
		return EventPlace{}, errToken()
	}
	id, m := binary.Varint(b[1+n:])
	if m <= 0 || 1+n+m != len(b) || at > farFuture.UnixMicro() || at < -farFuture.UnixMicro() {
		return EventPlace{}, errToken()
	}
	return EventPlace{At: time.UnixMicro(at).UTC(), ID: id}, nil
}

// EventPage reads one page.
func EventPage(ctx context.Context, ix EventIndex, account int64, q *EventQuery, limits Limits) (synchronizer.EventPage, error) {
	var page synchronizer.EventPage
	var ids []int64
	looked := 0
	last := q.behind
	full := false
	err := ix.EventsBehind(ctx, account, q.behind, limits.Rows+q.Limit, func(f *FoundEvent) bool {
		if !q.Since.IsZero() && f.At.Before(q.Since.Truncate(time.Microsecond)) {
			return false // as are all behind it
		}
		if q.matches(f) {
			if full = len(ids) == q.Limit; full {
				return false // another page follows, from the last match on
			}
			page.Events, ids = append(page.Events, f.EventRow), append(ids, f.ID)
		} else {
			looked++
		}
		last = EventPlace{f.At, f.ID}
		if full = looked >= limits.Rows; full {
			return false
		}
		return true
	})
	if err != nil {
		return synchronizer.EventPage{}, err
	}
	if full {
		page.Continue = last.token()
	}
	if q.Full {
		if err := fillEvents(ctx, ix, &page, ids, limits.Bytes); err != nil {
			return synchronizer.EventPage{}, err
		}
	}
	return page, nil
}

// bodiesAtOnce is after how many events their size is looked at.
const bodiesAtOnce = 100

// fillEvents reads the bodies, and ends the page early if they are too large.
func fillEvents(ctx context.Context, ix EventIndex, page *synchronizer.EventPage, ids []int64, limit int64) error {
	places := make(map[int64]int, len(ids))
	for i, id := range ids {
		places[id] = i
	}
	var total int64
	done := 0
	for part := range slices.Chunk(ids, bodiesAtOnce) {
		err := ix.EventBodies(ctx, part, func(id int64, body []byte) {
			page.Events[places[id]].Body = body
			total += int64(len(body))
		})
		if err != nil {
			return err
		}
		if done += len(part); total > limit && done < len(ids) {
			page.Events = page.Events[:done]
			page.Continue = EventPlace{page.Events[done-1].At, ids[done-1]}.token()
			return nil
		}
	}
	return nil
}

func (q *EventQuery) matches(f *FoundEvent) bool {
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return in(q.Clusters, f.Key.Cluster) && in(q.groups, f.Key.Kind.Group) && in(q.Versions, f.Key.Kind.Version) &&
		in(q.Resources, f.Key.Kind.Resource) && in(q.namespaces, f.Key.Namespace)
}
