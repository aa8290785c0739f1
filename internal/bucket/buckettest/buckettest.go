// Package buckettest starts S3 servers of a test's own: versitygw, which `make
// versitygw` builds.
package buckettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ErrMissing says that there is no server.
var ErrMissing = errors.New("there is no versitygw: `make versitygw` builds it")

// The credentials of every server.
const (
	AccessKey = "airlock-test"
	SecretKey = "airlock-test-secret"
)

// startTime is for a server to answer; busy machines take long.
const startTime = 2 * time.Minute

// Server is a server on loopback that keeps buckets in a folder.
type Server struct {
	Address string // host:port
	dir     string
	process *exec.Cmd
}

// Start starts a server. The caller calls Stop.
func Start(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "bucket-")
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Address: l.Addr().String(), dir: dir}
	l.Close()
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// program finds the server: where the Makefile builds it, seen from any folder of the repository.
func program() (string, error) {
	here, err := os.Getwd()
	for ; err == nil && here != "/"; here = filepath.Dir(here) {
		if found, _ := filepath.Glob(filepath.Join(here, ".cache", "versitygw-*")); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", ErrMissing
}

// Resume starts the server, at first and after Pause, and waits until it answers.
func (s *Server) Resume(ctx context.Context) error {
	path, err := program()
	if err != nil {
		return err
	}
	s.process = exec.CommandContext(context.WithoutCancel(ctx), path, "--access", AccessKey, "--secret", SecretKey,
		"--port", s.Address, "--quiet", "posix", s.dir)
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	for end := time.Now().Add(startTime); ; {
		conn, err := net.Dial("tcp", s.Address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("the server is not ready: %w", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Pause ends the server and keeps its buckets.
func (s *Server) Pause() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Process.Kill()
	_ = s.process.Wait() // it was killed
	s.process = nil
	return err
}

// Stop ends the server and removes its files.
func (s *Server) Stop() error { return errors.Join(s.Pause(), os.RemoveAll(s.dir)) }

// Client returns one for the server's administrator.
func (s *Server) Client() (*minio.Client, error) {
	return minio.New(s.Address, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""),
		Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
}

// NewBucket makes an empty bucket and returns its address.
func (s *Server) NewBucket(ctx context.Context) (string, error) {
	client, err := s.Client()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("b%d", time.Now().UnixNano())
	return s.URL(name), client.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: "us-east-1"})
}

// URL returns the address of a bucket.
func (s *Server) URL(bucket string) string {
	return "s3://" + bucket + "/?" + url.Values{"endpoint": {"http://" + s.Address}, "region": {"us-east-1"}}.Encode()
}

// Name returns the bucket's name of an address.
func Name(address string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
	return name
}
