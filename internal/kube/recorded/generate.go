// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"synchronizer"
)

// The kinds that can be generated.
var (
	Deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	Pods        = synchronizer.Kind{Version: "v1", Resource: "pods"}
)

// Item is one generated object.
type Item struct {
	Kind      synchronizer.Kind
	Namespace string
	Name      string
	// Body is what GET answers, in the exact form of an API server's output.
	Body []byte
	// Manifest is what a person would have applied to get it: no status and
	// nothing that the API server sets.
	Manifest []byte
}

// namespaces is the number of namespaces over which objects are spread.
const namespaces = 50

// Generate makes n objects of a kind (Deployments or Pods) from a seed: mean
// 2.7 KB, and every name, image, label value, uid and hash occurs once, so
// that no compression or cache profits from the data being made up. The order
// is the API server's. Another kind yields nothing.
func Generate(kind synchronizer.Kind, seed uint64, n int) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		build := deployment
		switch kind {
		case Deployments:
		case Pods:
			build = pod
		default:
			return
		}
		random := rand.New(rand.NewPCG(seed, 0x5359_4e43))
		each := (n + namespaces - 1) / namespaces
		for i := range n {
			g := &generator{random: random, n: i, namespace: fmt.Sprintf("team-%02d", i/each)}
			if !yield(build(g)) {
				return
			}
		}
	}
}

// GenerateSet is Generate as a Set that a Server can serve.
func GenerateSet(kind synchronizer.Kind, seed uint64, n int) *Set {
	set := &Set{Kind: kind, Namespaced: true, ObjectKind: "Deployment", ResourceVersion: strconv.Itoa(firstVersion + n)}
	if kind == Pods {
		set.ObjectKind = "Pod"
	}
	prefix := len(set.typed(nil, []byte("{")))
	for item := range Generate(kind, seed, n) {
		listed := item.Body[prefix-1:]
		listed[0] = '{' // what GET has in front of it LIST has not
		set.Items = append(set.Items, listed)
	}
	return set
}

const firstVersion = 100_000

// generator makes one object.
type generator struct {
	random    *rand.Rand
	n         int
	namespace string
}

var words = strings.Fields(`accounts agent api auth basket billing cache catalog checkout cron data edge events
	export feed files gateway graph images import index inventory jobs ledger limits mail metrics notify orders
	payment policy portal pricing profile proxy queue quota rating reports router rules scan search session shop
	signup sync tax tenant track usage vault web webhook worker`)

func (g *generator) word() string { return words[g.random.IntN(len(words))] }

func (g *generator) hex(n int) string {
	const digits = "0123456789abcdef"
	out := make([]byte, n)
	for i := range out {
		out[i] = digits[g.random.IntN(16)]
	}
	return string(out)
}

func (g *generator) uid() string {
	return g.hex(8) + "-" + g.hex(4) + "-4" + g.hex(3) + "-a" + g.hex(3) + "-" + g.hex(12)
}

// name is unique and sorts by n.
func (g *generator) name() string {
	return fmt.Sprintf("app-%06d-%s-%s", g.n, g.word(), g.hex(4))
}

func (g *generator) time() string {
	return time.Unix(1_760_000_000+int64(g.random.IntN(20_000_000)), 0).UTC().Format(time.RFC3339)
}

// env is a container's environment of about the given number of bytes.
func (g *generator) env(bytes int) string {
	var out strings.Builder
	for i := 0; out.Len() < bytes; i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"name":"%s_%s_%d","value":"https://%s-%s.%s.svc:%d/%s"}`, strings.ToUpper(g.word()), strings.ToUpper(g.word()), i,
			g.word(), g.hex(6), g.namespace, 1024+g.random.IntN(60000), g.hex(8))
	}
	return out.String()
}

func (g *generator) container(name, image string, env int) string {
	port, cpu, memory := 1024+g.random.IntN(60000), 10+10*g.random.IntN(50), 32+32*g.random.IntN(30)
	return fmt.Sprintf(`{"name":%q,"image":%q,"args":["--listen=:%d","--config=/etc/%s/%s.yaml"],"ports":[{"name":"http","containerPort":%d,"protocol":"TCP"}],`+
		`"env":[%s],"resources":{"limits":{"memory":"%dMi"},"requests":{"cpu":"%dm","memory":"%dMi"}},`+
		`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`,
		name, image, port, g.word(), g.hex(6), port, g.env(env), 2*memory, cpu, memory)
}

func (g *generator) image() string {
	return fmt.Sprintf("registry.example.com/%s/%s-%s:%d.%d.%d@sha256:%s", g.word(), g.word(), g.hex(6), g.random.IntN(10), g.random.IntN(40), g.random.IntN(90), g.hex(64))
}

// podSpec is what both kinds have in common.
func podSpec(account, containers, more string) string {
	return fmt.Sprintf(`{"containers":[%s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":%q,"serviceAccount":%q,%s"securityContext":{"runAsNonRoot":true},"schedulerName":"default-scheduler"}`,
		containers, account, account, more)
}

// assemble writes the object as the API server does, and as it was applied.
func (g *generator) assemble(kind synchronizer.Kind, objectKind, name, extra, labels, annotations, managed, spec, status string) Item {
	head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"name":%q,"namespace":%q,`, objectKind, kind.GroupVersion(), name, g.namespace)
	body := fmt.Sprintf(`%s"uid":%q,"resourceVersion":"%d","generation":1,"creationTimestamp":%q,"labels":%s,"annotations":%s,%s"managedFields":[%s]},"spec":%s,"status":%s}`,
		head, g.uid(), firstVersion+g.n+1, g.time(), labels, annotations, extra, managed, spec, status)
	manifest := fmt.Sprintf(`%s"labels":%s,"annotations":%s},"spec":%s}`, head, labels, annotations, spec)
	return Item{Kind: kind, Namespace: g.namespace, Name: name, Body: []byte(body), Manifest: []byte(manifest)}
}

// envBytes spreads the sizes so that their mean is 2.7 KB.
func (g *generator) envBytes(mean int) int { return g.random.IntN(2*mean + 1) }

func deployment(g *generator) Item {
	name, image, hash := g.name(), g.image(), g.hex(10)
	labels := fmt.Sprintf(`{"app.kubernetes.io/instance":%q,"app.kubernetes.io/name":"%s-%s","app.kubernetes.io/version":%q}`, name, g.word(), g.hex(4), g.hex(7))
	selector := fmt.Sprintf(`{"app.kubernetes.io/instance":%q}`, name)
	annotations := fmt.Sprintf(`{"checksum/config":%q,"deployment.kubernetes.io/revision":"1"}`, g.hex(64))
	spec := fmt.Sprintf(`{"replicas":%d,"selector":{"matchLabels":%s},"template":{"metadata":{"labels":%s},"spec":%s},`+
		`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%%","maxSurge":"25%%"}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600}`,
		1+g.random.IntN(9), selector, selector, podSpec(name, g.container("main", image, g.envBytes(95)), ""))
	at := g.time()
	managed := fmt.Sprintf(`{"manager":"helm","operation":"Update","apiVersion":"apps/v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:labels":{".":{},"f:app.kubernetes.io/instance":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}}}`, at)
	status := fmt.Sprintf(`{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[`+
		`{"type":"Available","status":"True","lastUpdateTime":%q,"lastTransitionTime":%q,"reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."},`+
		`{"type":"Progressing","status":"True","lastUpdateTime":%q,"lastTransitionTime":%q,"reason":"NewReplicaSetAvailable","message":"ReplicaSet \"%s-%s\" has successfully progressed."}]}`,
		at, at, at, at, name, hash)
	return g.assemble(Deployments, "Deployment", name, "", labels, annotations, managed, spec, status)
}

func pod(g *generator) Item {
	name, image := g.name(), g.image()
	labels := fmt.Sprintf(`{"app.kubernetes.io/instance":%q,"controller-revision-hash":%q}`, name, g.hex(10))
	annotations := fmt.Sprintf(`{"checksum/config":%q}`, g.hex(64))
	owner := fmt.Sprintf(`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Runner","name":"runner-%s","uid":%q,"controller":true,"blockOwnerDeletion":true}],`, g.hex(8), g.uid())
	node := fmt.Sprintf(`"nodeName":"node-%s",`, g.hex(6))
	spec := podSpec(name, g.container("main", image, g.envBytes(80)), node)
	at, ip := g.time(), fmt.Sprintf("10.%d.%d.%d", g.random.IntN(256), g.random.IntN(256), g.random.IntN(256))
	managed := fmt.Sprintf(`{"manager":"runner","operation":"Update","apiVersion":"v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/instance":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}`, at)
	status := fmt.Sprintf(`{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":%q},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":%q}],`+
		`"hostIP":"192.168.%d.%d","podIP":%q,"podIPs":[{"ip":%q}],"startTime":%q,"containerStatuses":[{"name":"main","state":{"running":{"startedAt":%q}},"lastState":{},"ready":true,"restartCount":0,"image":%q,"imageID":%q,"containerID":"containerd://%s","started":true}],"qosClass":"Burstable"}`,
		at, at, g.random.IntN(256), g.random.IntN(256), ip, ip, at, at, image, image, g.hex(64))
	return g.assemble(Pods, "Pod", name, owner, labels, annotations, managed, spec, status)
}
