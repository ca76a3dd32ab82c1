// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMachineRules: what is excluded is forgotten without a word, and what
// becomes a child workload is kept and not updated.
func TestMachineRules(t *testing.T) {
	const synced = "up list a:1.x p/a:2.x p/b:3.x end"
	many := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "p/o%d:u ", i)
		}
		return b.String()
	}
	others := strings.ReplaceAll(many(0, 30), "p/", "q/")
	none, hollow, selecting := traits{}, traits{hollow: true, relist: time.Hour}, traits{selecting: true}
	tests := []struct {
		name          string
		kind          traits
		before, words string
		want          string
	}{
		{"changed while excluded, and once more", none, synced, "exclude p M p/a:2.y include p M p/a:2.z", "verify p/a"},
		{"others go on", none, synced, "exclude p M p/a:2.y M a:1.y", "put a"},
		{"changed only before and after", none, synced, "exclude p include p M p/a:2.y", "put p/a"},
		{"created while excluded", none, synced, "exclude p A p/c:4.x include p +1h", ""},
		{"created while excluded, and changed", none, synced, "exclude p A p/c:4.x include p M p/c:4.y", "verify p/c"},
		{"deleted while excluded", none, synced, "exclude p D p/a include p D p/a +1h", ""},
		{"deleted and created again while excluded", none, synced, "exclude p D p/a A p/a:5.x include p M p/a:5.y", "verify p/a"},
		{"listed while excluded", none, synced, "exclude p gone list a:1.x p/a:2.x p/b:3.y end include p M p/a:2.x", "list, watch L, verify p/a"},
		{"listed when it is included again", none, synced, "exclude p M p/a:2.y include p gone list a:1.x p/a:2.y p/b:3.x end", "list, verify p/a, watch L"},
		{"not listed while excluded", none, synced, "exclude p gone list a:1.x end include p +1h", "list, watch L"},
		{"excluded in the middle of a list", none, synced, "gone exclude p list a:1.y p/a:2.x end include p +1h", "list, verify a, watch L"},
		{"many vanish while excluded", none, "up list a:1.x " + many(0, 60) + "end", "exclude p gone list a:1.x end +1h", "list, watch L"},
		{"many of them, and one that counts", none, "up list a:1.x b:1.x " + others + many(0, 60) + "end", "exclude p gone list a:1.x " + others + "end", "list, watch L, delete b"},
		{"many of the rest vanish", none, "up list " + others + many(0, 60) + "end", "exclude p gone list " + many(0, 60) + "end +29s", "list, watch L"},

		{"excluded in a window", none, synced + " M p/a:2.y M p/a:2.z", "exclude p +10s include p M p/a:2.w +1s", "verify p/a"},
		{"excluded in a window, and changed", none, synced + " M p/a:2.y M p/a:2.z", "exclude p M p/a:2.w include p +10s", ""},
		{"the link breaks", none, synced, "exclude p down +1h up got a:1.x +1h include p M p/a:2.x", "read a, verify a, verify p/a"},
		{"deleted shortly before the link breaks", none, synced + " +200s D p/a", "exclude p down up include p down up", ""},
		{"deleted without a link", none, synced + " +200s down D p/a", "exclude p up include p down up", ""},
		{"dirty without a link", none, synced + " +200s down M p/a:2.y", "exclude p M p/a:2.z up +1h include p M p/a:2.z", "verify p/a"},
		{"not sent", none, synced + " +200s M p/a:2.y", "unsent p/a exclude p down up +1h", ""},

		{"asked", none, synced, "exclude p get p/a get p/c", "drop object_gone, drop object_gone"},
		{"asked, and listed again", none, synced, "exclude p get p/a include p gone list a:1.x p/a:2.x p/b:3.x end", "drop object_gone, list, verify p/a, watch L"},
		{"asked before", none, synced, "get p/a exclude p got p/a:2.y", "read p/a, drop object_gone"},
		{"asked before, and deleted", none, synced, "get p/a exclude p D p/a got p/a got p/a", "read p/a, read p/a, drop object_gone"},
		{"asked before, and the read fails", none, synced, "get p/a exclude p got! p/a +1h", "read p/a"},

		{"hollow: changed", hollow, "up list p/a:2.x end got p/a:2.x", "exclude p M p/a:2.y include p M p/a:2.z got p/a:2.z", "read p/a, verify p/a"},
		{"hollow: excluded while it is read", hollow, "up list p/a:2.x end got p/a:2.x M p/a:2.y", "exclude p got p/a:2.y include p +1h", "stop, list"},
		{"selecting: deleted", selecting, synced, "exclude p D p/a +1h", ""},
		{"selecting: deleted just before", selecting, synced, "D p/a exclude p got p/a", "read p/a"},
		{"selecting: not listed", selecting, synced, "exclude p gone list a:1.x end", "list, watch L"},

		{"child: it becomes one", none, synced, "F a:1.y F a:1.z F c:3.y", "drop out_of_scope"},
		{"child: deleted", none, synced, "F a:1.y F c:3.y D a D c", "drop out_of_scope, delete a"},
		{"child: listed", none, synced, "F a:1.y gone list a:1.^ p/a:2.x p/b:3.x end +1h", "drop out_of_scope, list, watch L"},
		{"child: not listed", none, synced, "F a:1.y gone list p/a:2.x p/b:3.x end", "drop out_of_scope, list, watch L, delete a"},
		{"child: no more", none, synced, "F a:1.y M a:1.y", "drop out_of_scope, put a"},
		{"child: another object of that name", none, synced, "F a:7.y D a", "delete a"},
		{"child: in a window", none, synced + " M a:1.y M a:1.z", "F a:1.w +10s D a", "drop out_of_scope, delete a"},
		{"child: created again in a window", none, synced + " M a:1.y D a", "A a:9.x F a:9.y +10s D a", ""},
		{"child: read", none, synced, "get a get c got a:1.^ got c:1.^ D a", "read a, read c, drop object_gone, drop out_of_scope, drop object_gone, delete a"},
		{"child: dirty", none, synced + " +200s down M a:1.y", "up got a:1.^ D a", "read a, drop out_of_scope, delete a"},
		{"child: without a link", none, synced + " +200s", "down F a:1.y up D a", "drop out_of_scope, delete a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newPlayer(test.kind)
			m.play(test.before)
			require.Equal(t, test.want, m.play(test.words))
			requireCounts(t, m.machine)
		})
	}
}

// TestExit: what was decided before the rules changed is not sent after it,
// whatever led to it.
func TestExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiveRig(t, func(*Options) {})
		put := func(namespace, name, value string) {
			r.cluster.Put(configmaps, doc(configmaps, namespace, name, value))
		}
		for _, name := range []string{"window", "offered", "deleted", "again"} {
			put("payments", name, "1")
		}
		put("default", "other", "1")
		r.start()
		r.settle(10 * time.Minute)
		r.backend.cut() // again is said again after the reconnect, but for the rules
		put("payments", "again", "2")
		r.settle(time.Minute)
		put("payments", "window", "2")
		put("payments", "again", "3")
		synctest.Wait()
		put("payments", "window", "3") // waits for its window
		r.backend.heard()
		synctest.Wait()
		rows := r.backend.rows()
		r.exclude("payments")
		put("payments", "offered", "2")
		r.cluster.Delete(configmaps, "payments", "deleted")
		r.backend.ask(configmaps, "payments", "offered")
		put("default", "other", "2")
		r.settle(10 * time.Second)
		r.backend.cut()
		r.settle(time.Minute)
		r.cluster.ExpireWatches(configmaps)
		r.settle(10 * time.Minute)
		for _, said := range r.backend.heard() {
			require.NotContains(t, said, "payments")
		}
		require.Empty(t, r.backend.faults)
		for name, row := range r.backend.rows() {
			if strings.Contains(name, "payments") {
				require.Equal(t, rows[name], row, name)
			}
		}

		r.include()
		r.settle(10 * time.Minute)
		require.Empty(t, r.backend.heard(), "no synchronization of its own")
		put("payments", "window", "4")
		r.settle(time.Minute)
		require.Equal(t, []string{"VerifyObject /v1/configmaps payments/window", "PutObject /v1/configmaps payments/window"}, r.backend.heard())
		r.cluster.ExpireWatches(configmaps)
		r.settle(time.Minute)
		r.left["/v1/configmaps payments/deleted"] = true // until a reconciliation
		require.NoError(t, r.agree(configmaps))
		r.stop()
	})
}
