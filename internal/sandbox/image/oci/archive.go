package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
)

// archive are the files in a tar archive, of which only the positions are kept.
type archive struct {
	file  *os.File
	files map[string]span
}

type span struct {
	at, size int64
	link     string // of a file that is stored under another name
}

// maxArchiveFiles bounds the files of an archive, of which an image has a few for each layer.
const maxArchiveFiles = 10_000

// openArchive reads the names of an archive's files. A compressed one is first written to the
// folder work, since its files cannot be reached otherwise. The archive closes the file.
func (s *Store) openArchive(ctx context.Context, file *os.File, work string) (*archive, error) {
	plain, end, err := decompress(bufio.NewReader(file))
	if err != nil {
		return nil, damaged(err)
	}
	defer end()
	if _, raw := plain.(*bufio.Reader); !raw {
		unpacked, err := os.Create(filepath.Join(work, "archive.tar"))
		if err != nil {
			return nil, err
		}
		limited := &measured{Reader: plain, ctx: ctx, limit: func(n int64) error {
			if n > 2*s.Limits.Bytes {
				return tooLarge(s.Limits)
			}
			return s.room(0)
		}}
		if _, err := io.Copy(unpacked, limited); err != nil {
			unpacked.Close()
			return nil, damaged(err)
		}
		file.Close()
		file = unpacked
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	a := &archive{file: file, files: map[string]span{}}
	counted := &position{file: file}
	reader := tar.NewReader(counted)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, refuse(engine.ErrForbidden, "fetch or make the archive again",
				"the archive is cut off or damaged: %w", err)
		}
		name := path.Clean(strings.TrimLeft(header.Name, "/"))
		switch header.Typeflag {
		case tar.TypeReg:
			a.files[name] = span{at: counted.at, size: header.Size}
		case tar.TypeSymlink:
			a.files[name] = span{link: path.Join(path.Dir(name), header.Linkname)}
		case tar.TypeLink:
			a.files[name] = span{link: path.Clean(header.Linkname)}
		}
		if len(a.files) > maxArchiveFiles {
			return nil, refuse(engine.ErrTooLarge, "", "the archive has more than %d files", maxArchiveFiles)
		}
	}
}

// position reads a file and knows where it is. Reading an archive seeks over what is in its files.
type position struct {
	file *os.File
	at   int64
}

func (p *position) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	p.at += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (p *position) Seek(offset int64, whence int) (at int64, err error) {
	p.at, err = p.file.Seek(offset, whence)
	return p.at, err
}

// Open implements blobs.
func (a *archive) Open(name string) (io.ReadCloser, int64, error) {
	found, ok := a.files[path.Clean(name)]
	if ok && found.link != "" { // older Docker stores equal layers once
		found, ok = a.files[found.link]
	}
	if !ok || found.link != "" {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(a.file, found.at, found.size)), found.size, nil
}

// Close implements blobs.
func (a *archive) Close() error { return a.file.Close() }

// openDocker opens an image that docker save wrote.
func openDocker(b blobs, from source) (_ *opened, err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	content, err := document(b, "manifest.json")
	if err != nil {
		return nil, err
	}
	var all []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, unreadable("manifest.json", err)
	}
	var tags []string
	chosen := -1
	for i, m := range all {
		tags = append(tags, m.RepoTags...)
		if from.tag != "" && slices.ContainsFunc(m.RepoTags, func(t string) bool {
			return t == from.tag || t == from.tag+":latest" || strings.HasSuffix(t, ":"+from.tag)
		}) {
			chosen = i
		}
	}
	switch {
	case len(all) == 1 && from.tag == "":
		chosen = 0
	case len(all) > 1 && from.tag == "":
		return nil, refuse(engine.ErrInvalid, "add one of them, with :TAG after the file",
			"there are several images in it: %.200s", strings.Join(tags, ", "))
	case chosen < 0:
		return nil, refuse(engine.ErrNotFound, "", "it has no image %.100q, but %.200s", from.tag, strings.Join(tags, ", "))
	}
	content, err = document(b, all[chosen].Config)
	if err != nil {
		return nil, err
	}
	// Such an image has no manifest. Its configuration names the digests of its layers.
	id, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	o := &opened{id: imageID(id), close: func() { b.Close() }}
	for _, name := range all[chosen].Layers {
		file, size, err := b.Open(name)
		if err != nil {
			return nil, refuse(engine.ErrForbidden, "make the archive again", "%.100q is missing in it", name)
		}
		file.Close()
		o.layers = append(o.layers, &layer{size: size, open: func(context.Context) (io.ReadCloser, error) {
			file, _, err := b.Open(name)
			return file, err
		}})
	}
	return o, o.configure(content, from)
}

// saveFromDaemon writes an image of the Docker daemon to a file in the folder work.
func (s *Store) saveFromDaemon(ctx context.Context, from source, work string) (*os.File, error) {
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", s.Docker) }
	client := outbound.Guard(http.Client{Transport: &http.Transport{DialContext: dial,
		ResponseHeaderTimeout: 5 * time.Minute}})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://docker/images/get?names="+url.QueryEscape(from.path), nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, refuse(engine.ErrUnavailable, "is Docker running, and may this user use its socket?",
			"the Docker daemon does not answer on %s: %w", s.Docker, errors.Unwrap(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, refuse(engine.ErrNotFound, "`docker images` lists them",
			"the Docker daemon does not give %.100q out: %s", from.path, response.Status)
	}
	file, err := os.Create(filepath.Join(work, "daemon.tar"))
	if err != nil {
		return nil, err
	}
	limited := &measured{Reader: response.Body, ctx: ctx, limit: func(n int64) error {
		if n > 2*s.Limits.Bytes {
			return tooLarge(s.Limits)
		}
		return s.room(0)
	}, progress: func(n int64) { s.progress("fetch", from.path, n, 0) }}
	if _, err := io.Copy(file, limited); err != nil {
		file.Close()
		return nil, damaged(err)
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}
