package httpd_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// programs simulates the programs of runs. A waiting program reports when it starts, and
// when it was killed.
type programs struct{ started, killed chan struct{} }

func (p programs) run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	switch spec.Code {
	case "wait":
		host.Output(engine.Stdout, []byte("waiting\n"))
		p.started <- struct{}{}
		defer func() { p.killed <- struct{}{} }()
		return sandboxtest.UntilKilled(ctx), nil
	case "copy": // the input becomes an output, in capitals
		text, err := io.ReadAll(spec.Inputs[0].File)
		if err != nil {
			return nil, err
		}
		host.Output(engine.Stderr, []byte("caf\u00e9\u2028\n"))
		out, err := sandboxtest.File("out/"+spec.Inputs[0].Path, strings.ToUpper(string(text)))
		outcome := sandboxtest.Exit(0)
		outcome.Outputs = []engine.Output{out}
		return outcome, err
	}
	return sandboxtest.Exit(3), nil
}

// service returns the whole service except the sandbox: engine, API, front door.
func service(t *testing.T) (programs, map[string]string) {
	t.Helper()
	p := programs{make(chan struct{}, 8), make(chan struct{}, 8)}
	e := enginetest.Start(t, engine.Config{}, sandboxtest.NewFake(p.run))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "airlock.sock")
	unix, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, err := httpd.New(httpd.Options{
		Listen: []net.Listener{tcp, unix}, Engine: e, Version: "test",
		Mounts: []httpd.Mount{{Prefix: "/api/v1", Handler: native.New(e, native.Options{Caller: httpd.Caller})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p, map[string]string{"tcp": "http://" + tcp.Addr().String(), "unix": "unix://" + socket}
}

func connect(t *testing.T, server, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Server: server, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestFileInFileOut(t *testing.T) {
	_, at := service(t)
	ctx, c := t.Context(), connect(t, at["tcp"], "")
	if health := must[*client.Health](t)(c.Health(ctx)); health.Status != "ok" || health.Version != "test" ||
		health.Isolation.Backend != "fake" {
		t.Errorf("health %+v", health)
	}
	session := must[*client.Session](t)(c.CreateSession(ctx, client.SessionRequest{}))
	file := must[*client.File](t)(c.Upload(ctx, "日本 notes.txt", strings.NewReader("hello"), time.Hour))
	run := must[*client.Run](t)(c.Run(ctx, client.RunRequest{
		Language: "python", Code: "copy", Session: session.ID, Files: []client.FileRef{{ID: file.ID, Path: "a.txt"}},
	}))
	if run.Status != client.StatusOK || run.Stderr != "caf\u00e9\u2028\n" || len(run.Files) != 1 ||
		run.Files[0].Path != "out/a.txt" || run.Files[0].Run != run.ID {
		t.Fatalf("run %+v", run)
	}
	var out strings.Builder
	must[*client.File](t)(c.Download(ctx, run.Files[0].ID, &out))
	if out.String() != "HELLO" {
		t.Errorf("downloaded %q", out.String())
	}
	var archive bytes.Buffer
	if err := c.Archive(ctx, session.ID, &archive); err != nil {
		t.Fatal(err)
	}
	z := must[*zip.Reader](t)(zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len())))
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if !strings.Contains(strings.Join(names, " "), "out/a.txt") {
		t.Errorf("the archive has %q", names)
	}
	var events []client.EventType
	for e, err := range c.Events(ctx, run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e.Type)
	}
	if len(events) != 2 || events[1] != client.EventResult {
		t.Errorf("events %v", events)
	}
	if run := must[*client.Run](t)(c.Run(ctx, client.RunRequest{
		Language: "python", Code: "fail"})); run.Status != client.StatusError || *run.ExitCode != 3 {
		t.Errorf("run %+v", run)
	}
	if _, err := c.Run(ctx, client.RunRequest{Language: "cobol"}); err == nil || !strings.Contains(err.Error(), "cobol") {
		t.Errorf("error %v", err)
	}
}

// TestLeaving checks over real connections that a run ends soon after its client
// disconnects.
func TestLeaving(t *testing.T) {
	p, at := service(t)
	c := connect(t, at["tcp"], "")
	req := client.RunRequest{Language: "python", Code: "wait"}
	for name, wait := range map[string]func(context.Context){
		"sync": func(ctx context.Context) { _, _ = c.Run(ctx, req) },
		"stream": func(ctx context.Context) {
			for range c.Stream(ctx, req) {
				continue
			}
		},
	} {
		ctx, leave := context.WithCancel(t.Context())
		var left time.Time
		go func() {
			<-p.started
			left = time.Now()
			leave()
		}()
		wait(ctx)
		<-p.killed
		if gone := time.Since(left); gone > 30*time.Second {
			t.Errorf("%s: the run went on for %v", name, gone)
		}
	}

	run := must[*client.Run](t)(c.Start(t.Context(), req))
	for ev, err := range c.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == client.EventOutput {
			break
		}
	}
	if now := must[*client.Run](t)(c.GetRun(t.Context(), run.ID)); now.Status != client.StatusRunning {
		t.Errorf("the run is %s after an onlooker left", now.Status)
	}
	if err := errors.Join(c.Cancel(t.Context(), run.ID), c.Cancel(t.Context(), run.ID)); err != nil {
		t.Fatal(err)
	}
	if now := must[*client.Run](t)(c.GetRun(t.Context(), run.ID)); now.Status != client.StatusCancelled {
		t.Errorf("the run is %s", now.Status)
	}
}

// TestFirstKey checks that the first key, made through the unix socket, ends the access
// without a key on loopback, and that revoking it does not restore that.
func TestFirstKey(t *testing.T) {
	_, at := service(t)
	ctx := t.Context()
	open, admin := connect(t, at["tcp"], ""), connect(t, at["unix"], "")
	if _, err := open.Limits(ctx); err != nil {
		t.Fatal(err)
	}
	refused := func(err error) int {
		e, _ := errors.AsType[*client.Error](err)
		if e == nil {
			return 0
		}
		return e.Status
	}
	if _, err := open.CreateKey(ctx, client.NewKey{Owner: "eve", Admin: true}); refused(err) != http.StatusForbidden {
		t.Errorf("a caller on loopback makes keys: %v", err)
	}
	key := must[*client.Key](t)(admin.CreateKey(ctx, client.NewKey{Owner: "alice"}))
	if _, err := open.Limits(ctx); refused(err) != http.StatusUnauthorized {
		t.Errorf("without a key: %v", err)
	}
	alice := connect(t, at["tcp"], key.Token)
	file := must[*client.File](t)(alice.Upload(ctx, "a", strings.NewReader("a"), 0))
	if _, err := admin.GetFile(ctx, file.ID); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("somebody else's file: %v", err)
	}
	if err := admin.RevokeKey(ctx, key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.GetFile(ctx, file.ID); refused(err) != http.StatusUnauthorized {
		t.Errorf("with a revoked key: %v", err)
	}
	if _, err := open.Limits(ctx); refused(err) != http.StatusUnauthorized {
		t.Errorf("without a key, after it was revoked: %v", err)
	}
	if keys := must[[]client.Key](t)(admin.ListKeys(ctx)); len(keys) != 1 || keys[0].RevokedAt.IsZero() ||
		keys[0].Token != "" {
		t.Errorf("keys %+v", keys)
	}
}
