// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/link/stock"
	"synchronizer/test/kubetest"
)

// TestB020ExcludedOnAllPathsOut: a namespace is excluded while a change of an object
// in it waits for the end of its window, and then the backend asks for objects in it,
// names them in a reconciliation and patches one wrongly. None of the four lets anything out, and
// what the backend writes arrives all the same.
func TestB020ExcludedOnAllPathsOut(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	p := newPayments(t)
	p.window = 3 * time.Second // so that the exclusion comes well within it
	p.create(deployments, "held")
	require.NoError(t, shared.Apply(t.Context(), p.rights))
	require.NoError(t, shared.Grant(t.Context(), kubetest.Subject{Namespace: p.operator.namespace, Name: "synchronizer"}, kubetest.PolicyRule{
		APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}))
	p.edit(everything)
	field := stock.NewServer(t)
	p.start(target{address: strings.TrimPrefix(field.URL, "http://")})
	session := field.Next()
	kind := map[string]any{"Group": "apps", "Version": "v1", "Resource": "deployments"}
	tell := func(event int, w *world, name string, members map[string]any) {
		t.Helper()
		frame := map[string]any{"Event": event, "Depth": 2, "MsgId": uuid.NewString(), "Kind": kind, "Namespace": w.namespace, "Name": name}
		for member, value := range members {
			frame[member] = value
		}
		text, err := json.Marshal(frame)
		require.NoError(t, err)
		require.NoError(t, session.Send(text))
	}
	// since waits for a frame after the first so many.
	since := func(first, event int, w *world, name string) {
		t.Helper()
		eventually(t, fmt.Sprintf("event %d of %s", event, name), func() bool {
			for _, f := range session.Received()[first:] {
				if f.Is(event, deployments, w.namespace, name) {
					return true
				}
			}
			return false
		})
	}
	sentSoFar := func() int { return len(session.Received()) }
	count := func(name string, labels map[string]string) int { return int(counter(p.running.registry, name, labels)) }
	wrong := map[string]any{"Patch": `{"spec":{"replicas":7}}`, "Checksum": strings.Repeat("0", 64)}

	sync := func(w *world, name string) {
		t.Helper()
		session.WaitFor(stock.NewChecksum, deployments, w.namespace, name)
		tell(stock.GetObject, w, name, nil)
		session.WaitFor(stock.PutObject, deployments, w.namespace, name)
	}
	sync(p.world, "web")
	sync(p.world, "held")
	sync(p.operator, "other")
	session.WaitFor(stock.NewChecksum, deployments, p.namespace, "doomed")

	// In the window: seen, and not said yet. Nothing else is about this object, for
	// it would be forgotten by that.
	p.change(deployments, "held")
	session.WaitFor(stock.PatchObject, deployments, p.namespace, "held")
	before := sentSoFar()
	modified := func() int {
		return count("synchronizer_agent_events_total", map[string]string{"type": "modified"})
	}
	seen := modified()
	p.change(deployments, "held")
	eventually(t, "the change is seen", func() bool { return modified() > seen })
	p.exclude()

	// Asked for: what is known, what was only offered, what does not exist.
	superfluous := p.running.dropped(synchronizer.DropSuperfluousGet)
	for _, name := range []string{"web", "doomed", "absent"} {
		tell(stock.GetObject, p.world, name, nil)
	}
	eventually(t, "the questions are dropped", func() bool { return p.running.dropped(synchronizer.DropSuperfluousGet) == superfluous+3 })

	// Reconciled: in another state, not listed, and absent, beside the same of a
	// namespace that is carried.
	p.create(deployments, "unlisted")
	p.operator.create(deployments, "unlisted")
	since(before, stock.NewChecksum, p.operator, "unlisted") // both were seen
	var items []map[string]any
	for _, w := range []*world{p.world, p.operator} {
		for _, name := range []string{"web", "other", "absent"} {
			items = append(items, map[string]any{"Depth": 2, "Event": stock.NewChecksum, "Kind": kind, "MsgId": "r", "Namespace": w.namespace, "Name": name, "ResourceVersion": 1, "Checksum": "x"})
		}
	}
	first := sentSoFar()
	tell(stock.Batch, p.world, "", map[string]any{"BatchType": "reconciliation", "Items": map[string]any{"NewChecksum": items}})
	since(first, stock.ObjectDeleted, p.operator, "absent")
	since(first, stock.PutObject, p.operator, "other")
	since(first, stock.NewChecksum, p.operator, "unlisted") // the last step

	// Patched wrongly: the object is asked for, but not by its name if that is in an
	// excluded namespace.
	withheld := func() int { return count("synchronizer_agent_withheld_messages_total", nil) }
	held := withheld()
	tell(stock.PatchObject, p.world, "web", wrong)
	eventually(t, "the question is withheld", func() bool { return withheld() == held+1 })
	tell(stock.PatchObject, p.operator, "other", wrong)
	since(first, stock.GetObject, p.operator, "other")
	require.Equal(t, 2, count("synchronizer_agent_applied_total", map[string]string{"outcome": "failed", "reason": "checksum_mismatch"}))
	require.Equal(t, "2", p.field(deployments, "web", "spec", "replicas"))

	// Written: created, patched, deleted.
	tell(stock.PutObject, p.world, "made", map[string]any{"Object": string(p.manifest(deployments, "made", ""))})
	live, err := p.reader.Get(t.Context(), deployments, p.namespace, "web")
	require.NoError(t, err)
	shown, err := p.scope().Transform.Apply(nil, deployments.Group, deployments.Resource, p.namespace, live.Body)
	require.NoError(t, err)
	change := `{"spec":{"replicas":5},"metadata":{"resourceVersion":null}}`
	sum, err := checksum.V1(edited(t, shown, change))
	require.NoError(t, err)
	tell(stock.PatchObject, p.world, "web", map[string]any{"Patch": change, "Checksum": sum})
	tell(stock.ObjectDeleted, p.world, "doomed", nil)
	eventually(t, "the backend's writes arrive", func() bool {
		_, err := shared.Get(t.Context(), p.path(deployments, "doomed"))
		return p.field(deployments, "made", "metadata", "labels", "app") == "made" &&
			p.field(deployments, "web", "spec", "replicas") == "5" && apierrors.IsNotFound(err)
	})

	// Another object's window begins after all that, and ends.
	p.operator.change(deployments, "other")
	arrives := func() bool { return lastRevision(t, session.Received(), p.operator) == p.operator.revision.Load() }
	eventually(t, "the other object's change is sent", arrives)
	p.operator.change(deployments, "other")
	eventually(t, "the other object's next change is sent", arrives)
	for _, f := range session.Received()[before:] {
		require.NotContains(t, string(f.Raw), `"`+p.namespace+`"`)
	}

	// Included again, it is told as it is, and what was deleted is not.
	first = sentSoFar()
	p.editAnd(updated, everything)
	p.change(deployments, "web")
	since(first, stock.NewChecksum, p.world, "web")
	tell(stock.GetObject, p.world, "web", nil)
	since(first, stock.PutObject, p.world, "web")
	for _, f := range session.Received() {
		require.False(t, f.Event != nil && *f.Event == stock.ObjectDeleted && f.Namespace == p.namespace)
	}
	p.running.runs(t)
}

// lastRevision is the one that was last said of the object other, in a patch or whole.
func lastRevision(t *testing.T, frames []stock.Frame, w *world) int64 {
	t.Helper()
	revision := int64(0)
	for i := range frames {
		f := &frames[i]
		text := f.Patch + f.Object
		if text == "" || f.Namespace != w.namespace || f.Name != "other" {
			continue
		}
		var body struct {
			Metadata struct {
				Annotations struct {
					Revision int64 `json:"revision,string"`
				} `json:"annotations"`
			} `json:"metadata"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &body))
		revision = max(revision, body.Metadata.Annotations.Revision)
	}
	return revision
}
