// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/link/stock"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

// payments is a world whose namespace rules stand in a ConfigMap, with a client
// that has the rights of configuration/namespace-filters.yaml and may read
// deployments, and nothing else. The world's namespace is the one that is
// excluded; operator is the client's own, which never is.
type payments struct {
	*world
	operator *world
	rights   string        // the manifest's Role and RoleBinding
	window   time.Duration // of the client's changes; 0: as by default
	network  *proxy.Proxy
	client   *client.Client
	log      *lines
	running  *agent
}

const (
	everything = `{"includeNamespaces":[],"excludeNamespaces":[]}`
	ruleMap    = "namespace-filters"
)

func newPayments(t *testing.T) *payments {
	t.Helper()
	p := &payments{world: newWorld(t, shared, deployments), operator: newWorld(t, shared, deployments)}
	p.operator.name = p.name // one cluster
	p.operator.create(deployments, "other")
	p.create(deployments, "web", "doomed")
	manifest, err := os.ReadFile(filepath.Join("..", "..", "configuration", "namespace-filters.yaml"))
	require.NoError(t, err)
	_, p.rights, _ = strings.Cut(strings.ReplaceAll(string(manifest), "kubescape", p.operator.namespace), "\n---\n")
	require.Contains(t, p.rights, "resourceNames")

	account := kubetest.Subject{Namespace: p.operator.namespace, Name: "synchronizer"}
	token, err := shared.ServiceAccountToken(t.Context(), account.Namespace, account.Name, "", time.Hour)
	require.NoError(t, err)
	require.NoError(t, shared.Grant(t.Context(), account, kubetest.PolicyRule{
		APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch"},
	}))
	direct, err := shared.TokenKubeconfig(p.name, token)
	require.NoError(t, err)
	address, err := url.Parse(shared.URL)
	require.NoError(t, err)
	p.network = proxy.New(t, address.Host)
	text, err := os.ReadFile(direct)
	require.NoError(t, err)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(p.kubeconfig, []byte(strings.ReplaceAll(string(text), address.Host, p.network.Addr())), 0o600))
	return p
}

// start runs the client.
func (p *payments) start(to target) {
	p.t.Helper()
	dir := p.configFile(to)
	file := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(file)
	require.NoError(p.t, err)
	var document map[string]map[string]any
	require.NoError(p.t, json.Unmarshal(text, &document))
	in := document["inCluster"]
	in["includeNamespaces"] = []string{"of-the-file"} // it means nothing
	in["namespace"], in["namespaceFilterConfigMapName"] = p.operator.namespace, ruleMap
	text, err = json.Marshal(document)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(file, text, 0o600))
	c, _, err := config.LoadClient(config.Env{ConfigDir: dir})
	require.NoError(p.t, err)
	if p.window > 0 {
		c.InCluster.CoalesceWindow = config.Duration(p.window)
	}
	p.log = newLog(p.t, "client")
	process := app.NewProcess(p.log)
	p.client, err = client.Open(p.t.Context(), process, c, kube.LoadOptions{Flag: p.kubeconfig}, true)
	require.NoError(p.t, err)
	p.running = &agent{registry: process.Registry}
	p.running.done, p.running.stop = background(p.t, "client", p.client.Run)
}

// edit writes the document of the ConfigMap.
func (p *payments) edit(document string) {
	p.t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": p.operator.namespace, "name": ruleMap},
		"data": map[string]any{"namespaceFilters.json": document},
	})
	require.NoError(p.t, err)
	require.NoError(p.t, shared.Apply(p.t.Context(), string(text)))
}

// logged counts lines.
func (p *payments) logged(line string) int { return strings.Count(p.log.tail(1<<20), line) }

// editAnd waits until the log has one line more.
func (p *payments) editAnd(line, document string) {
	p.t.Helper()
	before := p.logged(line)
	p.edit(document)
	eventually(p.t, line, func() bool { return p.logged(line) == before+1 })
}

const updated = `"namespace filters updated"`

func (p *payments) exclude() {
	p.t.Helper()
	p.editAnd(updated, fmt.Sprintf(`{"includeNamespaces":"","excludeNamespaces":[%q]}`, p.namespace))
}

// health asks the client's health port.
func (p *payments) health(path string) (int, string) {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.client.HealthAddress())
	require.NoError(p.t, err)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
	require.NoError(p.t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

// TestNamespaceRules is the smoke test of docs/namespace-filter.md.
func TestNamespaceRules(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	p := newPayments(t)
	require.NoError(t, shared.Apply(t.Context(), p.rights))
	p.edit(everything)
	b := startBackend(t, t.TempDir(), keyed)
	link := proxy.New(t, b.clients)
	p.start(through(link.Addr(), b))

	row := func(name string) *api.Object { return b.object(t, p.world, deployments, name) }
	arrives := func(w *world, name string) {
		t.Helper()
		w.change(deployments, name)
		revision := w.revision.Load()
		eventually(t, "the change arrives", func() bool {
			o := b.object(t, w, deployments, name)
			return o != nil && revisionOf(t, o) == revision
		})
	}
	// fence returns when all that was seen has arrived: one more object of the same
	// kind goes the same way. What waits for the end of a window arrives later.
	fences := 0
	fence := func() {
		t.Helper()
		fences++
		p.operator.create(deployments, numbered("fence", fences))
		eventually(t, "the fence arrives", func() bool {
			return b.object(t, p.operator, deployments, numbered("fence", fences)) != nil
		})
	}
	silent := func(disturb func()) {
		t.Helper()
		fence()
		before, doomed := row("web"), row("doomed")
		require.True(t, before.DeletedAt.IsZero())
		p.change(deployments, "web")
		disturb()
		p.change(deployments, "web")
		fence()
		require.Equal(t, before, row("web"))
		require.Equal(t, doomed, row("doomed"))
	}
	none := func() {}

	eventually(t, "both are stored", func() bool { return row("web") != nil && row("doomed") != nil })
	arrives(p.world, "web")
	arrives(p.world, "web") // and the next would wait
	p.change(deployments, "web")
	p.exclude()
	silent(func() { // for longer than any window
		arrives(p.operator, "other")
		arrives(p.operator, "other")
		arrives(p.operator, "other")
	})
	silent(link.Cut)
	silent(p.network.Cut)
	silent(func() {
		p.delete(deployments, "doomed")
		p.create(deployments, "new")
	})
	require.Nil(t, row("new"))

	p.editAnd(updated, everything)
	require.True(t, row("doomed").DeletedAt.IsZero(), "nothing is made up for")
	arrives(p.world, "web")
	arrives(p.world, "new")
	p.exclude()
	silent(none)

	p.editAnd(`"namespace filters rejected"`, `{"includeNamespaces":[],"excludeNamespaces":[],"excludeNamespacesRegex":["(?!kube)"]}`)
	silent(none)
	_, err := shared.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+p.operator.namespace+"/configmaps/"+ruleMap, "", nil)
	require.NoError(t, err)
	eventually(t, "the deletion is seen", func() bool { return p.logged("it does not exist") == 1 })
	silent(link.Cut)
	p.editAnd(updated, everything)
	arrives(p.world, "web")
	require.Equal(t, 5, p.logged(updated))
	p.running.runs(t)
}

// TestB052StartAndFrames: nothing is said before the first valid document, and
// afterwards nothing of a namespace that is excluded, whoever asks for it.
func TestB052StartAndFrames(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	p := newPayments(t)
	field := stock.NewServer(t)
	p.start(target{address: strings.TrimPrefix(field.URL, "http://")})

	waits := func(why string) {
		t.Helper()
		eventually(t, why, func() bool { return p.logged(why) > 0 })
		code, _ := p.health("/healthz")
		require.Equal(t, http.StatusOK, code)
		code, text := p.health("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, text, "waiting for valid namespace filter ConfigMap "+p.operator.namespace+"/"+ruleMap)
		_, text = p.health("/status")
		var status client.Status
		require.NoError(t, json.Unmarshal([]byte(text), &status))
		require.Equal(t, p.operator.namespace+"/"+ruleMap, status.NamespaceRules.ConfigMap)
		require.False(t, status.NamespaceRules.InForce)
		require.False(t, status.Connected)
		require.Zero(t, field.Connected(), "nothing is said, not even hello")
	}
	waits("forbidden")
	p.edit(`{"includeNamespaces":[]}`)
	require.NoError(t, shared.Apply(t.Context(), p.rights))
	waits(`"namespace filters rejected"`)
	p.edit(everything)
	session := field.Next()
	first := session.Wait(func(*stock.Frame) bool { return true })
	require.Equal(t, stock.Ping, *first.Event)
	eventually(t, "it is ready", func() bool { code, _ := p.health("/readyz"); return code == http.StatusOK })

	ask := func(w *world, name string) {
		t.Helper()
		require.NoError(t, session.Send(fmt.Appendf(nil,
			`{"ResourceVersion":0,"BaseObject":"","Depth":3,"Event":4,"Kind":{"Group":"apps","Version":"v1","Resource":"deployments","AdditionalProperties":null},"MsgId":"m","Name":%q,"Namespace":%q,"AdditionalProperties":null}`,
			name, w.namespace)))
	}
	// reconcile lists, of both namespaces, one object with an old resourceVersion
	// and one that there is not.
	reconcile := func() {
		t.Helper()
		kind := map[string]any{"Group": "apps", "Version": "v1", "Resource": "deployments"}
		var items []map[string]any
		for _, w := range []*world{p.world, p.operator} {
			for _, name := range []string{"web", "other", "absent"} {
				items = append(items, map[string]any{"Depth": 2, "Event": stock.NewChecksum, "Kind": kind, "MsgId": "r", "Namespace": w.namespace, "Name": name, "ResourceVersion": 1, "Checksum": "x"})
			}
		}
		frame, err := json.Marshal(map[string]any{
			"Depth": 2, "Event": stock.Batch, "MsgId": "r", "BatchType": "reconciliation", "Items": map[string]any{"NewChecksum": items}, "Kind": kind,
		})
		require.NoError(t, err)
		before := len(session.Received())
		require.NoError(t, session.Send(frame))
		eventually(t, "the reconciliation is answered", func() bool {
			deleted, put := false, false
			for _, f := range session.Received()[before:] {
				deleted = deleted || f.Is(stock.ObjectDeleted, deployments, p.operator.namespace, "absent")
				put = put || f.Is(stock.PutObject, deployments, p.operator.namespace, "other")
			}
			return deleted && put
		})
	}
	answered := func(w *world, name string) {
		t.Helper()
		before := len(session.Received())
		ask(w, name)
		eventually(t, "the answer", func() bool {
			for _, f := range session.Received()[before:] {
				if f.Is(stock.PutObject, deployments, w.namespace, name) && f.MsgId == "m" {
					return true
				}
			}
			return false
		})
	}
	session.WaitFor(stock.NewChecksum, deployments, p.namespace, "web")
	answered(p.world, "web")
	p.change(deployments, "web") // as a patch
	session.WaitFor(stock.PatchObject, deployments, p.namespace, "web")
	session.WaitFor(stock.NewChecksum, deployments, p.namespace, "doomed") // its question comes later
	p.exclude()
	answered(p.operator, "other")

	before := len(session.Received())
	quiet := func() {
		t.Helper()
		answered(p.operator, "other")
		p.operator.change(deployments, "other")
		answered(p.operator, "other")
		for _, f := range session.Received()[before:] {
			require.NotContains(t, string(f.Raw), `"`+p.namespace+`"`)
		}
	}
	ask(p.world, "web")
	ask(p.world, "doomed")
	ask(p.world, "absent")
	p.change(deployments, "web")
	p.delete(deployments, "doomed")
	p.create(deployments, "unlisted")
	reconcile()
	quiet()
	p.network.Cut()
	p.change(deployments, "web")
	quiet()
	session.Cut()
	session = field.Next()
	before = 0
	p.change(deployments, "web")
	ask(p.world, "web")
	eventually(t, "what was said shortly before is said again", func() bool {
		for _, f := range session.Received() { // as a checksum, or whole if its watch tells the change only now
			if f.Is(stock.NewChecksum, deployments, p.operator.namespace, "other") || f.Is(stock.PutObject, deployments, p.operator.namespace, "other") {
				return true
			}
		}
		return false
	})
	quiet()

	p.editAnd(updated, everything)
	p.change(deployments, "web")
	session.WaitFor(stock.NewChecksum, deployments, p.namespace, "web")
	answered(p.world, "web")
	for _, f := range session.Received() {
		require.False(t, f.Is(stock.ObjectDeleted, deployments, p.namespace, "doomed"))
	}
	reconcile()
	session.WaitFor(stock.ObjectDeleted, deployments, p.namespace, "absent")
	session.WaitFor(stock.NewChecksum, deployments, p.namespace, "unlisted")
	p.running.runs(t)
}
