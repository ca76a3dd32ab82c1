// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"time"

	"synchronizer"
)

// player drives a machine with words, and writes down the effects:
//
//	up, down, +30s                  the link, time passes
//	list a:1 b:2 end / list! ...    objects (name:uid.data) of a list that ends or fails
//	A a:1, M a:2, D a, F a          events (F: modified, and a child workload)
//	exclude p, include p            rules; the objects p/a and p/b are in namespace p
//	get a                           the backend asks
//	batch a:1 b:0 end               it reconciles; answers have a star
//	got a:1 / got a / got! a        a GET gives a state, nothing, or an error
//	unsent a, unanswered a, late a  what became of messages
//	gone, ended, broken, 403, 404   how the watch ends
//	bad                             it gives something that cannot be read
//	evict                           the pool loses what it keeps
type player struct {
	*machine
	now  time.Time
	kept map[key]offer
	out  map[string]bool // namespaces
}

func newPlayer(kind traits) *player {
	now := time.Unix(1000, 0)
	kind.window = time.Second
	out := map[string]bool{}
	kind.allows = func(namespace string) bool { return !out[namespace] }
	return &player{machine: newMachine(now, exactly, kind), now: now, kept: map[key]offer{}, out: out}
}

// versionOf fits into the items of a batch, unlike the hashes of parseVersion.
func versionOf(state string) uint64 { return parseVersion(state) &^ (1 << 63) }

// named gives the key of "a" or "p/a".
func named(name string) key {
	if namespace, name, in := strings.Cut(name, "/"); in {
		return keyOf(namespace, name)
	}
	return keyOf("", name)
}

func (m *player) said(e *effect) string {
	switch e.do {
	case effectVerify, effectPut, effectDelete:
		if !m.allows(e.key) { // as withhold
			m.exclude(e.key)
			return ""
		}
	}
	name := ""
	if e.key != (key{}) {
		name = strings.TrimPrefix(e.key.String(), "/")
	}
	if e.answer != nil && e.answer.batch != nil {
		name += "*"
	}
	switch e.do {
	case effectVerify:
		return "verify " + name
	case effectPut:
		return "put " + name
	case effectDelete:
		return "delete " + name
	case effectRead:
		return "read " + strings.TrimPrefix(e.key.String(), "/")
	case effectList:
		return "list"
	case effectWatch:
		return "watch " + e.cursor
	case effectStop:
		return "stop"
	case effectDrop:
		return "drop " + string(e.reason)
	case effectKeep:
		m.kept[e.key] = offer{digest: e.item.digest, version: e.item.version}
	case effectForget:
		delete(m.kept, e.key)
	case effectBody:
		var o *offer
		if kept, ok := m.kept[e.key]; ok {
			o = &kept
		}
		delete(m.kept, e.key)
		m.body(m.now, e.key, o)
	}
	return ""
}

// play returns what the machine said, in order.
func (m *player) play(words string) string {
	now := &m.now
	var said []string
	flush := func() {
		for first := true; first || m.hasWork(); first = false {
			if due := m.deadline(); !due.IsZero() && !now.Before(due) {
				m.tick(*now)
			}
			m.work(*now, 1000)
			for i := 0; i < len(m.effects); i++ {
				if text := m.said(&m.effects[i]); text != "" {
					said = append(said, text)
				}
			}
			m.effects = nil
		}
	}
	fields := strings.Fields(words)
	i := 0
	parse := func(word string) item {
		name, state, _ := strings.Cut(word, ":")
		uid, data, _ := strings.Cut(state, ".")
		it := item{key: named(name), uid: parseUID(uid), version: versionOf(state)}
		copy(it.digest[:], "d"+uid+data)
		if data, order, shuffled := strings.Cut(data, "~"); shuffled {
			it.sum = parseVersion("s" + data)
			copy(it.digest[:], "d"+uid+data+order)
		}
		it.hollow = m.traits.hollow && !strings.HasPrefix(fields[i-1], "got")
		if strings.Contains(state, "?") {
			it.problem = unreadable
			if it.digest = [16]byte{}; m.traits.hollow {
				copy(it.digest[:], "d"+uid+strings.TrimSuffix(data, "?"))
			}
		}
		if strings.HasSuffix(state, "^") {
			it.problem = child
		}
		if !m.allows(it.key) {
			it.problem = excluded
		}
		return it
	}
	for ; i < len(fields); i++ {
		next := func() string { i++; return fields[i] }
		switch word := fields[i]; word {
		case "up":
			m.linkUp(*now)
		case "down":
			m.linkDown(*now)
		case "list", "list!":
			for word := next(); word != "end"; word = next() {
				m.listed(*now, parse(word))
			}
			if word == "list" {
				m.listEnded(*now, "L", nil)
			} else {
				m.listEnded(*now, "", errors.New("broken"))
			}
		case "A":
			m.changed(*now, synchronizer.WatchAdded, "r", parse(next()))
		case "M":
			m.changed(*now, synchronizer.WatchModified, "r", parse(next()))
		case "D":
			m.changed(*now, synchronizer.WatchDeleted, "r", parse(next()))
		case "F":
			it := parse(next())
			it.problem = child
			m.changed(*now, synchronizer.WatchModified, "r", it)
		case "exclude":
			m.out[next()] = true
		case "include":
			delete(m.out, next())
		case "bookmark":
			m.changed(*now, synchronizer.WatchBookmark, "B", item{})
		case "get":
			m.requested(*now, request{key: named(next()), msgID: "m", depth: 2}, nil)
		case "batch":
			b := &batch{msgID: "m", depth: 2}
			for word := next(); word != "end"; word = next() {
				name, state, _ := strings.Cut(word, ":")
				k := named(name)
				b.items = append(b.items, synchronizer.Message{
					Event: synchronizer.EventVerify, Namespace: k.namespace.Value(), Name: k.name, ResourceVersion: int64(versionOf(state)),
				})
			}
			m.reconciled(b)
		case "got", "got!":
			arg := next()
			name, state, _ := strings.Cut(arg, ":")
			r := m.reads[named(name)]
			if r == nil {
				r = &read{key: named(name)}
			}
			switch {
			case word == "got!":
				m.readDone(*now, r, item{}, errors.New("broken"))
			case state == "":
				m.readDone(*now, r, item{}, synchronizer.ErrNotFound)
			default:
				m.readDone(*now, r, parse(arg), nil)
			}
		case "unsent":
			m.unsent(named(next()))
		case "unanswered":
			m.unanswered(named(next()))
		case "late":
			m.sentAgain(*now, named(next()))
		case "evict":
			clear(m.kept)
		case "bad":
			m.watchEnded(*now, synchronizer.ErrInvalid)
		case "gone":
			m.watchEnded(*now, synchronizer.ErrGone)
		case "ended":
			m.watchEnded(*now, nil)
		case "broken":
			m.watchEnded(*now, errors.New("broken"))
		case "403":
			m.watchEnded(*now, synchronizer.ErrForbidden)
		case "404":
			m.watchEnded(*now, synchronizer.ErrKindNotServed)
		default:
			d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
			if err != nil {
				panic(word)
			}
			*now = now.Add(d)
			m.tick(*now)
		}
		flush()
	}
	return strings.Join(said, ", ")
}
