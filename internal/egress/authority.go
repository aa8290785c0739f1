package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// authority makes the certificates that one run's programs are shown. One key serves
// for all of them.
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

// certificate returns one for a host, of which there are as many as the grant names.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.made[host]; c != nil {
		return c, nil
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host[:min(len(host), 64)]},
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
	const most = 1000 // a wildcard names any number
	if len(a.made) >= most {
		clear(a.made)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.ca.Certificate[0]}, PrivateKey: a.key}
	a.made[host] = c
	return c, nil
}
