// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
	"synchronizer/internal/patch"
	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	configmaps  = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = synchronizer.Kind{Group: "example.com", Version: "v1", Resource: "widgets"}
	profiles    = synchronizer.Kind{Group: "spdx.softwarecomposition.kubescape.io", Version: "v1beta1", Resource: "applicationprofiles"}
	services    = synchronizer.Kind{Version: "v1", Resource: "services"}
	jobs        = synchronizer.Kind{Group: "batch", Version: "v1", Resource: "jobs"}
)

// rig is an agent between a fake cluster and a backend that answers as an
// ingester does. It lives in a synctest bubble: time passes only when all wait.
type rig struct {
	t       *testing.T
	cluster *kubefake.Cluster
	backend *backend
	agent   *Agent
	cancel  context.CancelFunc
	done    chan error
	held    map[string]bool // requests that a property test keeps waiting
	left    map[string]bool // names of objects that a selector may have hidden
	rules   *filter.Live    // nil: they do not change
}

// withHollow adds a kind whose lists and watches give metadata only.
func withHollow(o *Options) {
	o.Cluster.(*kubefake.Cluster).Serve(profiles)
	o.Cluster.(*kubefake.Cluster).Hollow(profiles)
	o.Kinds = append(o.Kinds, KindConfig{Kind: profiles, Strategy: StrategyCopy, Hollow: true})
}

// withSelected adds a kind of which objects with the value 0 are not seen.
func withSelected(o *Options) {
	cluster := o.Cluster.(*kubefake.Cluster)
	cluster.Serve(services)
	o.Kinds = append(o.Kinds, KindConfig{Kind: services, Strategy: StrategyPatch, LabelSelector: "value!=0"})
	view := &selected{Cluster: cluster, seen: map[string]bool{}}
	o.Select = func(c KindConfig) synchronizer.Cluster {
		if c.selecting() {
			return view
		}
		return cluster
	}
}

func newRig(t *testing.T, change func(*Options)) *rig {
	r := &rig{t: t, cluster: kubefake.New(), backend: newBackend(), done: make(chan error, 1), left: map[string]bool{}, held: map[string]bool{}}
	options := Options{
		Cluster: r.cluster, Dialer: r.backend, Drop: r.backend.drop, Policy: policy.New(policy.LinkV1),
		Kinds:  []KindConfig{{Kind: configmaps, Strategy: StrategyCopy}, {Kind: deployments, Strategy: StrategyPatch}},
		Filter: filter.New(filter.Rules{ExcludeNamespaces: []string{"excluded"}}),
	}
	r.cluster.Serve(configmaps, deployments)
	if change != nil {
		change(&options)
	}
	a, err := New(options)
	require.NoError(t, err)
	r.agent = a
	return r
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() { r.done <- r.agent.Run(ctx) }()
	synctest.Wait()
}

func (r *rig) stop() {
	r.cancel()
	require.NoError(r.t, <-r.done)
}

// settle lets d pass, and all that follows happen.
func (r *rig) settle(d time.Duration) {
	time.Sleep(d) // of the bubble: it takes no real time
	synctest.Wait()
}

func (r *rig) kind(kind synchronizer.Kind) KindStatus {
	for _, k := range r.agent.Status().Kinds {
		if k.Kind == kind {
			return k
		}
	}
	r.t.Fatalf("no status of %v", kind)
	return KindStatus{}
}

// agree compares the backend with the cluster.
func (r *rig) agree(kinds ...synchronizer.Kind) error {
	want, stays := map[string]string{}, map[string]bool{}
	transform := policy.New(policy.LinkV1)
	for _, kind := range kinds {
		for _, o := range r.cluster.Objects(kind) {
			if o.Namespace == "excluded" {
				continue
			}
			body, err := transform.Apply(nil, kind.Group, kind.Resource, o.Namespace, o.Body)
			if err != nil {
				return err
			}
			digest, err := checksum.V2(body)
			if err != nil {
				return err
			}
			name := fmt.Sprint(kind, " ", o.Namespace, "/", o.Name)
			if kind == services && !isSelected(o.Body) {
				continue
			}
			if kind == jobs && isChildJob(o.Body) {
				stays[name] = true
				continue
			}
			want[name] = fmt.Sprintf("%s %x", o.UID, digest)
		}
	}
	got := r.backend.rows()
	maps.DeleteFunc(got, func(name, _ string) bool { return (r.left[name] || stays[name]) && want[name] == "" })
	var wrong []string
	for name := range got {
		if got[name] != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s: the backend has %q, the cluster %q", name, got[name], want[name]))
		}
	}
	for name := range want {
		if got[name] == "" {
			wrong = append(wrong, fmt.Sprintf("%s: the backend has nothing, the cluster %q", name, want[name]))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("%d objects differ: %s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "))
	}
	return nil
}

func doc(kind synchronizer.Kind, namespace, name, data string) []byte {
	types := map[synchronizer.Kind]string{configmaps: "ConfigMap", deployments: "Deployment", widgets: "Widget", profiles: "ApplicationProfile", services: "Service", jobs: "Job"}
	if kind == jobs && data == "0" {
		return fmt.Appendf(nil, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":%q,"name":%q,"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"x","uid":"y"}]}}`, namespace, name)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"managedFields":[{"time":"x"}]},"data":{"value":%q}}`,
		kind.GroupVersion(), types[kind], namespace, name, data)
}

// backend accepts links and answers messages as an ingester does.
type backend struct {
	mu      sync.Mutex
	refuse  error // of Dial
	dials   int
	link    *fakeLink
	paused  bool
	since   time.Time     // paused
	latency time.Duration // between messages
	resumed chan struct{}
	objects map[string]row
	log     []string // what arrived
	bodies  []string // of what arrived, whole or patch
	bytes   int
	depths  []int
	traces  []string
	asked   int
	drops   map[synchronizer.DropReason][]string
	faults  []string // of the agent
	silent  string   // namespace of which nothing may be sent
	batches int
	parts   map[string]pass // of the answers to a reconciliation, by MsgID
}

type row struct {
	uid      string
	checksum string
	digest   checksum.Digest
	body     []byte
}

func newBackend() *backend {
	return &backend{objects: map[string]row{}, drops: map[synchronizer.DropReason][]string{}, resumed: make(chan struct{})}
}

func (b *backend) drop(reason synchronizer.DropReason, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drops[reason] = append(b.drops[reason], what)
}

func (b *backend) dropped(reason synchronizer.DropReason) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drops[reason]
}

func (b *backend) rows() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows := map[string]string{}
	for name, r := range b.objects {
		rows[name] = fmt.Sprintf("%s %x", r.uid, r.digest)
	}
	return rows
}

// heard returns what arrived since the last call.
func (b *backend) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.log
	b.log = nil
	return log
}

// pause stops the backend from reading; the function it returns ends that.
func (b *backend) pause() (resume func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.paused {
		b.paused, b.since = true, time.Now()
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.paused {
			b.paused = false
			close(b.resumed)
			b.resumed = make(chan struct{})
		}
	}
}

func (b *backend) pausedFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.paused {
		return 0
	}
	return time.Since(b.since)
}

func (b *backend) setRefuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = err
}

// cut breaks the link; what is under way is lost in both directions.
func (b *backend) cut() {
	b.mu.Lock()
	link := b.link
	b.mu.Unlock()
	if link != nil {
		link.fail(synchronizer.ErrDisconnected)
	}
}

// ask sends a GetObject that no message of the agent led to.
func (b *backend) ask(kind synchronizer.Kind, namespace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != nil {
		b.link.down <- synchronizer.Message{Event: synchronizer.EventGet, Kind: kind, Namespace: namespace, Name: name, MsgID: "asked", Depth: 2}
	}
}

func emptyCluster() synchronizer.Cluster { return kubefake.New() }

func (b *backend) Dial(ctx context.Context) (synchronizer.Link, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials++
	if b.refuse != nil {
		return nil, b.refuse
	}
	l := &fakeLink{up: make(chan synchronizer.Message, 8), down: make(chan synchronizer.Message, 1<<16), dead: make(chan struct{})}
	l.sending = b.sending
	l.served.Go(func() { b.serve(l) })
	b.link = l
	return l, nil
}

func (b *backend) serve(l *fakeLink) {
	defer func() { // a link that was closed in order loses nothing
		for errors.Is(l.failure(), synchronizer.ErrClosed) && len(l.up) > 0 {
			b.handle(l, <-l.up)
		}
	}()
	for {
		b.mu.Lock()
		paused, resumed := b.paused, b.resumed
		b.mu.Unlock()
		if paused {
			select {
			case <-resumed:
				continue
			case <-l.dead:
				return
			}
		}
		select {
		case <-l.dead:
			return
		case msg := <-l.up:
			time.Sleep(b.latency) // of the bubble
			b.handle(l, msg)
		}
	}
}

func (b *backend) handle(l *fakeLink, msg synchronizer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := fmt.Sprint(msg.Kind, " ", msg.Namespace, "/", msg.Name)
	b.log = append(b.log, fmt.Sprint(msg.Event, " ", name))
	b.depths, b.traces = append(b.depths, msg.Depth), append(b.traces, msg.TraceParent)
	b.bodies = append(b.bodies, string(msg.Body))
	b.bytes += len(msg.Body)
	if msg.MsgID == "" || msg.Depth < 1 || msg.ResourceVersion != 0 {
		b.faults = append(b.faults, fmt.Sprintf("%+v", msg))
	}
	b.checkAnswer(&msg)
	switch msg.Event {
	case synchronizer.EventGet: // for a patch that could not be applied
	case synchronizer.EventVerify:
		if b.objects[name].checksum != msg.Checksum {
			b.asked++
			l.down <- synchronizer.Message{
				Event: synchronizer.EventGet, Kind: msg.Kind, Namespace: msg.Namespace, Name: msg.Name,
				MsgID: msg.MsgID, Depth: msg.Depth + 1,
			}
		}
	case synchronizer.EventPut:
		b.store(name, msg.Body, msg.Checksum)
	case synchronizer.EventPatch:
		old, known := b.objects[name]
		body, err := patch.ApplyV1(old.body, msg.Body)
		if !known || err != nil {
			b.faults = append(b.faults, fmt.Sprintf("patch of %s against nothing: %v", name, err))
			return
		}
		if uidOf(body) != old.uid {
			b.faults = append(b.faults, "patch against a dead object "+name)
		}
		b.store(name, body, msg.Checksum)
	case synchronizer.EventDelete:
		delete(b.objects, name)
	default:
		b.faults = append(b.faults, "unexpected "+msg.Event.String())
	}
}

func (b *backend) store(name string, body []byte, checked string) {
	sum, err := checksum.V1(body)
	if err != nil || sum != checked {
		b.faults = append(b.faults, fmt.Sprintf("checksum of %s: %v", name, err))
	}
	digest, err := checksum.V2(body)
	if err != nil {
		b.faults = append(b.faults, err.Error())
	}
	b.objects[name] = row{uid: uidOf(body), checksum: checked, digest: digest, body: body}
}

func uidOf(doc []byte) string {
	meta, err := rawjson.Metadata(doc)
	if err != nil {
		return err.Error()
	}
	return meta.UID
}
