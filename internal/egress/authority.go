package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"

	"net"
	"sync"
	"time"
)

// authority makes the certificates for the programs of one run. All have the same key.
type authority struct {
	ca  tls.Certificate
	key *ecdsa.PrivateKey

	mu   sync.Mutex
	made map[string]*tls.Certificate
}

func newAuthority(certificate, key []byte) (*authority, error) {
	ca, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the authority of a run: %w", err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &authority{ca: ca, key: own, made: map[string]*tls.Certificate{}}, err
}

// certificate returns the certificate of a host that the grant names.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.made[host]; c != nil {
		return c, nil
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: host[:min(len(host), 64)]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: a.ca.Leaf.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca.Leaf, a.key.Public(), a.ca.PrivateKey)
	if err != nil {
		return nil, err
	}
	const most = 1000 // a wildcard matches any number of hosts
	if len(a.made) >= most {
		clear(a.made)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.ca.Certificate[0]}, PrivateKey: a.key}
	a.made[host] = c
	return c, nil
}
