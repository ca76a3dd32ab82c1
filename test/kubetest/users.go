// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// UserKubeconfig returns the path of a kubeconfig for a user with a client
// certificate and exactly the rights of rules (and those that every
// authenticated user has, and those of groups).
func (c *Cluster) UserKubeconfig(ctx context.Context, name string, groups []string, rules ...PolicyRule) (string, error) {
	if err := c.Grant(ctx, Subject{Name: name}, rules...); err != nil {
		return "", err
	}
	cert, key, err := c.signClient(name, groups)
	if err != nil {
		return "", fmt.Errorf("making certificate of user %s: %w", name, err)
	}
	return c.writeKubeconfig(name, c.URL, clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// TokenKubeconfig returns the path of a kubeconfig that uses token, such as one
// of ServiceAccountToken. The file is called after name.
func (c *Cluster) TokenKubeconfig(name, token string) (string, error) {
	return c.writeKubeconfig(name, c.URL, clientcmdapi.AuthInfo{Token: token})
}

// KubeconfigVia returns the path of an administrator's kubeconfig that connects
// to address (host:port on 127.0.0.1 or localhost) instead of the API server's
// own: that of a proxy, for network faults.
func (c *Cluster) KubeconfigVia(address string) (string, error) {
	return c.writeKubeconfig("via-"+filepath.Base(address), "https://"+address, clientcmdapi.AuthInfo{Token: c.config.BearerToken})
}

func (c *Cluster) writeKubeconfig(name, url string, user clientcmdapi.AuthInfo) (string, error) {
	const entry = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[entry] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: c.config.CAData}
	config.AuthInfos[entry] = &user
	config.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry}
	config.CurrentContext = entry
	path := filepath.Join(c.Dir, "kubeconfig-"+name)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// ServiceAccountToken creates the service account if it is missing and returns
// a token for it. An empty audience means the API server itself. The API server
// refuses a ttl below 10 minutes.
func (c *Cluster) ServiceAccountToken(ctx context.Context, namespace, name, audience string, ttl time.Duration) (string, error) {
	if err := c.CreateNamespace(ctx, namespace); err != nil {
		return "", err
	}
	account := fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":%q}}`, namespace, name)
	if err := c.Apply(ctx, account); err != nil {
		return "", err
	}
	spec := map[string]any{"expirationSeconds": int64(ttl / time.Second)}
	if audience != "" {
		spec["audiences"] = []string{audience}
	}
	var answer struct{ Status struct{ Token string } }
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	err := c.post(ctx, path, map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
	}, &answer)
	if err != nil {
		return "", fmt.Errorf("requesting token of service account %s/%s: %w", namespace, name, err)
	}
	return answer.Status.Token, nil
}

// signClient returns a certificate for a user, signed by the cluster's
// authority, and its key, both as PEM.
func (c *Cluster) signClient(name string, groups []string) (cert, key []byte, err error) {
	authority, err := tls.LoadX509KeyPair(filepath.Join(c.Dir, "ca.crt"), filepath.Join(c.Dir, "ca.key"))
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, authority.Leaf, private.Public(), authority.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}
