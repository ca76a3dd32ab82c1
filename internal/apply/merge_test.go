// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/policy"
)

var (
	configmaps  = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	secrets     = synchronizer.Kind{Version: "v1", Resource: "secrets"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = synchronizer.Kind{Group: "example.org", Version: "v1", Resource: "widgets"}
	commandKind = synchronizer.Kind{Group: "kubescape.io", Version: "v1alpha1", Resource: "operatorcommands"}
)

// laid lays desired over current and gives what would be written.
func laid(t *testing.T, kind synchronizer.Kind, rules *policy.Transform, currentDoc, desiredDoc string) (string, bool, error) {
	t.Helper()
	a := New(Options{Policy: rules})
	at := target{kind, "n", "x"}
	current, err := read([]byte(currentDoc))
	require.NoError(t, err)
	_, shown, err := a.show(at, []byte(currentDoc))
	require.NoError(t, err)
	desired, err := read([]byte(desiredDoc))
	require.NoError(t, err)
	m := a.merger(at)
	written, changed := m.object(current, shown, desired)
	return string(written), changed, a.fit(at, m, current, written)
}

func TestLaying(t *testing.T) {
	hidden, problems := policy.Compile(policy.LinkV1, []policy.Rule{
		{Match: policy.Match{Group: "*", Resource: "*"}, Action: policy.ActionDrop, Paths: []string{"spec.hidden", "spec.list[*].hidden"}},
		{Match: policy.Match{Group: "*", Resource: "*"}, Action: policy.ActionHash, Salt: []byte("0123456789abcdef"), Paths: []string{"spec.hashed", "spec.list[*].hashed"}},
		{Match: policy.Match{Group: "*", Resource: "*"}, Action: policy.ActionMask, Paths: []string{"spec.whole"}},
	})
	require.Empty(t, problems)
	const hash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		kind             synchronizer.Kind
		current, desired string
		want             string // empty: unchanged
		refused          string
	}{
		"nothing":                   {current: `{"spec":{"a":1}}`, desired: `{"spec":{"a":1}}`},
		"order of members":          {current: `{"spec":{"a":1,"b":{"c":2,"d":3}}}`, desired: `{"spec":{"b":{"d":3,"c":2},"a":1}}`},
		"spelling of strings":       {current: `{"spec":{"a":"<\u0041"}}`, desired: `{"spec":{"a":"\u003cA"}}`},
		"change":                    {current: `{"spec":{"a": 1,"b":2}}`, desired: `{"spec":{"a":7,"b":2}}`, want: `{"spec":{"a":7,"b":2}}`},
		"neighbouring big integers": {current: `{"spec":{"a":9007199254740993}}`, desired: `{"spec":{"a":9007199254740992}}`, want: `{"spec":{"a":9007199254740992}}`},
		"untouched numbers":         {current: `{"spec":{"a":1.0,"b":1e3,"c":9007199254740993,"d":1}}`, desired: `{"spec":{"a":1.0,"b":1e3,"c":9007199254740993,"d":2}}`, want: `{"spec":{"a":1.0,"b":1e3,"c":9007199254740993,"d":2}}`},
		"member added and removed":  {current: `{"spec":{"a":1},"data":{"x":"1"}}`, desired: `{"spec":{"b":2},"extra":true}`, want: `{"spec":{"b":2},"extra":true}`},
		"null is absent":            {current: `{"spec":{"a":1,"t":{"m":{}}}}`, desired: `{"spec":{"a":1,"b":null,"t":{"m":{"creationTimestamp":null}}}}`},
		"null removes":              {current: `{"spec":{"a":1}}`, desired: `{"spec":{"a":null}}`, want: `{"spec":{}}`},
		"status is not ours":        {current: `{"spec":{"a":1},"status":{"x":1}}`, desired: `{"spec":{"a":2},"status":{"x":2}}`, want: `{"spec":{"a":2},"status":{"x":1}}`},
		"status that is absent":     {current: `{"spec":{"a":1}}`, desired: `{"spec":{"a":1},"status":{"x":2}}`},

		"existing metadata stays": {
			current: `{"metadata":{"name":"x","uid":"u","resourceVersion":"7","finalizers":["f"],"ownerReferences":[{"uid":"o"}],"labels":{"a":"1"},"annotations":{"b":"1"}}}`,
			desired: `{"metadata":{"name":"x","uid":"other","resourceVersion":"1","finalizers":[],"labels":{"a":"2"},"annotations":{}}}`,
		},
		"absent labels and annotations come": {
			current: `{"metadata":{"name":"x","uid":"u","resourceVersion":"7","generation":2,"creationTimestamp":"now","managedFields":[],"selfLink":"s","labels":{"a":"1"}}}`,
			desired: `{"metadata":{"labels":{"a":"2","c":"3","n":null},"annotations":{"b":"1","kubescape.io/sync-checksum":"x","kubectl.kubernetes.io/last-applied-configuration":"y"}}}`,
			want:    `{"metadata":{"name":"x","resourceVersion":"7","labels":{"a":"1","c":"3"},"annotations":{"b":"1"}}}`,
		},

		"masked values stay": {
			current: `{"spec":{"replicas":1,"containers":[{"name":"c","env":[{"name":"A","value":"one"},{"name":"B","value":"two"}]}]}}`,
			desired: `{"spec":{"replicas":2,"containers":[{"name":"c","env":[{"name":"A","value":"XXXXXX"},{"name":"B","value":"XXXXXX"}]}]}}`,
			want:    `{"spec":{"replicas":2,"containers":[{"name":"c","env":[{"name":"A","value":"one"},{"name":"B","value":"two"}]}]}}`,
		},
		"masked values follow their names": {
			current: `{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"one"},{"name":"B","value":"two"}]},{"name":"d","env":[{"name":"A","value":"three"}]}]}}`,
			desired: `{"spec":{"containers":[{"name":"d","env":[{"name":"A","value":"XXXXXX"}]},{"name":"c","image":"i","env":[{"name":"N","value":"new"},{"name":"B","value":"XXXXXX"},{"name":"A","value":"XXXXXX"}]}]}}`,
			want:    `{"spec":{"containers":[{"name":"d","env":[{"name":"A","value":"three"}]},{"name":"c","env":[{"name":"N","value":"new"},{"name":"B","value":"two"},{"name":"A","value":"one"}],"image":"i"}]}}`,
		},
		"a value replaces a mask": {
			current: `{"spec":{"env":[{"name":"A","value":"one"},{"name":"B","value":"two"}]}}`,
			desired: `{"spec":{"env":[{"name":"A","value":"new"},{"name":"B","value":"XXXXXX"}]}}`,
			want:    `{"spec":{"env":[{"name":"A","value":"new"},{"name":"B","value":"two"}]}}`,
		},
		"the value behind the mask is desired": {
			current: `{"spec":{"env":[{"name":"A","value":"one"}]}}`,
			desired: `{"spec":{"env":[{"name":"A","value":"one"}]}}`,
		},
		"mask of a new name": {
			current: `{"spec":{"env":[{"name":"A","value":"one"}]}}`,
			desired: `{"spec":{"env":[{"name":"B","value":"XXXXXX"}]}}`,
			refused: "masked value at spec.env[0].value",
		},
		"mask of a name that stands twice": {
			current: `{"spec":{"env":[{"name":"A","value":"one"},{"name":"A","value":"two"}]}}`,
			desired: `{"spec":{"env":[{"name":"A","value":"XXXXXX"}]}}`,
			refused: "masked value at spec.env[0].value",
		},
		"names that stand twice in both": {
			current: `{"spec":{"env":[{"name":"A","value":"one"},{"name":"A","value":"two"},{"name":"B"}]}}`,
			desired: `{"spec":{"env":[{"name":"A","value":"XXXXXX"},{"name":"A","value":"XXXXXX"}]}}`,
			want:    `{"spec":{"env":[{"name":"A","value":"one"},{"name":"A","value":"two"}]}}`,
		},
		"mask where nothing was masked": {
			current: `{"spec":{"a":"plain"}}`, desired: `{"spec":{"a":"XXXXXX"}}`,
			refused: "masked value at spec.a",
		},
		"mask in a label": {
			current: `{"metadata":{"labels":{}}}`, desired: `{"metadata":{"labels":{"example.com/a":"XXXXXX"}}}`,
			refused: "masked value at metadata.labels['example.com/a']",
		},
		"a value that is the mask": {current: `{"spec":{"a":"XXXXXX","b":1}}`, desired: `{"spec":{"a":"XXXXXX","b":2}}`, want: `{"spec":{"a":"XXXXXX","b":2}}`},
		"a masked object":          {current: `{"spec":{"whole":{"a":[1]},"b":1}}`, desired: `{"spec":{"whole":"XXXXXX","b":2}}`, want: `{"spec":{"whole":{"a":[1]},"b":2}}`},
		"elements without names": {
			current: `{"spec":{"env":[{"value":"one"},{"value":"two"}],"l":[{"a":1},{"b":2},[3]]}}`,
			desired: `{"spec":{"env":[{"value":"XXXXXX"},{"value":"XXXXXX"}],"l":[[3],{"b":2},{"c":1}]}}`,
			want:    `{"spec":{"env":[{"value":"one"},{"value":"two"}],"l":[[3],{"b":2},{"c":1}]}}`,
		},
		"one of two elements without names": {
			current: `{"spec":{"env":[{"value":"one"},{"value":"two"}]}}`,
			desired: `{"spec":{"env":[{"value":"XXXXXX"}]}}`,
			refused: "masked value at spec.env[0].value",
		},

		"secret": {
			kind:    secrets,
			current: `{"type":"Opaque","data":{"a":"b25l","tls.crt":"dHdv"}}`,
			desired: `{"type":"Opaque","data":{"a":"bmV3","tls.crt":"WFhYWFhY"}}`,
			want:    `{"type":"Opaque","data":{"a":"bmV3","tls.crt":"dHdv"}}`,
		},
		"secret with a mask of a new key": {
			kind:    secrets,
			current: `{"data":{"a":"b25l"}}`, desired: `{"data":{"b.c":"WFhYWFhY"}}`,
			refused: "masked value at data['b.c']",
		},
		"that mask elsewhere": {current: `{"data":{"a":"b25l"}}`, desired: `{"data":{"a":"WFhYWFhY"}}`, want: `{"data":{"a":"WFhYWFhY"}}`},

		"hidden members stay": {
			current: `{"spec":{"hidden":{"a":1},"list":[{"name":"x","hidden":1,"a":1},{"name":"y","hidden":2}],"b":1}}`,
			desired: `{"spec":{"list":[{"name":"y"},{"name":"x","a":2}],"b":2}}`,
			want:    `{"spec":{"hidden":{"a":1},"list":[{"name":"y","hidden":2},{"name":"x","hidden":1,"a":2}],"b":2}}`,
		},
		"nulled members stay": {
			kind:    synchronizer.Kind{Group: "spdx.softwarecomposition.kubescape.io", Version: "v1beta1", Resource: "sbomsyftfiltereds"},
			current: `{"spec":{"syft":{"files":[1],"a":1}}}`, desired: `{"spec":{"syft":{"files":null,"a":2}}}`,
			want: `{"spec":{"syft":{"files":[1],"a":2}}}`,
		},
		"hash that would be written": {
			current: `{"spec":{"list":[{"name":"x","hashed":"one"}]}}`,
			desired: `{"spec":{"list":[{"name":"y","hashed":"` + hash + `"}]}}`,
			refused: "hashed value at spec.list[0].hashed",
		},
		"digest of an image": {current: `{"spec":{"image":"a"}}`, desired: `{"spec":{"image":"` + hash + `"}}`, want: `{"spec":{"image":"` + hash + `"}}`},

		"integer that would be rounded": {
			current: `{"spec":{}}`, desired: `{"spec":{"a":[18446744073709551615]}}`,
			refused: "the API server cannot store the number at spec.a[0] exactly",
		},
		"number without end": {
			current: `{"spec":{}}`, desired: `{"spec":{"a":1e400}}`,
			refused: "the API server cannot store the number at spec.a exactly",
		},
		"numbers that are kept": {current: `{"spec":{}}`, desired: `{"spec":{"a":[-9223372036854775808,0.1,1e300,18446744073709551616]}}`, want: `{"spec":{"a":[-9223372036854775808,0.1,1e300,18446744073709551616]}}`},
		"duplicate members":     {current: `{"spec":{"a":1,"a":2}}`, desired: `{"spec":{"a":1,"a":2,"b":1}}`, want: `{"spec":{"a":2,"b":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := c.kind
			if kind == (synchronizer.Kind{}) {
				kind = widgets
			}
			got, changed, err := laid(t, kind, hidden, c.current, c.desired)
			if c.refused != "" {
				require.EqualError(t, err, c.refused)
				result, err := explain(err)
				require.NoError(t, err)
				require.Equal(t, Refused, result.Outcome)
				return
			}
			require.NoError(t, err)
			if require.Equal(t, c.want != "", changed, got); changed {
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestNewObject(t *testing.T) {
	desired, err := read([]byte(`{"kind":"Widget","status":{"a":1},"apiVersion":"example.org/v1","metadata":{"uid":"u","resourceVersion":"12",
		"creationTimestamp":null,"generation":3,"selfLink":"/s","managedFields":[{}],"deletionTimestamp":"t","deletionGracePeriodSeconds":3,
		"ownerReferences":[{"uid":"dead"}],"name":"old","generateName":"g-","namespace":"n","labels":{"l":"1"},"finalizers":["example.com/hold"],
		"annotations":{"a":"1","kubescape.io/sync-checksum":"x"}},"spec":{"big":9007199254740993,"n":null},"gone":null}`))
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Widget","apiVersion":"example.org/v1","spec":{"big":9007199254740993,"n":null},`+
		`"metadata":{"name":"x","generateName":"g-","namespace":"n","labels":{"l":"1"},"finalizers":["example.com/hold"],"annotations":{"a":"1"}}}`,
		string((&merger{}).newObject(desired, "x")))
}

func TestKeptMetadataIsNamed(t *testing.T) {
	current, err := read([]byte(`{"metadata":{"labels":{"a":"1","b":"1"},"annotations":{"c":"1"}}}`))
	require.NoError(t, err)
	desired, err := read([]byte(`{"metadata":{"labels":{"a":"2","b":"1"},"annotations":{"c":"2"}}}`))
	require.NoError(t, err)
	m := &merger{}
	_, changed := m.object(current, current, desired)
	require.False(t, changed)
	require.Equal(t, "metadata.labels.a, metadata.annotations.c", list(m.kept))
}
