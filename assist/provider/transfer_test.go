package provider_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
	"github.com/airlock-run/airlock/pytool"
)

var large = flag.Int64("large", 64<<20, "bytes of the large transfers")

// most is how much memory a large transfer may take, in MiB.
const most = 32

// TestLargeTransfers moves a file up and down without holding it, at each
// provider. The server is in this process: its buffers count, too.
func TestLargeTransfers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(swallow))
	defer server.Close()
	web := provider.HTTPClient(provider.HTTPOptions{})
	defer web.CloseIdleConnections()
	open := map[string]func() (provider.Provider, error){
		"openai": func() (provider.Provider, error) {
			return openai.New(openai.Options{Key: "k", URL: server.URL, HTTP: web, PartsOver: 1 << 40})
		},
		"openai in parts": func() (provider.Provider, error) {
			return openai.New(openai.Options{Key: "k", URL: server.URL, HTTP: web, PartsOver: 1})
		},
		"anthropic": func() (provider.Provider, error) {
			return anthropic.New(anthropic.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"gemini": func() (provider.Provider, error) {
			return gemini.New(gemini.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"xai": func() (provider.Provider, error) {
			return xai.New(xai.Options{Key: "k", URL: server.URL, HTTP: web})
		},
		"local": func() (provider.Provider, error) {
			return local.New(local.Options{URL: server.URL, Runner: bottomless{}, HTTP: web})
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			p, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var info provider.FileInfo
			up := watchHeap(func() {
				if info, err = p.Files().Upload(t.Context(), provider.Upload{
					Name: "big", MIME: "text/csv", Size: *large, Body: io.LimitReader(zeros{}, *large)}); err != nil {
					t.Error(err)
				}
			})
			q, err := provider.OpenQuarantine(filepath.Join(t.TempDir(), "q"))
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			c := provider.Collector{Quarantine: q, MaxBytes: 1 << 40}
			down := watchHeap(func() {
				found, err := c.Collect(t.Context(), p, nil, &provider.RunResult{
					Artifacts: []provider.Artifact{{Ref: info.Ref, Name: "big", Size: -1}}})
				if err != nil || len(found.Files) != 1 || found.Files[0].Size != *large {
					t.Errorf("%v %+v", err, found)
				}
			})
			t.Logf("%d MB up with %.1f MiB of memory more, down with %.1f MiB", *large/1e6, up, down)
			if up > most || down > most {
				t.Errorf("the limit is %d MiB", most)
			}
		})
	}
}

// swallow is a server that takes everything and hands out zeros, in the words of
// each provider.
func swallow(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Length", strconv.FormatInt(*large, 10))
		_, _ = io.CopyBuffer(w, io.LimitReader(zeros{}, *large), make([]byte, 64<<10))
		return
	}
	n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 64<<10))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("X-Goog-Upload-Command") == "start":
		w.Header().Set("X-Goog-Upload-URL", "http://x.invalid/upload")
	case strings.Contains(r.Header.Get("X-Goog-Upload-Command"), "finalize"):
		w.Header().Set("X-Goog-Upload-Status", "final")
		_, _ = io.WriteString(w, `{"file":{"name":"files/1","state":"ACTIVE"}}`)
	case r.Header.Get("Anthropic-Version") != "":
		fmt.Fprintf(w, `{"id":"file_1","type":"file","filename":"big","size_bytes":%d,"created_at":"2026-11-21T00:00:00Z"}`,
			n)
	default:
		fmt.Fprintf(w, `{"id":"file-1","object":"file","bytes":%d,"filename":"big","purpose":"user_data","file":{"id":"file-1","bytes":%d,"filename":"big"}}`, n, n)
	}
}

// bottomless is a sandbox that keeps nothing and hands out zeros.
type bottomless struct{ pytool.Runner }

func (bottomless) Upload(_ context.Context, _ string, _ int64, content io.Reader) (string, error) {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, content, make([]byte, 64<<10))
	return "1", err
}

func (bottomless) Download(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(zeros{}, *large)), nil
}

func (bottomless) Files(context.Context) iter.Seq2[provider.FileInfo, error] {
	return func(func(provider.FileInfo, error) bool) {}
}

// watchHeap returns by how many MiB the heap grew at most.
func watchHeap(do func()) float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapInuse, m.HeapInuse
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
	}()
	do()
	close(stop)
	<-done
	return float64(peak-before) / (1 << 20)
}

// TestParallel downloads eight files from a server that answers none of them before it has
// the requests for all.
func TestParallel(t *testing.T) {
	for _, open := range benches() {
		b := open.make(t)
		if caps := b.Provider.Caps(); caps.Outputs == provider.OutputStdout || b.Provider.Name() == provider.Local {
			continue // files come within the reply, or are here
		}
		t.Run(open.name, func(t *testing.T) {
			const files = 8
			var made []providertest.Made
			for i := range files {
				made = append(made, providertest.Made{Name: fmt.Sprintf("f%d.bin", i), Data: []byte(strconv.Itoa(i))})
			}
			b.Server.Script(providertest.Turn{Text: "ok", Steps: []providertest.Step{{Code: "x", Files: made}}})
			result, err := b.Provider.Run(t.Context(), provider.RunRequest{
				Model: b.Model, Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			q, err := provider.OpenQuarantine(filepath.Join(t.TempDir(), "q"))
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			b.Server.(interface{ Group(files int) }).Group(files)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			found, err := (&provider.Collector{Quarantine: q}).Collect(ctx, b.Provider, nil, result)
			if err != nil || len(found.Files) != files {
				t.Errorf("%v, %d files, failed %v: they were not requested at once", err, len(found.Files), found.Failed)
			}
		})
	}
}
