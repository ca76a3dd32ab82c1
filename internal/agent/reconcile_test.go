// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMachineReconciles(t *testing.T) {
	const synced = "up list a:1.x b:2.x end"
	none, hollow, selecting, events := traits{}, traits{hollow: true, relist: time.Hour}, traits{selecting: true}, traits{events: true}
	within := traits{within: func(namespace string) bool { return namespace == "p" }}
	many := func(format string, from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, format+" ", i)
		}
		return b.String()
	}
	all := func(format string, n int) string {
		return strings.TrimSuffix(strings.ReplaceAll(many(format+",", 0, n), ", ", ", "), ", ")
	}
	tests := []struct {
		name          string
		kind          traits
		before, words string
		want          string
	}{
		{"the same", none, synced, "batch b:2.x a:1.x end +1m", ""},
		{"absent", none, synced, "batch a:1.x b:2.x c:3.x end got c", "read c, delete c*"},
		{"another version", none, synced, "batch a:1.w b:2.x end got a:1.x", "read a, put a*"},
		{"version 0", none, synced, "batch a:0 b:2.x end got a:1.x", "read a, put a*"},
		{"not listed", none, synced, "batch a:1.x end got b:2.x", "read b, verify b*"},
		{"in order", none, synced + " A d:4.x", "batch d:4.x a:1.w c:3.x end got c got a:1.x got b:2.x", "read c, delete c*, read a, put a*, read b, verify b*"},
		{"what can have no name that Kubernetes allows", none, "up list a:1.x end", "batch un%real:0 end got a:1.x", "delete un%real*, read a, verify a*"},
		{"nothing is listed", none, "up list a:1.x end", "batch end got a:1.x", "read a, verify a*"},
		{"nothing is listed and there is nothing", none, "up list end", "batch end +1m", ""},
		{"one after the other", none, synced, "batch a:1.x b:2.x c:3.x end batch a:1.x b:2.x d:4.x end got c got d", "read c, delete c*, read d, delete d*"},

		{"before the first list", none, "up", "batch c:3.x a:1.x end list! a:1.x end +1s list a:1.x end got c", "verify a, list, watch L, read c, delete c*"},
		{"while it cannot be listed", none, synced, "gone batch c:3.x a:1.x b:2.x end list! end +1s list a:1.x b:2.x end got c", "list, list, watch L, read c, delete c*"},
		{"while the watch is broken", none, synced, "broken batch a:1.x b:2.x c:3.x end +499ms +1ms got c", "watch L, read c, delete c*"},
		{
			"while deletions are held", none, "up list " + many("o%d:u", 0, 60) + "end",
			"gone list " + many("o%d:u", 0, 30) + "end batch " + many("o%d:u", 0, 60) + "c:1 end +29s +1s list " + many("o%d:u", 0, 60) + "end got c",
			"list, watch L, stop, list, watch L, read c, delete c*",
		},
		{"the link breaks", none, synced + " +200s", "batch a:1.x b:2.x c:3.x end down up +1m", "read c"},
		{"the link breaks before the list", none, "up", "batch c:3.x end down list end up +1m", "watch L"},

		{"it appears meanwhile", none, synced, "batch a:1.x b:2.x c:3.x end A c:3.x got c:3.x got c:3.x", "read c, verify c, read c, put c*"},
		{"it is there, and not seen yet", none, synced, "batch a:1.x b:2.x c:3.x end got c:3.x A c:3.x", "read c, put c*"},
		{"it disappears meanwhile", none, synced, "batch a:1.w b:2.x end got a D a", "read a, delete a"},
		{"it changes meanwhile", none, synced, "batch a:1.w b:2.x end M a:1.y got a:1.x got a:1.y", "read a, put a, read a, put a*"},
		{"it waits in its window", none, synced + " M a:1.y M a:1.z", "batch a:1.y b:2.x end got a:1.z +10s", "read a, put a*"},
		{"the read fails", none, synced, "batch a:1.x b:2.x c:3.x d:4.x end got! c got d list a:1.x b:2.x d:4.x end", "read c, read d, delete d*, stop, list, verify d, watch L, delete c*"},
		{"another read fails", none, synced, "batch a:1.w end got! a got b:2.x +500ms got a:1.x", "read a, read b, verify b*, read a, verify a"},
		{"unreadable", none, "up list a:1.? end", "batch a:1.w end +1m", ""},
		{"dirty", none, synced + " +200s down M a:1.y up", "batch a:1.y b:2.x end got a:1.y", "verify a"},

		{"excluded", none, synced + " exclude p", "batch a:1.x b:2.x p/a:0 p/b:1.x end +1m", ""},
		{"excluded and known", none, "up list a:1.x p/a:1.x end exclude p", "batch a:1.x p/b:1.x end +1m", ""},
		{"included again", none, "exclude p up list a:1.x p/a:1.x end include p", "batch a:1.x p/a:1.x p/b:2.x end list a:1.x p/a:1.x end got p/b", "stop, list, verify p/a, watch L, read p/b, delete p/b*"},
		{"excluded meanwhile", none, synced + " A p/a:1.x", "batch a:1.x b:2.x p/a:0 p/b:0 end exclude p got p/b got p/a:1.x^", "read p/b"},
		{"child", none, "up list a:1.x b:2.x^ end", "batch a:1.x b:2.x end got b:2.x^", "read b, drop out_of_scope"},
		{"became a child", none, synced + " F b:2.y", "batch a:1.x b:2.w end +1m", ""},
		{"another namespace", within, "up list p/a:1.x end", "batch p/a:1.x q/a:1.x un%real:0 p/b:1.x end got p/b", "delete un%real*, read p/b, delete p/b*"},
		{"outside the selectors", selecting, synced, "batch a:1.x b:2.x c:3.x d:4.x end got c:3.x got d", "read c, read d, drop out_of_scope, delete d*"},
		{"leaving", selecting, synced, "D a batch a:1.w b:2.x end got a:1.y", "read a, drop out_of_scope"},
		{"reports", events, synced, "batch c:3.x end +1m", "drop unsupported"},

		{
			"many absent", none, "up list a:1.x end", "batch a:1.x " + many("o%d:1", 0, 300) + "end list a:1.x o7:1.y o8:1.x^ end got o7:1.y",
			"stop, list, verify o7, watch L, " + strings.Replace(strings.Replace(all("delete o%d*", 300), "delete o7*, ", "", 1), "delete o8*, ", "", 1) + ", read o7, put o7*",
		},
		{
			"many changed", none, "up list a:1.x " + many("o%d:u", 0, 300) + "end", "batch a:1.x " + many("o%d:0", 0, 300) + "end list a:1.x " + many("o%d:u", 0, 300) + "end",
			"stop, list, " + all("put o%d*", 300) + ", watch L",
		},
		{
			"many changed, and the list breaks", none, "up list a:1.x " + many("o%d:u", 0, 300) + "end", "batch a:1.x " + many("o%d:0", 0, 300) + "end list! a:1.x " + many("o%d:u", 0, 100) + "end +1s list a:1.x " + many("o%d:u", 0, 300) + "end",
			"stop, list, " + all("put o%d*", 100) + ", list, " + strings.TrimPrefix(all("put o%d*", 300), all("put o%d*", 100)+", ") + ", watch L",
		},
		{
			"many not listed", none, "up list a:1.x " + many("o%d:u", 0, 300) + "end", "batch a:1.x end list a:1.x " + many("o%d:u", 0, 300) + "end",
			"stop, list, " + all("verify o%d*", 300) + ", watch L",
		},
		{"hollow", hollow, "up list a:1.x end got a:1.x", "batch a:1.w c:3.x end got c got a:1.x", "read c, delete c*, read a, put a*"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newPlayer(test.kind)
			m.play(test.before)
			got := m.play(test.words)
			require.Equal(t, test.want, got)
			require.Empty(t, m.batches)
			requireCounts(t, m.machine)
		})
	}
}
