// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the context, cluster and user in the kubeconfig.
const contextName = "test"

// adminToken returns the token of the administrator in dir's token file, which
// it makes if there is none. The file's path is the second result.
func adminToken(dir string) (token, path string, err error) {
	path = filepath.Join(dir, "tokens.csv")
	line, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token = rand.Text()
		return token, path, writeFile(path, []byte(token+`,admin,admin,"system:masters"`+"\n"))
	}
	if err != nil {
		return "", "", err
	}
	token, _, _ = strings.Cut(string(line), ",")
	return token, path, nil
}

// waitUntilReady returns when the API server at url says that it is ready and
// has made the namespace default, which it does on its own time.
func waitUntilReady(ctx context.Context, url, token string, ca []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		for !answers(ctx, client, url+path, token) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func answers(ctx context.Context, client *http.Client, url, token string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// writeKubeconfig writes the administrator's kubeconfig for url.
func writeKubeconfig(path, url, token string, ca []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return writeFile(path, text)
}
