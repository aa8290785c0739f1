package bucket

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/airlock-run/airlock/internal/outbound"
)

// Address is the location of a bucket.
type Address struct {
	Bucket, Prefix string // Prefix without slashes at its ends
	Endpoint       string // host[:port]
	Secure         bool   // https
	Region         string // empty: the server is asked
	Path           bool   // the bucket is named in the path, not in the host
	CA             string // file with further authorities, in PEM
}

// ParseAddress reads s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path_style=BOOL&ca=FILE.
// Without an endpoint it is Amazon's, which wants the bucket in the host; others are
// asked with it in the path.
func ParseAddress(text string) (a Address, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return a, err
	}
	if u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return a, fmt.Errorf("%q is not s3://BUCKET/PREFIX", u.Redacted())
	}
	query := u.Query()
	for key := range query {
		if !slices.Contains([]string{"endpoint", "region", "path_style", "ca"}, key) {
			return a, fmt.Errorf("%q is none of endpoint, region, path_style and ca", key)
		}
	}
	a = Address{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: query.Get("region"), CA: query.Get("ca"),
		Endpoint: "s3.amazonaws.com", Secure: true}
	if at := query.Get("endpoint"); at != "" {
		e, err := url.Parse(at)
		if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || strings.Trim(e.Path, "/") != "" {
			return a, fmt.Errorf("the endpoint %q is not http://HOST or https://HOST", at)
		}
		a.Endpoint, a.Secure, a.Path = e.Host, e.Scheme == "https", true
	}
	switch query.Get("path_style") {
	case "":
	case "true":
		a.Path = true
	case "false":
		a.Path = false
	default:
		return a, errors.New("path_style is true or false")
	}
	return a, nil
}

// Times after which a bucket that does not answer is taken for away.
const (
	dialTime   = 5 * time.Second
	lostAfter  = 10 * time.Second
	answerTime = 60 * time.Second
)

// client returns one for a bucket, with what AWS's own tools take their credentials
// from: the variables, the files, the machine's or the pod's role.
func (a Address) client(through func(http.RoundTripper) http.RoundTripper) (*minio.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = outbound.Dialer(dialTime, lostAfter).DialContext
	transport.ResponseHeaderTimeout = answerTime
	transport.MaxIdleConnsPerHost = 64
	transport.DisableCompression = true // of bytes that are compared with their digest
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, err
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", a.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	style := minio.BucketLookupDNS
	if a.Path {
		style = minio.BucketLookupPath
	}
	return minio.New(a.Endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{Client: outbound.Guard(http.Client{Transport: transport})},
		}),
		Secure: a.Secure, Region: a.Region, BucketLookup: style, Transport: through(transport), MaxRetries: 3,
	})
}
