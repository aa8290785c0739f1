package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/remote"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A worker is well while an api has it, and as long as it takes programs.
func TestWorkerHealth(t *testing.T) {
	fake := sandboxtest.NewFake(nil)
	worker := remote.NewWorker(remote.WorkerConfig{Sandbox: fake, Slots: 1, Log: slog.New(slog.DiscardHandler)})
	links := mutual.NewLinks(nil, remote.BeatHandler(remote.NewLocal(), func() {}, nil, nil))
	defer links.Close()
	api := httptest.NewServer(links)
	defer api.Close()
	transport := mutual.Transport(nil, remote.LinkPath)
	defer transport.CloseIdleConnections()
	beats := &remote.Beats{Worker: worker, Node: remote.Node{Name: "w", Slots: 1}, APIs: []string{api.URL},
		Client: &http.Client{Transport: transport}}
	handler := (&app{App: &command.App{}}).workerHealth(beats, fake)
	health := func() (h client.Health) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/health", nil))
		if err := json.NewDecoder(w.Body).Decode(&h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := health(); h.Status != "degraded" || h.Problem != "no api has taken this worker" || h.Isolation == nil {
		t.Errorf("before an api has it: %+v", h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { beats.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	late := time.After(2 * time.Minute)
	for health().Status != "ok" {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("%+v", health())
		}
	}
	if err := worker.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if h := health(); h.Status != "degraded" {
		t.Errorf("one that ends: %+v", h)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/runs", nil))
	if text, _ := io.ReadAll(w.Body); w.Code != http.StatusNotFound || !json.Valid(text) {
		t.Errorf("%d %s", w.Code, text)
	}
}
