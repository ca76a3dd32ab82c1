// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs are files in PEM, for a server on 127.0.0.1 or localhost and its client.
type Certs struct {
	CA                    string // signed all but OtherCA
	ServerCert, ServerKey string
	ServerPEM             string // key (PKCS#8), then certificate: the form of Java's stores
	ClientCert, ClientKey string
	OtherCA               string // unrelated
	OtherCert, OtherKey   string // a client's, signed by OtherCA
}

const certLife = 24 * time.Hour

// MakeCerts writes them into a folder.
func MakeCerts(dir string) (Certs, error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	c := Certs{
		CA: file("ca.pem"), ServerCert: file("server.crt"), ServerKey: file("server.key"), ServerPEM: file("server.pem"),
		ClientCert: file("client.crt"), ClientKey: file("client.key"),
		OtherCA: file("other-ca.pem"), OtherCert: file("other.crt"), OtherKey: file("other.key"),
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Certs{}, fmt.Errorf("making folder for certificates: %w", err)
	}
	w := &certWriter{}
	ca := w.authority("test brokers", c.CA)
	serverCert, serverKey := w.leaf(ca, "localhost", c.ServerCert, c.ServerKey)
	w.file(c.ServerPEM, append(serverKey, serverCert...))
	w.leaf(ca, "client", c.ClientCert, c.ClientKey)
	w.leaf(w.authority("somebody else", c.OtherCA), "other", c.OtherCert, c.OtherKey)
	if w.err != nil {
		return Certs{}, fmt.Errorf("making certificates: %w", w.err)
	}
	return c, nil
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certWriter keeps the first error; after it nothing is done.
type certWriter struct {
	err    error
	serial int64
}

func (w *certWriter) template(name string) *x509.Certificate {
	w.serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(w.serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certLife),
	}
}

func (w *certWriter) authority(name, path string) authority {
	t := w.template(name)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	key := w.key()
	if w.err != nil {
		return authority{}
	}
	self := authority{t, key}
	w.sign(self, t, key, path)
	return self
}

func (w *certWriter) leaf(ca authority, name, certPath, keyPath string) (cert, key []byte) {
	t := w.template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.IPAddresses, t.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	own := w.key()
	if w.err != nil {
		return nil, nil
	}
	cert = w.sign(ca, t, own, certPath)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		w.err = err
		return nil, nil
	}
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	w.file(keyPath, key)
	return cert, key
}

func (w *certWriter) key() *ecdsa.PrivateKey {
	if w.err != nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.err = err
	return key
}

func (w *certWriter) sign(ca authority, t *x509.Certificate, key *ecdsa.PrivateKey, path string) []byte {
	if w.err != nil {
		return nil
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		w.err = err
		return nil
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.file(path, cert)
	return cert
}

func (w *certWriter) file(path string, text []byte) {
	if w.err == nil {
		w.err = os.WriteFile(path, text, 0o600)
	}
}
