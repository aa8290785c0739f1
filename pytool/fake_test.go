package pytool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/pytool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is an application's file store.
type store struct {
	mu    sync.Mutex
	files map[string][]byte
	types map[string]string
	opens int
	saved int
	fault error
}

func newStore(contents map[string]string) *store {
	s := &store{files: map[string][]byte{}, types: map[string]string{}}
	for id, content := range contents {
		s.files[id] = []byte(content)
	}
	return s
}

func (s *store) Open(_ context.Context, id string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens++
	content, ok := s.files[id]
	if !ok {
		return nil, errors.New("no such file")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (s *store) Save(_ context.Context, name, mimeType string, content io.Reader) (string, error) {
	text, err := io.ReadAll(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return "", s.fault
	}
	s.saved++
	id := fmt.Sprintf("saved-%d", s.saved)
	s.files[id], s.types[name] = text, mimeType
	return id, err
}

func (s *store) Link(id string) string { return "https://chat.example/api/chat/file/" + id }

// runner is a service in memory, whose scripts are Go functions.
type runner struct {
	mu       sync.Mutex
	health   pytool.Health
	asked    int
	files    map[string]string // name of each kept file, by id
	uploads  []string
	deleted  []string
	requests []pytool.Request
	refuse   map[string]error // uploads that fail, by name
	script   func(req pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error)
}

func newRunner(script func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error)) *runner {
	return &runner{health: pytool.Health{Connected: true, Version: "0.4.7"}, files: map[string]string{},
		refuse: map[string]error{}, script: script}
}

func (r *runner) Health(context.Context) pytool.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.health
}

func (r *runner) Upload(_ context.Context, name string, size int64, content io.Reader) (string, error) {
	text, err := io.ReadAll(content)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && int64(len(text)) != size {
		err = errors.New("the size is wrong")
	}
	if err == nil {
		err = r.refuse[name]
	}
	if err != nil {
		return "", err
	}
	r.uploads = append(r.uploads, name)
	id := fmt.Sprintf("up-%d", len(r.uploads))
	r.files[id] = name
	return id, nil
}

func (r *runner) Execute(
	_ context.Context, req pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	for _, f := range req.Files {
		if _, kept := r.files[f.ID]; !kept {
			r.mu.Unlock()
			return pytool.Outcome{}, pytool.ErrFileGone
		}
	}
	r.mu.Unlock()
	if r.script == nil {
		return exit(0), nil
	}
	return r.script(req, output)
}

func (r *runner) Download(_ context.Context, id string) (io.ReadCloser, error) {
	if id == "lost" {
		return nil, errors.New("it is gone")
	}
	return io.NopCloser(bytes.NewReader([]byte("content of " + id))), nil
}

func (r *runner) Delete(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted = append(r.deleted, id)
	return nil
}

func exit(code int, files ...pytool.OutputFile) pytool.Outcome {
	return pytool.Outcome{ExitCode: &code, Files: files}
}
