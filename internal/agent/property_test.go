// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

// step is one thing that happens to cluster, link or backend.
type step struct {
	do     string
	kind   synchronizer.Kind
	within string // namespace
	object int
	value  int
	pause  time.Duration // afterwards
}

func (s step) String() string {
	return fmt.Sprintf("%s %s %s/c%d=%d, %v", s.do, s.kind.Resource, s.within, s.object, s.value, s.pause)
}

var stepNames = []string{
	"put", "put", "put", "put", "burst", "burst", "delete", "delete", "recreate", "many", "vanish", "appear",
	"exclude", "exclude", "include",
	"reconcile", "reconcile", "lose", "invent",
	"cut", "cut", "refuse", "accept", "pause", "resume", "ask", "ask",
	"expire", "break", "end", "bookmark", "fail list", "fail list half way", "fail watch", "fail get", "hold get", "hold list", "release",
}

func drawSteps() *rapid.Generator[[]step] {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			do:     rapid.SampledFrom(stepNames).Draw(t, "do"),
			kind:   rapid.SampledFrom([]synchronizer.Kind{configmaps, configmaps, deployments, deployments, profiles, services, jobs}).Draw(t, "kind"),
			within: rapid.SampledFrom([]string{"default", "default", "payments"}).Draw(t, "namespace"),
			object: rapid.IntRange(0, 5).Draw(t, "object"),
			value:  rapid.IntRange(0, 2).Draw(t, "value"),
			pause: rapid.SampledFrom([]time.Duration{
				-1, -1, 0, 0, time.Millisecond, 100 * time.Millisecond, time.Second, 20 * time.Second, 3 * time.Minute,
			}).Draw(t, "pause"),
		}
	})
	return rapid.SliceOfN(one, 1, 60)
}

func (s step) run(r *rig, releases *[]func()) {
	name := fmt.Sprint("c", s.object)
	put := func(silent bool, name string) {
		d := doc(s.kind, s.within, name, fmt.Sprint(s.value))
		if s.kind == services && s.value == 0 {
			r.left[fmt.Sprint(s.kind, " ", s.within, "/", name)] = true
		}
		if silent {
			r.cluster.PutSilently(s.kind, d)
		} else {
			r.cluster.Put(s.kind, d)
		}
	}
	broken := errors.New("broken")
	switch s.do {
	case "put":
		put(false, name)
	case "burst": // more than a window sees, and its end is like its start or not
		for i := range 5 + s.value {
			put(false, name)
			s.value = i % 3
		}
	case "delete":
		r.cluster.Delete(s.kind, s.within, name)
	case "recreate":
		r.cluster.Delete(s.kind, s.within, name)
		put(false, name)
	case "many": // more than are read one by one, or fewer again
		for i := range 300 {
			if n := fmt.Sprint("many", i); s.value > 0 {
				put(false, n)
			} else {
				r.cluster.Delete(s.kind, s.within, n)
			}
		}
	case "vanish":
		r.cluster.DeleteSilently(s.kind, s.within, name)
		r.cluster.ExpireWatches(s.kind)
	case "appear":
		put(true, name)
		r.cluster.ExpireWatches(s.kind)
	case "cut":
		r.backend.cut()
	case "refuse":
		r.backend.setRefuse(broken)
		r.backend.cut()
	case "accept":
		r.backend.setRefuse(nil)
	case "pause":
		*releases = append(*releases, r.backend.pause())
	case "resume", "release":
		for _, release := range *releases {
			release()
		}
		*releases = nil
		clear(r.held)
	case "ask":
		r.backend.ask(s.kind, s.within, name)
	case "reconcile":
		r.backend.reconcile(s.kind, s.value == 0)
	case "lose":
		r.backend.lose(s.kind, s.within, name)
	case "invent":
		r.backend.invent(s.kind, s.within, fmt.Sprint("x", s.object))
	case "exclude":
		r.exclude("payments")
	case "include":
		r.include()
	case "expire":
		r.cluster.ExpireWatches(s.kind)
	case "break":
		r.cluster.BreakWatches(s.kind)
	case "end":
		r.cluster.EndWatches(s.kind)
	case "bookmark":
		r.cluster.Bookmark(s.kind)
	case "fail list":
		r.cluster.FailNext(kubefake.VerbList, s.kind, broken)
	case "fail list half way":
		r.cluster.FailListAfter(s.kind, s.value, broken)
	case "fail watch":
		r.cluster.FailNext(kubefake.VerbWatch, s.kind, broken)
	case "fail get":
		r.cluster.FailNext(kubefake.VerbGet, s.kind, broken)
	case "hold get", "hold list":
		verb := kubefake.VerbGet
		if s.do == "hold list" {
			verb = kubefake.VerbList
		}
		if what := fmt.Sprint(verb, s.kind); !r.held[what] { // a second hold would take the place of the first
			r.held[what] = true
			*releases = append(*releases, r.cluster.Hold(verb, s.kind))
		}
	}
	// What was sent is sent again after a break only if that was less than 100 s ago:
	// a backend that does not read for longer needs a reconciliation.
	if r.backend.pausedFor()+s.pause > 90*time.Second {
		step{do: "release", pause: -1}.run(r, releases)
	}
	switch {
	case s.pause < 0: // no pause: the next step runs at the same time
	case s.pause == 0:
		synctest.Wait()
	default:
		r.settle(s.pause)
	}
}

// TestBackendConverges: whatever happens, once everything works again the
// backend has exactly what the cluster has.
func TestBackendConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps().Draw(rt, "steps")
		pool := rapid.SampledFrom([]int{1 << 10, 8 << 20}).Draw(rt, "pool")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					failure = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			failure = converge(newLiveRig(t, func(o *Options) {
				o.OfferBytes = pool
				withHollow(o)
				withSelected(o)
				withJobs(o)
			}), steps)
		})
		if failure != nil {
			rt.Fatalf("%v\nafter %v", failure, steps)
		}
	})
}

// forgettable notes that a deletion may not be told, since the rules exclude the
// namespace when it is seen.
func (s step) forgettable(r *rig) {
	for i := range 300 {
		r.left[fmt.Sprint(s.kind, " ", s.within, "/many", i)] = true
	}
	r.left[fmt.Sprint(s.kind, " ", s.within, "/c", s.object)] = true
}

func converge(r *rig, steps []step) error {
	r.start()
	var releases []func()
	lossy := slices.ContainsFunc(steps, func(s step) bool { return s.do == "exclude" })
	for _, s := range steps {
		if lossy && s.within == "payments" && slices.Contains([]string{"delete", "recreate", "vanish", "many"}, s.do) {
			s.forgettable(r)
		}
		s.run(r, &releases)
	}
	step{do: "release"}.run(r, &releases)
	r.backend.setRefuse(nil)
	r.settle(10 * time.Minute)
	r.include()
	for _, s := range steps {
		if lossy { // what is included again follows with its next change or list
			r.cluster.ExpireWatches(s.kind)
		}
		if s.do == "appear" || s.do == "vanish" {
			r.cluster.ExpireWatches(s.kind) // it had no effect if no watch ran
		}
	}
	r.settle(10 * time.Minute)
	if slices.ContainsFunc(steps, func(s step) bool { return s.do == "lose" || s.do == "invent" }) {
		for _, kind := range []synchronizer.Kind{configmaps, deployments, profiles, services, jobs} {
			r.backend.reconcile(kind, false)
		}
		r.settle(10 * time.Minute)
	}
	err := r.agree(configmaps, deployments, profiles, services, jobs)
	for _, k := range r.agent.Status().Kinds {
		if err == nil && (k.State != StateWatching || k.Dirty != 0 || k.Held || k.Kind != services && k.Kind != jobs && k.Objects != len(r.cluster.Objects(k.Kind))) {
			err = fmt.Errorf("not at rest: %+v", k)
		}
	}
	if err == nil && len(r.backend.faults) > 0 {
		err = errors.New(r.backend.faults[0])
	}
	r.backend.heard()
	r.settle(10 * time.Minute)
	if said := r.backend.heard(); err == nil && len(said) > 0 {
		err = fmt.Errorf("says something without a reason: %v", said)
	}
	r.stop()
	return err
}
