// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
)

// withJobs adds a kind of which objects with the value 0 are child workloads.
func withJobs(o *Options) {
	o.Cluster.(*kubefake.Cluster).Serve(jobs)
	o.Kinds = append(o.Kinds, KindConfig{Kind: jobs, Strategy: StrategyPatch})
}

// exclude excludes a namespace. When it returns all that was decided before has
// been sent, and what is sent later of the namespace is a fault.
func (r *rig) exclude(namespace string) {
	_, err := r.rules.Replace(filter.Lists{ExcludeNamespaces: []string{namespace}})
	require.NoError(r.t, err)
	synctest.Wait()
	r.backend.quiet(namespace)
}

func (r *rig) include() {
	r.backend.quiet("")
	_, err := r.rules.Replace(filter.Lists{})
	require.NoError(r.t, err)
}

// newLiveRig is newRig with rules that can change.
func newLiveRig(t *testing.T, change func(*Options)) *rig {
	rules := filter.NewLive("operator", false)
	r := newRig(t, func(o *Options) {
		o.Filter = rules.Filter()
		change(o)
	})
	r.rules = rules
	r.include()
	return r
}

func isChildJob(body []byte) bool { return bytes.Contains(body, []byte("ownerReferences")) }

// quiet says that nothing of a namespace may be sent from now on; "": all may.
func (b *backend) quiet(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = namespace
}

func (b *backend) sending(msgs []synchronizer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range msgs {
		if b.silent != "" && msgs[i].Namespace == b.silent {
			b.faults = append(b.faults, fmt.Sprintf("%s of the excluded %s/%s", msgs[i].Event, msgs[i].Namespace, msgs[i].Name))
		}
	}
}
