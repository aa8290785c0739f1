package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

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
