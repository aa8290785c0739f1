package live

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// offer is a host of one module, whose calls do what they are called.
type offer struct {
	pause   time.Duration // how long an answer takes
	called  atomic.Int64
	entered chan struct{} // gets an entry when a call waits
	left    chan struct{} // gets one when that call's context ends
}

func (o *offer) Modules() []string { return []string{"offered"} }

func (o *offer) Call(ctx context.Context, name string, input json.RawMessage, pause func(bool)) (json.RawMessage, error) {
	switch o.called.Add(1); name {
	case "module":
		return json.Marshal("def do(name, value=None):\n    return call(name, value)\n")
	case "echo":
		return input, nil
	case "fail":
		return nil, errors.New("it cannot be done")
	case "ask":
		pause(true)
		defer pause(false)
		<-time.After(o.pause)
		return []byte(`"agreed"`), nil
	}
	o.entered <- struct{}{}
	<-ctx.Done()
	o.left <- struct{}{}
	return nil, ctx.Err()
}

// A cell calls the functions of its host from its main thread, from other threads, and
// from coroutines. It gets their errors, and waiting for an answer takes none of its time.
func TestHost(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	o := &offer{entered: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	run := func(code string) Cell {
		return p.runCell(s, CellRequest{Code: code, Host: o, Timeout: 30 * time.Second})
	}
	checkCell(t, p.want(run("import offered\nprint(offered.do('echo', {'a': [1, 'ü']}))"), StatusOK),
		facts{Stdout: "{'a': [1, 'ü']}\n"})
	const threads = `
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda i: offered.do('echo', i), range(100))))
import asyncio
print(sum(await asyncio.gather(*[asyncio.to_thread(offered.do, 'echo', i) for i in range(100)])))`
	checkCell(t, p.want(run(threads), StatusOK), facts{Stdout: "4950\n4950\n"})
	checkCell(t, p.want(run("offered.do('fail')"), StatusError),
		facts{Error: "RuntimeError", Value: "it cannot be done"})
	// On a busy machine the cell itself may take longer than its limit.
	var c Cell
	for limit := 200 * time.Millisecond; limit < 10*time.Second && c.Status != StatusOK; limit *= 4 {
		o.pause = 2 * limit
		c = p.runCell(s, CellRequest{Code: "print(offered.do('ask'))", Host: o, Timeout: limit})
	}
	checkCell(t, p.want(c, StatusOK), facts{Stdout: "agreed\n"})
	checkCell(t, p.want(run("print(len(offered.do('echo', 'x' * (1 << 20))))"), StatusOK), facts{Stdout: "1048576\n"})
	c = p.begin(s, CellRequest{Code: "print('begun', flush=True)\noffered.do('wait')", Host: o, Grace: graceOf(false)})
	<-o.entered // an interrupt before that would meet no call
	if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	c = p.want(p.end(s, c.ID), StatusInterrupted)
	checkCell(t, c, facts{Error: "KeyboardInterrupt"})
	<-o.left
	checkCell(t, p.want(p.run(s, "offered.do('echo', 1)"), StatusError),
		facts{Value: "nothing is offered to this cell from outside"}, "without a host")
	checkCell(t, p.want(p.run(s, "del __import__('sys').modules['offered']\nimport offered"), StatusError),
		facts{Error: "ModuleNotFoundError"}, "without a host")
}
