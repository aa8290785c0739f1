package e2b

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// texts are texts by name.
type texts = map[string]string

// metadataPrefix begins the headers of an upload whose values are kept with the file.
const metadataPrefix = "X-Metadata-"

// metadataOf returns the metadata in the headers of an upload.
func metadataOf(header http.Header) (found texts) {
	for name, values := range header {
		key, ok := strings.CutPrefix(name, metadataPrefix)
		if !ok || key == "" {
			continue
		}
		if found == nil {
			found = texts{}
		}
		found[strings.ToLower(key)] = text(values[0])
	}
	return found
}

// maxMetadata bounds the metadata of all files of a sandbox, in bytes, with their paths.
const maxMetadata = 1 << 20

// fileMetadata is what clients have stored with the files of a sandbox. E2B's envd stores it as
// extended attributes, which not every kernel has for a workspace; programs do not see it here.
type fileMetadata struct {
	mu     sync.Mutex
	byPath map[string]texts
	bytes  int
}

// canonical returns the one name of a file that several names lead to.
func canonical(at string) string {
	for _, other := range []string{"/workspace", "/mnt/data"} {
		if rest, ok := strings.CutPrefix(at+"/", other+"/"); ok {
			return strings.TrimSuffix(home+"/"+rest, "/")
		}
	}
	return at
}

func (m *fileMetadata) of(at string) texts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPath[canonical(at)]
}

func sizeOf(at string, given texts) int {
	size := 0
	for key, value := range given {
		size += len(key) + len(value)
	}
	if size > 0 {
		size += len(at)
	}
	return size
}

// fits returns an error if there is no room for the metadata of a file.
func (m *fileMetadata) fits(at string, given texts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at = canonical(at)
	if m.bytes-sizeOf(at, m.byPath[at])+sizeOf(at, given) <= maxMetadata {
		return nil
	}
	return &engine.Error{Op: "write", Kind: engine.ErrTooLarge,
		Err:  errors.New("not enough space for file metadata: the files of one sandbox may have 1 MiB"),
		Hint: "Remove files that have metadata, or write them without."}
}

// set replaces the metadata of a file.
func (m *fileMetadata) set(at string, given texts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(canonical(at), given)
}

// put is set for a canonical path. The caller holds mu.
func (m *fileMetadata) put(at string, given texts) {
	m.bytes += sizeOf(at, given) - sizeOf(at, m.byPath[at])
	switch {
	case len(given) == 0:
		delete(m.byPath, at)
	case m.byPath == nil:
		m.byPath = map[string]texts{at: given}
	default:
		m.byPath[at] = given
	}
}

// move moves the metadata of a file, or of a folder's files.
func (m *fileMetadata) move(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = canonical(from), canonical(to)
	moved := map[string]texts{}
	for at, has := range m.byPath {
		if rest, ok := strings.CutPrefix(at+"/", from+"/"); ok {
			moved[strings.TrimSuffix(to+"/"+rest, "/")] = has
			m.put(at, nil)
		}
	}
	m.drop(to)
	for at, has := range moved {
		m.put(at, has)
	}
}

// remove forgets the metadata of a file, or of a folder's files.
func (m *fileMetadata) remove(at string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(canonical(at))
}

// drop is remove for a canonical path. The caller holds mu.
func (m *fileMetadata) drop(name string) {
	for at := range m.byPath {
		if strings.HasPrefix(at+"/", name+"/") {
			m.put(at, nil)
		}
	}
}
