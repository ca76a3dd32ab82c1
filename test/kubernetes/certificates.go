// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity of every certificate here: longer than any test, and long enough for
// a folder that `make up` keeps.
const validity = 10 * 365 * 24 * time.Hour

// pair names the two files of a certificate and its private key.
type pair struct{ cert, key string }

// certificates are the files that kube-apiserver is given.
type certificates struct {
	// ca signs the serving certificate and the certificates of users; tests sign
	// more with its key.
	ca pair
	// serving is for 127.0.0.1 and localhost.
	serving pair
	// proxyCA and proxy are what an aggregated API server checks to believe
	// the user name that kube-apiserver forwards.
	proxyCA, proxy pair
	// serviceAccountKey signs and verifies tokens of service accounts.
	serviceAccountKey string
}

// makeCertificates creates what dir lacks and keeps what it has, so that
// credentials survive a restart.
func makeCertificates(dir string) (certificates, error) {
	at := func(name string) pair {
		return pair{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
	}
	c := certificates{
		ca: at("ca"), serving: at("serving"), proxyCA: at("proxy-ca"), proxy: at("proxy"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
	}
	if _, err := os.Stat(c.serviceAccountKey); err == nil {
		return c, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	authority := x509.Certificate{
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, step := range []struct {
		name       string
		to, signer pair
		template   x509.Certificate
	}{
		{"kubernetes-test-ca", c.ca, c.ca, authority},
		{"kube-apiserver", c.serving, c.ca, x509.Certificate{
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		}},
		{"kubernetes-test-proxy-ca", c.proxyCA, c.proxyCA, authority},
		{proxyName, c.proxy, c.proxyCA, x509.Certificate{
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
	} {
		step.template.Subject = pkix.Name{CommonName: step.name}
		if err := issue(step.to, step.signer, step.template); err != nil {
			return c, fmt.Errorf("making certificate %s: %w", step.name, err)
		}
	}
	// Last, because its presence says that the rest is complete.
	if _, err := newKey(c.serviceAccountKey); err != nil {
		return c, fmt.Errorf("making service account key: %w", err)
	}
	return c, nil
}

// issue writes a new key and its certificate; signer == to makes it self-signed.
func issue(to, signer pair, template x509.Certificate) error {
	key, err := newKey(to.key)
	if err != nil {
		return err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(validity)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	parent, parentKey := &template, key
	if signer != to {
		if parent, parentKey, err = load(signer); err != nil {
			return fmt.Errorf("loading signer: %w", err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), parentKey)
	if err != nil {
		return err
	}
	return writeFile(to.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func load(p pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certBytes, err := readPEM(p.cert)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certBytes)
	if err != nil {
		return nil, nil, err
	}
	keyBytes, err := readPEM(p.key)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBytes)
	return cert, key, err
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}
