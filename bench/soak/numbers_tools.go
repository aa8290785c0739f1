package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// toolProgram imports matplotlib and calls tools, one after the other and together.
// It plots if it is told so, with what another interpreter may have opened.
const toolProgram = `import matplotlib.pyplot as plt
one = await add(x=1)
more = await asyncio.gather(*[add(x=one + i) for i in range(4)])
if %d:
    plt.plot(more)
    plt.title("more")
    plt.savefig("plot.png")
print(one, more)
`

const (
	toolClients = 3
	toolRound   = 50                     // programs of each client, and then a pause
	toolPause   = 300 * time.Millisecond // in which sandboxes are made that have plotted
	toolLimit   = 20 * time.Second
)

// measureTools runs programs that import matplotlib and call tools.
func measureTools(ctx context.Context, o options) (figure, error) {
	runs := cmp.Or(o.runs, 20_000)
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		var (
			mu    sync.Mutex
			times lab.Sample
			bad   []error
		)
		for begun := 0; begun < runs && ctx.Err() == nil; {
			var clients sync.WaitGroup
			for range toolClients {
				count := min(toolRound, runs-begun)
				begun += count
				clients.Go(func() {
					for i := range count {
						began := time.Now()
						err := s.callTools(ctx, who.key, max(0, 1-i%10))
						mu.Lock()
						times = append(times, time.Since(began))
						if err != nil {
							bad = append(bad, err)
						}
						mu.Unlock()
					}
				})
			}
			clients.Wait()
			pause := time.NewTimer(toolPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		f := figure{found: fmt.Sprintf("%d of %d hung or failed; p50 %v, p99 %v, the longest %v", len(bad), len(times),
			times.At(50).Round(time.Millisecond), times.At(99).Round(time.Millisecond),
			times.At(100).Round(time.Millisecond)), over: len(bad) > 0}
		return f, errors.Join(append(bad[:min(len(bad), 3)], ctx.Err())...)
	})
}

// callTools runs one program, which leaves one plot or none, to its end, and answers its calls.
func (s *service) callTools(ctx context.Context, key string, plots int) error {
	code := fmt.Sprintf(toolProgram, plots)
	request := map[string]any{"code": code, "tools": json.RawMessage(
		`[{"name":"add","parameters":{"properties":{"x":{}},"required":["x"]}}]`), "timeout": toolLimit.Milliseconds()}
	for {
		var answer struct {
			Status, Stdout, Stderr string
			Token                  string `json:"continuation_token"`
			Calls                  []struct {
				ID    string
				Input struct{ X int }
			} `json:"tool_calls"`
			Files []json.RawMessage
		}
		if err := s.call(ctx, key, request, &answer); err != nil {
			return err
		}
		if answer.Status != "tool_call_required" {
			if answer.Status != "completed" || answer.Stdout != "2 [3, 4, 5, 6]\n" ||
				len(answer.Files) != plots {
				return fmt.Errorf("a program that calls tools: %+v", answer)
			}
			return nil
		}
		var results []map[string]any
		for _, c := range answer.Calls {
			results = append(results, map[string]any{"call_id": c.ID, "result": c.Input.X + 1})
		}
		request = map[string]any{"continuation_token": answer.Token, "tool_results": results}
	}
}

// call sends one request of a program that calls tools.
func (s *service) call(ctx context.Context, key string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	text, err := s.do(ctx, http.MethodPost, "/librechat/exec/programmatic", key, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), answer)
}
