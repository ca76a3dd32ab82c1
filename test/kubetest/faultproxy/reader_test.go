// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest/faultproxy"
)

// The project's own reader works through the proxy: compressed lists in pages,
// and watches, whose faults are the errors that its contract names.
func TestOwnReader(t *testing.T) {
	b := realBackend(t)
	ctx := t.Context()
	namespace := fmt.Sprint("many-", time.Now().UnixNano()) // may run more than once
	many := "/api/v1/namespaces/" + namespace + "/serviceaccounts"
	require.NoError(t, shared.CreateNamespace(ctx, namespace))
	for i := range 60 {
		_, err := shared.Do(ctx, http.MethodPost, many, "", fmt.Appendf(nil,
			`{"metadata":{"name":"many-%d","annotations":{"text":%q}}}`, i, strings.Repeat("0123456789", 1000)))
		require.NoError(t, err)
	}
	p := faultproxy.New(t, b)
	c, err := kube.New(kube.Options{Config: p.RESTConfig(), PageSize: 25})
	require.NoError(t, err)
	defer c.Close()
	accounts := synchronizer.Kind{Version: "v1", Resource: "serviceaccounts"}
	list := func() (version string, count int, err error) {
		version, err = c.List(ctx, accounts, func(synchronizer.Object) error {
			count++
			return nil
		})
		return version, count, err
	}
	version, count, err := list()
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, 60)

	p.Arm(faultproxy.List("serviceaccounts").Continued().Times(1), faultproxy.ExpiredContinue)
	_, _, err = list()
	require.ErrorIs(t, err, synchronizer.ErrGone)
	p.Arm(faultproxy.List("serviceaccounts").Nth(2), faultproxy.End{After: 100_000})
	_, _, err = list()
	require.Error(t, err)
	p.Arm(faultproxy.Watch("serviceaccounts").Times(1), faultproxy.GoneInStream{})
	err = c.Watch(ctx, accounts, version, func(synchronizer.WatchEvent) error { return nil })
	require.ErrorIs(t, err, synchronizer.ErrGone)

	_, err = shared.Do(ctx, http.MethodPost, many, "", []byte(`{"metadata":{"name":"last"}}`))
	require.NoError(t, err)
	done := errors.New("enough")
	err = c.Watch(ctx, accounts, version, func(e synchronizer.WatchEvent) error {
		require.Equal(t, "last", e.Object.Name)
		return done
	})
	require.ErrorIs(t, err, done)

	p.Arm(faultproxy.Watch(""), faultproxy.Silent{})
	impatient, err := kube.New(kube.Options{Config: p.RESTConfig(), WatchSilence: time.Second})
	require.NoError(t, err)
	defer impatient.Close()
	err = impatient.Watch(ctx, accounts, version, func(synchronizer.WatchEvent) error { return nil })
	require.ErrorContains(t, err, "nothing was heard")
	require.Equal(t, []string{"answer 410", "end", "410 in stream", "silent"}, faults(p.Log()))
}
