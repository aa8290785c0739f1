package remote

import (
	"context"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// controlled is a host that passes on the controls of its program.
type controlled struct {
	sink
	controls chan engine.Controls
}

func (c *controlled) SetControls(controls engine.Controls) { c.controls <- controls }

// Interpreters that wait for cells take no room of other programs, also where no more may start than compute.
func TestIdleInterpreters(t *testing.T) {
	sandbox := sandboxtest.NewFake(func(ctx context.Context, spec *engine.Spec, h engine.Host) (*engine.Outcome, error) {
		if spec.Live {
			return sandboxtest.UntilKilled(ctx), nil
		}
		return sandboxtest.Exit(0), nil
	})
	worker, node := serve(t, sandbox, token)
	worker.admission.slots, worker.admission.seats, worker.admission.memory = 2, 2, 0
	node.Slots, node.Free = 2, 2
	at := leads(t, 11, node)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 4)
	var all []engine.Controls
	for range 4 {
		host := &controlled{controls: make(chan engine.Controls, 1)}
		go func() {
			_, err := at.Run(ctx, interpreter(t, engine.NewID(), 1, "f1"), host)
			ended <- err
		}()
		controls := <-host.controls
		if err := controls.Freeze(engine.Stop); err != nil {
			t.Fatal(err)
		}
		// A program that comes before the stop does is refused until the worker's next report, and there is none here.
		if !sandboxtest.Await(func() bool { return worker.admission.free() == 2 }) {
			t.Fatal("the stopped interpreter keeps its slot")
		}
		all = append(all, controls)
	}
	for range 8 {
		if _, err := at.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, controls := range all { // all have cells at once
		if err := controls.Freeze(engine.GoOn); err != nil {
			t.Error(err)
		}
	}
	end()
	for range all {
		<-ended
	}
	worker.runs.Wait()
	if worker.admission.seated != 0 || worker.admission.running != 0 || worker.admission.taken != 0 {
		t.Errorf("%d are seated, %d run, %d bytes are taken", worker.admission.seated, worker.admission.running,
			worker.admission.taken)
	}
}
