package providertest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// shelf holds the files of a test server in the order of their creation.
type shelf struct {
	mu    sync.Mutex
	files []*shelved
}

// shelved is one file.
type shelved struct {
	id, name, mime   string
	purpose          string // OpenAI's
	path, source     string // in a container of OpenAI's
	data             []byte
	created, expires time.Time // expires zero: never
	made             bool      // by code of the model, not sent by a client
}

func (s *shelf) put(f *shelved) *shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
	return f
}

// get returns a file, also an expired one.
func (s *shelf) get(id string) *shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.id == id {
			return f
		}
	}
	return nil
}

func (s *shelf) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *shelved) bool { return f.id == id })
	return len(s.files) < before
}

// newest returns all files, the newest first.
func (s *shelf) newest() []*shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.files)
	slices.Reverse(all)
	return all
}

// objects names the files that exist at a time.
func (s *shelf) objects(now time.Time) (o []string) {
	for _, f := range s.newest() {
		if f.over(now) {
			continue
		}
		o = append(o, fmt.Sprintf("file %s %s", f.id, f.name))
	}
	return o
}

func (f *shelved) over(now time.Time) bool { return !f.expires.IsZero() && !now.Before(f.expires) }

// expire sets the lifetime of a file from a form field in seconds.
func (f *shelved) expire(text []byte, least, most int) error {
	seconds, err := strconv.Atoi(string(text))
	if err != nil || seconds < least || seconds > most {
		return fmt.Errorf("the lifetime must be between %d and %d", least, most)
	}
	f.expires = f.created.Add(time.Duration(seconds) * time.Second)
	return nil
}

// serve sends the content or the requested range.
func (f *shelved) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", cmp.Or(f.mime, "application/octet-stream"))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

// pageAfter returns the next page of a list after an id.
func pageAfter(all []*shelved, after string, most int) (part []*shelved, more bool) {
	start := 0
	for i, f := range all {
		if f.id == after {
			start = i + 1
		}
	}
	end := min(start+most, len(all))
	return all[start:end], end < len(all)
}
