// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
	"synchronizer/internal/rawjson"
)

// eventResources are the kinds of the group kubescape.io that are reports: several
// different ones have the same name, so they are appended.
var eventResources = []string{"runtimealerts", "networkstreams", "nodeprofiles", "registrystatuses", "aisandboxheartbeats"}

// appends tells whether what is said of a kind is appended instead of replacing
// what was said before.
func (i *Ingester) appends(kind synchronizer.Kind) bool {
	return kind.Group == "kubescape.io" && slices.Contains(eventResources, kind.Resource) || slices.Contains(i.EventKinds, kind)
}

// report handles a statement about an event. It has no order and no state: what
// the store keeps is kept until it expires. It gives the row to be appended, or nil.
func (f *folder) report(o *object, it *item) (*synchronizer.EventRow, result) {
	m := &it.msg
	switch m.Event {
	case synchronizer.EventPut:
		return f.event(m, m.Body, it.uid, it.resourceVersion), resultStored
	case synchronizer.EventPatch:
		// Against nothing: nobody knows which report the sender has in mind.
		if body, err := patch.ApplyV1([]byte("{}"), m.Body); err == nil && !roundsNumbers(m.Body) {
			if sum, err := checksum.ObjectV1(body); err == nil && sum == m.Checksum {
				if meta, err := rawjson.Metadata(body); err == nil {
					return f.event(m, body, meta.UID, meta.ResourceVersion), resultStored
				}
			}
		}
		if offered, _ := f.offered(m); offered.emptyBase {
			return nil, resultPatch
		}
		o.ask = f.question(m, []byte("{}"))
		f.offer(o.ask, offer{checksum: m.Checksum, emptyBase: true})
		return nil, resultAsked
	case synchronizer.EventVerify:
		o.ask = f.question(m, nil)
		return nil, resultAsked
	}
	return nil, resultNoted // an event that has happened is not undone
}

// event is the row of a report: of one that was watched if it is an object of the
// API server.
func (f *folder) event(m *synchronizer.Message, body []byte, uid, resourceVersion string) *synchronizer.EventRow {
	ident := synchronizer.MessageEvent(m.MsgID, body)
	if uid != "" && resourceVersion != "" {
		ident = synchronizer.WatchedEvent(uid, resourceVersion)
	}
	return &synchronizer.EventRow{Key: m.Key(), Ident: ident, UID: uid, ResourceVersion: resourceVersion, At: f.now, Body: body}
}
