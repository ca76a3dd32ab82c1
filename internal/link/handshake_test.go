// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// upgrade writes a raw upgrade request and reads the answer.
func upgrade(t *testing.T, server *httptest.Server, headers string) (*http.Response, net.Conn) {
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = fmt.Fprintf(c, "GET /any/path HTTP/1.1\r\nHost: x\r\n%s\r\n", headers)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return response, c
}

const (
	ws       = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: zrriNP9ApfGOoUH5JJ1E7w==\r\nSec-WebSocket-Version: 13\r\n"
	identity = "x-api-account: a\r\nX-API-CLUSTER: c\r\n"
)

func TestHandshakeAnswers(t *testing.T) {
	server, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
	for name, test := range map[string]struct {
		headers string
		code    int
		says    string
	}{
		"key missing":                          {ws + identity, 401, "X-API-KEY is missing"},
		"cluster missing":                      {ws + "X-API-KEY: key\r\nX-API-ACCOUNT: a\r\n", 401, "X-API-CLUSTER is missing"},
		"missing comes before version":         {ws + identity + "X-SYNCHRONIZER-VERSION: invalid\r\n", 401, "X-API-KEY"},
		"version comes before authentication":  {ws + identity + "X-API-KEY: wrong\r\nX-SYNCHRONIZER-VERSION: invalid\r\n", 424, "update it"},
		"authentication":                       {ws + identity + "X-API-KEY: wrong\r\n", 401, "unauthorized"},
		"account that cannot be a key":         {ws + "X-API-KEY: key\r\nX-API-ACCOUNT: a/b\r\nX-API-CLUSTER: c\r\n", 400, "slash"},
		"account that is too long":             {ws + "X-API-KEY: key\r\nX-API-CLUSTER: c\r\nX-API-ACCOUNT: " + strings.Repeat("a", 513) + "\r\n", 400, "X-API-ACCOUNT has 513 bytes"},
		"cluster that is too long":             {ws + "X-API-KEY: key\r\nX-API-ACCOUNT: a\r\nX-API-CLUSTER: " + strings.Repeat("c", 513) + "\r\n", 400, "512 are the most"},
		"plain GET, after authentication":      {identity + "X-API-KEY: key\r\n", 400, `handshake error: bad "Upgrade" header`},
		"authentication comes before plain":    {identity + "X-API-KEY: wrong\r\n", 401, ""},
		"upgrade without connection":           {"Upgrade: websocket\r\n" + identity + "X-API-KEY: key\r\n", 400, `bad "Connection" header`},
		"websocket version that nobody speaks": {strings.Replace(ws, "13", "7", 1) + identity + "X-API-KEY: key\r\n", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := upgrade(t, server, test.headers)
			require.Equal(t, test.code, response.StatusCode)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), test.says)
			require.NotContains(t, string(body), "wrong", "the key is never told")
		})
	}
	t.Run("accepted", func(t *testing.T) {
		response, c := upgrade(t, server, ws+identity+"X-API-KEY: key\r\nX-Uid: u-1\r\nX-Group: g-1\r\n"+
			"Sec-WebSocket-Protocol: synchronizer.v2\r\nSec-WebSocket-Extensions: permessage-deflate\r\n")
		require.Equal(t, 101, response.StatusCode)
		// Recorded from servers in the field: these three and nothing else.
		require.Equal(t, []string{"Connection", "Sec-Websocket-Accept", "Upgrade"}, slices.Sorted(maps.Keys(response.Header)))
		l := <-links
		require.Equal(t, "a/c", l.Peer().ClusterID.String())
		require.Equal(t, "u-1", l.Peer().ClusterUID)
		require.Equal(t, "g-1", l.Peer().ResourceGroup)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Millisecond))) // nobody answers the close frame
		require.NoError(t, l.Close(1001, strings.Repeat("x", 200)))
	})
}

func TestDialSendsHeaders(t *testing.T) {
	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	d := testDialer(server, linktest.Setup{})
	d.Hello.SynchronizerVersion, d.Hello.HelmVersion = "(devel)", ""
	d.Hello.ClusterUID, d.ExtraHeaders = "u-1", ExtraHeaders{ClusterUID: "X-Uid", ResourceGroup: "X-Group"}
	_, err := d.Dial(t.Context())
	require.ErrorContains(t, err, "HTTP 404")
	require.NotContains(t, err.Error(), `"key"`)
	got := <-headers
	for _, name := range []string{"Upgrade", "Connection", "Sec-Websocket-Version", "Sec-Websocket-Key", "User-Agent", "Accept-Encoding"} {
		got.Del(name)
	}
	require.Equal(t, http.Header{
		"X-Api-Key": {"key"}, "X-Api-Account": {"11111111"}, "X-Api-Cluster": {"cluster-1"}, "X-Helm-Version": {""},
		"X-Synchronizer-Version": {"v0.0.57"}, "X-Git-Version": {"v1.36.3"}, "X-Cloud-Provider": {"aws"}, "X-Uid": {"u-1"}, "X-Synchronizer-Ping": {"50s"},
	}, got)
}

func TestAnnouncedVersion(t *testing.T) {
	for given, want := range map[string]string{
		"v0.0.140": "v0.0.140", "v1.2.3-rc.1+g": "v1.2.3-rc.1+g", "v0.0.57": "v0.0.57", "v0.0.56": "v0.0.57", "": "v0.0.57",
		"1.2.3": "v0.0.57", "invalid": "v0.0.57", "v1.2": "v0.0.57",
	} {
		require.Equal(t, want, announced(given), given)
	}
}

func TestDialErrors(t *testing.T) {
	for name, test := range map[string]struct {
		code   int
		header http.Header
		body   string
		is     error
		says   []string
	}{
		"401":              {401, nil, "no", synchronizer.ErrUnauthorized, []string{"check account, access key", `"no"`}},
		"424":              {424, nil, "need\n v9", synchronizer.ErrUnsupportedVersion, []string{`"need v9"`, "update this client"}},
		"503":              {503, nil, "", nil, []string{"HTTP 503"}},
		"redirect":         {302, http.Header{"Location": {"https://other"}}, "", nil, []string{"redirects to", "https://other"}},
		"502 of a balance": {502, nil, "<html>\x1b[2J", nil, []string{"HTTP 502", `\x1b`}},
		"200":              {200, nil, "hello", nil, []string{"check that the URL"}},
		"an echo":          {404, nil, "X-Api-Key: s3cr3t, Host: x", nil, []string{"X-Api-Key: [access key], Host"}},
		"an echo, cut":     {404, nil, strings.Repeat("x", maxRefusalText-3) + "s3cr3t", nil, []string{"xxx[ac"}},
		"an echo of 401":   {401, nil, "no such key: s3cr3t", synchronizer.ErrUnauthorized, []string{"no such key: [access key]"}},
		"an echo, as URL":  {302, http.Header{"Location": {"https://other/?k=s3cr3t"}}, "", nil, []string{"https://other/?k=[access key]"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), test.header)
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			d := testDialer(server, linktest.Setup{})
			d.AccessKey = "s3cr3t"
			_, err := d.Dial(t.Context())
			require.Error(t, err)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			for _, say := range append(test.says, server.URL) {
				require.ErrorContains(t, err, say)
			}
			require.NotContains(t, err.Error(), "s3c")
		})
	}
	t.Run("retry later", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			Refuse(w, &synchronizer.RetryAfterError{After: 7 * time.Second, Err: synchronizer.ErrClosed})
		}))
		defer server.Close()
		_, err := testDialer(server, linktest.Setup{}).Dial(t.Context())
		var later *synchronizer.RetryAfterError
		require.ErrorAs(t, err, &later)
		require.Equal(t, 7*time.Second, later.After)
	})
	t.Run("no server", func(t *testing.T) {
		_, err := (&Dialer{URL: "ws://user:pass@127.0.0.1:1/x"}).Dial(t.Context())
		require.ErrorContains(t, err, "connecting to ws://user:xxxxx@127.0.0.1:1/x")
		require.NotContains(t, err.Error(), "pass@")
	})
	for _, bad := range []string{"", "host:80", "ftp://x", "://", "wss://user:pass%@host", "wss:user:pass@host"} {
		_, err := (&Dialer{URL: bad}).Dial(t.Context())
		require.ErrorIs(t, err, synchronizer.ErrInvalid, bad)
		require.NotContains(t, err.Error(), "pass")
	}
}

func TestDialWithCAFile(t *testing.T) {
	server, links := testServer(t, linktest.Setup{}, func(s *httptest.Server) { s.StartTLS() })
	server.Config.ErrorLog = nil
	d := testDialer(server, linktest.Setup{})
	d.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	_, err := d.Dial(t.Context())
	require.ErrorContains(t, err, "reading the server's CA")
	require.NoError(t, os.WriteFile(d.CAFile, []byte("nothing"), 0o600))
	_, err = d.Dial(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.NoError(t, os.WriteFile(d.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	use(t, d, links)
}

// use connects and sends a message in each direction.
func use(t *testing.T, d *Dialer, links <-chan synchronizer.Link) {
	t.Helper()
	client, err := d.Dial(t.Context())
	require.NoError(t, err)
	server := <-links
	require.NoError(t, client.Send(t.Context(), linktest.Checksum("up")))
	m, err := server.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, "up", m.Name)
	require.NoError(t, server.Send(t.Context(), linktest.Checksum("down")))
	m, err = client.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, "down", m.Name)
	go func() { _ = client.Close(1000, "") }()
	_, err = server.Receive(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrDisconnected)
	require.NoError(t, server.Close(1000, ""))
	require.NoError(t, client.Close(1000, ""))
}
