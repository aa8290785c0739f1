package oci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/idle"
	"github.com/airlock-run/airlock/internal/outbound"
)

const (
	registryIdle  = time.Minute // without a byte from a registry
	downloads     = 3           // at once
	fetchAttempts = 3           // of a layer
)

// registry fetches from the repository of a reference.
type registry struct {
	store  *Store
	ref    name.Reference
	puller *remote.Puller
	done   func()       // closes its connections
	next   atomic.Int64 // layer to fetch
}

func (s *Store) registry(ref name.Reference) (*registry, error) {
	host := strings.ToLower(ref.Context().RegistryStr())
	allowed := host
	if ip, err := netip.ParseAddrPort(host); err == nil && ip.Addr().Is6() {
		allowed = netip.PrefixFrom(ip.Addr(), 128).String()
	}
	// The operator names the registry. Where it leads from there must be public.
	policy, err := outbound.New([]string{allowed}, nil)
	if err != nil {
		return nil, refuse(engine.ErrInvalid, "", "%s is no address of a registry", host)
	}
	guarded := policy.Transport(&http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: registryIdle, MaxIdleConnsPerHost: downloads})
	watched := idle.Transport{Next: encrypted{guarded}, Idle: registryIdle, Answer: registryIdle}
	puller, err := remote.NewPuller(remote.WithTransport(watched), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(machine), remote.WithUserAgent("airlock"))
	return &registry{store: s, ref: ref, puller: puller, done: watched.CloseIdleConnections}, err
}

// encrypted refuses plain HTTP, but on this machine. A registry may not redirect to it, either.
type encrypted struct{ http.RoundTripper }

func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !onThisMachine(r.URL.Hostname()) {
		return nil, &plainError{r.URL.Host}
	}
	return e.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (e encrypted) CloseIdleConnections() {
	if c, ok := e.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// plainError is the error of a request that would not be encrypted.
type plainError struct{ host string }

func (e *plainError) Error() string { return "plain HTTP to " + e.host }

// openRegistry opens an image of a registry. Its layers are fetched in the background.
func (s *Store) openRegistry(ctx context.Context, from source, work string) (*opened, error) {
	r, err := s.registry(from.ref)
	if err != nil {
		return nil, err
	}
	o, layers, err := r.resolve(ctx, from)
	if err != nil {
		r.done()
		return nil, r.explain(ctx, err)
	}
	if err := o.check(s.Limits); err != nil {
		r.done()
		return nil, err
	}
	fetches := make([]*fetch, len(layers))
	for i, d := range layers {
		fetches[i] = &fetch{registry: r, digest: d.Digest, size: d.Size, work: work, done: make(chan struct{}),
			name: layerName(i, len(layers))}
		o.layers[i].open = fetches[i].open
	}
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	o.start = func() {
		for range min(downloads, len(fetches)) {
			fetching.Go(func() { r.run(ctx, fetches) })
		}
	}
	o.close = func() {
		cancel()
		fetching.Wait()
		for _, f := range fetches {
			f.file.Close() // who read it has closed it before
		}
		r.done()
	}
	return o, nil
}

// run fetches layers until none is left.
func (r *registry) run(ctx context.Context, fetches []*fetch) {
	for i := r.next.Add(1) - 1; i < int64(len(fetches)); i = r.next.Add(1) - 1 {
		f := fetches[i]
		f.err = f.run(ctx)
		close(f.done)
	}
}

// resolve asks for the manifest and the configuration of an image. Its layers cannot be opened yet.
func (r *registry) resolve(ctx context.Context, from source) (*opened, []v1.Descriptor, error) {
	found, err := r.puller.Get(ctx, from.ref)
	if err != nil {
		return nil, nil, err
	}
	digest, content, err := choose([]v1.Descriptor{{MediaType: found.MediaType, Digest: found.Digest}}, from.String(), 0,
		func(d v1.Hash) ([]byte, error) {
			if d == found.Digest {
				return found.Manifest, nil
			}
			inner, err := r.puller.Get(ctx, from.ref.Context().Digest(d.String()))
			if err != nil {
				return nil, err
			}
			return inner.Manifest, nil
		})
	if err != nil {
		return nil, nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return nil, nil, unreadable("its manifest", err)
	}
	config, err := r.blob(ctx, manifest.Config.Digest)
	if err != nil {
		return nil, nil, err
	}
	defer config.Close()
	if content, err = io.ReadAll(io.LimitReader(config, maxDocument)); err != nil {
		return nil, nil, err
	}
	o := &opened{id: imageID(digest), close: func() {}, remote: true}
	for _, d := range manifest.Layers {
		o.layers = append(o.layers, &layer{digest: d.Digest, size: d.Size})
	}
	return o, manifest.Layers, o.configure(content, from)
}

// blob opens a blob, whose reader compares it with its digest.
func (r *registry) blob(ctx context.Context, d v1.Hash) (io.ReadCloser, error) {
	blob, err := r.puller.Layer(ctx, r.ref.Context().Digest(d.String()))
	if err != nil {
		return nil, err
	}
	return blob.Compressed()
}

// fetch is the download of a layer.
type fetch struct {
	registry *registry
	digest   v1.Hash
	size     int64
	name     string
	work     string

	done chan struct{}
	err  error
	file *os.File // after done
}

// open returns the file of the layer, once it is there.
func (f *fetch) open(ctx context.Context) (io.ReadCloser, error) {
	select {
	case <-f.done:
		return f.file, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run fetches the layer, unless an earlier add has.
func (f *fetch) run(ctx context.Context) (err error) {
	path := f.registry.store.layerPath(f.digest)
	if file, err := os.Open(path); err == nil {
		f.file = file
		return nil
	}
	for attempt := 1; ; attempt++ {
		part := filepath.Join(f.work, f.digest.Hex)
		if err = f.download(ctx, part); err == nil {
			if f.file, err = os.Open(part); err == nil {
				err = os.Rename(part, path)
			}
			return err
		}
		if attempt == fetchAttempts || !transient(err) || ctx.Err() != nil {
			return f.registry.explain(ctx, err)
		}
	}
}

// transient reports whether a download that failed is worth another attempt.
func transient(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, idle.Err)
}

func (f *fetch) download(ctx context.Context, part string) (err error) {
	body, err := f.registry.blob(ctx, f.digest)
	if err != nil {
		return err
	}
	defer body.Close()
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	store := f.registry.store
	counted := &measured{Reader: body, ctx: ctx, progress: func(n int64) { store.progress("fetch", f.name, n, f.size) },
		limit: func(n int64) error {
			if n > f.size {
				return refuse(engine.ErrForbidden, "", "it is larger than the image says")
			}
			return store.room(0)
		}}
	if _, err = io.CopyBuffer(struct{ io.Writer }{file}, counted, make([]byte, 256<<10)); err != nil {
		return err
	}
	return file.Sync() // it is trusted by its name from now on
}

// explain puts an error of a registry in words, without addresses that may hold secrets.
func (r *registry) explain(ctx context.Context, err error) error {
	host := r.ref.Context().RegistryStr()
	if known, ok := errors.AsType[*engine.Error](err); ok {
		return known
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*outbound.RefusedError](err); ok {
		return refuse(engine.ErrForbidden, "a registry may lead to public addresses and to its own only; let it serve its "+
			"layers itself", "the registry %s leads to %s (%s), which is not a public address", host, e.Host, e.IP)
	}
	if e, ok := errors.AsType[*plainError](err); ok {
		return refuse(engine.ErrForbidden, "give the registry a certificate", "%s would be asked without encryption, which "+
			"is for this machine alone", e.host)
	}
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return r.explainStatus(host, e)
	}
	if e, ok := errors.AsType[*url.Error](err); ok { // whose text has the address
		return refuse(engine.ErrUnavailable, "check its name, and the network (behind a proxy set HTTPS_PROXY)",
			"the registry %s cannot be reached: %w", host, e.Err)
	}
	return refuse(kindOr(err, engine.ErrUnavailable), "add the image again: whole layers are kept for a day",
		"the registry %s did not deliver: %w", host, err)
}

func (r *registry) explainStatus(host string, e *transport.Error) error {
	what := r.ref.Context().RepositoryStr() + " " + r.ref.Identifier()
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return refuse(engine.ErrForbidden, "`docker login "+host+"` as this user keeps credentials, which are used then; check "+
			"the name, too", "the registry %s gives %s to nobody without the right credentials", host, what)
	case http.StatusNotFound:
		return refuse(engine.ErrNotFound, "check the name and the tag", "the registry %s has no %s", host, what)
	case http.StatusTooManyRequests:
		return refuse(engine.ErrUnavailable, "wait, or use `docker login "+host+"`: known users may fetch more",
			"the registry %s has had too many requests from here", host)
	}
	return refuse(engine.ErrUnavailable, "try again later", "the registry %s answers with status %d", host, e.StatusCode)
}
