package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Protocol is what the Jupyter protocol costs, over the socket that JupyterLab uses.
type Protocol struct {
	Native Summary `json:"native"` // 1+1 in a live session, natively, in turn with
	Kernel Summary `json:"kernel"` // an execute_request, up to the reply and idle
	Left   int     `json:"left"`   // kernels, after kernelsMade were made and deleted
	Made   float64 `json:"made_s"` // that this took
}

// kernelsMade are made and deleted.
const kernelsMade = 1000

func (b *bench) measureJupyter(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	native := chatClient{"http://" + b.warm.address}
	session, err := native.newSession(ctx, map[string]any{"kind": "live"})
	if err != nil {
		return err
	}
	ours := &server{address: b.warm.address + "/jupyter"}
	k, err := ours.startKernel(ctx)
	if err != nil {
		return err
	}
	defer k.close()
	times := [2]sample{}
	ways := []func() (time.Duration, error){func() (time.Duration, error) {
		took, answer, err := native.post(ctx, "/api/v1/sessions/"+session+"/cells", map[string]any{"code": sumCode})
		if err == nil && !bytes.Contains(answer, []byte(`"status":"ok"`)) {
			err = fmt.Errorf("the cell: %s", answer)
		}
		return took, err
	}, func() (time.Duration, error) {
		began := time.Now()
		err := k.run(ctx, sumCode, "execute_result")
		return time.Since(began), err
	}}
	for i := range b.plan.stages + 1 {
		for way, call := range ways {
			pause(ctx, rest)
			took, err := call()
			if err != nil {
				return err
			}
			if i > 0 { // the first was for nothing
				times[way] = append(times[way], took)
			}
		}
	}
	r := &Protocol{Native: times[0].summary(), Kernel: times[1].summary()}
	began := time.Now()
	for range kernelsMade {
		if err := makeKernel(ctx, "http://"+ours.address+"/api/kernels"); err != nil {
			return err
		}
	}
	r.Made = time.Since(began).Seconds()
	var left []any
	resp, err := http.Get("http://" + ours.address + "/api/kernels")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&left); err != nil {
		return err
	}
	r.Left = len(left) - 1 // the one that was measured
	b.results.Jupyter = r
	fmt.Fprintf(b.progress,
		"   execute_request %.2f ms, natively %.2f ms; %d kernels made and deleted in %.1f s, %d left\n",
		r.Kernel.P50, r.Native.P50, kernelsMade, r.Made, r.Left)
	return ctx.Err()
}

// makeKernel makes a kernel and deletes it.
func makeKernel(ctx context.Context, kernels string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := http.Post(kernels, "application/json", strings.NewReader(`{"name":"python3"}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, kernels+"/"+made.ID, http.NoBody)
	if err != nil {
		return err
	}
	gone, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer gone.Body.Close()
	if gone.StatusCode != http.StatusNoContent {
		return fmt.Errorf("a kernel is deleted with %s", gone.Status)
	}
	return nil
}

func (p *Protocol) goals() []Goal {
	value := func(of func(*Protocol) float64) *float64 {
		if p == nil {
			return nil
		}
		return new(of(p))
	}
	return []Goal{
		{Name: "Jupyter: an execute_request above the native cell", Unit: "ms", Must: 0.5, Aim: 0.2,
			Measured: value(func(p *Protocol) float64 { return p.Kernel.P50 - p.Native.P50 })},
		{Name: "Jupyter: kernels left of 1,000 made and deleted", Unit: "kernels",
			Measured: value(func(p *Protocol) float64 { return float64(p.Left) })},
	}
}
