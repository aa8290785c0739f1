package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/airlock-run/airlock/client"
)

// service stands for an Airlock service, so that the examples run anywhere.
func service() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const run = `{"id":"BXqTkJ1mEw0vYb7RfLhZ2","language":"python","status":"ok","exit_code":0,"stdout":"42\n"}`
		if r.Header.Get("Accept") == "text/event-stream" {
			fmt.Fprint(w, "id: 1\nevent: output\ndata: {\"stream\":\"stdout\",\"data\":\"42\\n\"}\n\n")
			fmt.Fprint(w, "id: 2\nevent: result\ndata: "+run+"\n\n")
			return
		}
		io.WriteString(w, run)
	}))
}

func Example() {
	server := service()
	defer server.Close()
	c, err := client.New(client.Options{Server: server.URL, Key: "ak_..."})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	run, err := c.Run(context.Background(), client.RunRequest{Language: "python", Code: "print(6*7)"})
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Status, *run.ExitCode, strings.TrimSpace(run.Stdout))
	// Output: ok 0 42
}

func ExampleClient_Stream() {
	server := service()
	defer server.Close()
	c, err := client.New(client.Options{Server: server.URL})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	for event, err := range c.Stream(context.Background(), client.RunRequest{Language: "python", Code: "print(6*7)"}) {
		if err != nil {
			panic(err)
		}
		switch event.Type {
		case client.EventOutput:
			fmt.Fprint(os.Stdout, event.Data)
		case client.EventResult:
			fmt.Println(event.Run.Status)
		}
	}
	// Output:
	// 42
	// ok
}

// liveService stands for a service with one live session, in this process.
func liveService() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/sessions", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"s1","kind":"live","language":"python"}`)
	})
	mux.HandleFunc("POST /api/v1/sessions/s1/cells", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "id: 1\nevent: result\ndata: {\"data\":{\"text/plain\":\"42\"}}\n\n"+
			"id: 2\nevent: done\ndata: {\"status\":\"ok\",\"usage\":{\"duration_ms\":8}}\n\n")
	})
	mux.HandleFunc("DELETE /api/v1/sessions/s1", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"code":"not_found","message":"there is no such object"}}`)
	})
	return mux
}

func ExampleClient_StreamCell() {
	c := client.WithHandler(liveService(), client.Options{})
	defer c.Close()
	ctx := context.Background()

	session, err := c.CreateSession(ctx, client.SessionRequest{Kind: client.KindLive, TTL: time.Hour})
	if err != nil {
		panic(err)
	}
	defer c.DeleteSession(ctx, session.ID)
	for event, err := range c.StreamCell(ctx, session.ID, client.CellRequest{Code: "6*7", Timeout: time.Minute}) {
		if err != nil {
			panic(err)
		}
		switch event.Type {
		case client.OutputResult:
			fmt.Printf("%s\n", event.Data["text/plain"])
		case client.OutputDone:
			fmt.Println(event.Cell.Status, "in", event.Cell.Usage.Duration)
		}
	}
	// Output:
	// "42"
	// ok in 8ms
}

func ExampleCode() {
	c := client.WithHandler(liveService(), client.Options{})
	defer c.Close()

	_, err := c.GetFile(context.Background(), "f1")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output: true
}
