package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A host's connection outlives a restart of the service, and tasks reach hosts through
// airlock mcp, with word of how they stand.
func TestMCPThrough(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataFolder(t, who)
	s := serve(t, who, data)
	cmd := who.command(t, nil, "mcp", "--data", data)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	go func() {
		defer close(said)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			said <- scanner.Text()
		}
	}()
	hears := func() string {
		t.Helper()
		select {
		case line := <-said:
			return line
		case <-time.After(waitTime):
			t.Fatal("no answer")
			return ""
		}
	}
	say := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	run := func(id int, code, meta string) string {
		text, _ := json.Marshal(code)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_code","arguments":{"code":%s}%s}}`, id, text, meta)
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if got := hears(); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("initialize: %s", got)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(run(2, "print(6 * 7)", ""))
	if got := hears(); !strings.Contains(got, `\n\n42\n`) {
		t.Fatalf("a call: %s", got)
	}
	s.stop()
	serve(t, who, data)
	say(run(3, "print(6 * 8)", ""))
	if got := hears(); !strings.Contains(got, `\n\n48\n`) {
		t.Fatalf("after the restart: %s", got)
	}
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	say(run(4, "import time\ntime.sleep(9)\nprint('slept')", meta))
	var task struct {
		Result struct {
			Kind string `json:"resultType"`
			ID   string `json:"taskId"`
		} `json:"result"`
	}
	if got := hears(); json.Unmarshal([]byte(got), &task) != nil || task.Result.Kind != "task" {
		t.Fatalf("a long program: %s", got)
	}
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"taskIds":[%q]}%s}}`, task.Result.ID, meta))
	for _, want := range []string{`"notifications/subscriptions/acknowledged"`, `"status":"working"`, `slept\n`, `"id":5`} {
		if got := hears(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	say(run(6, "import time\nwhile True: time.sleep(1)", ""))
	in.Close()
	for range said {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
