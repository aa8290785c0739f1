package main

import (
	"context"
	"fmt"
)

// measureLatency measures one request at a time, after a rest, with all contestants in
// turn.
func (b *bench) measureLatency(ctx context.Context) error {
	everybody, err := b.field(ctx)
	if err != nil {
		return err
	}
	if err := b.latency(ctx, &printing, b.plan.prints, everybody); err != nil {
		return err
	}
	everybody = append(everybody, b.resident())
	if err := b.latency(ctx, &b.plain, b.plan.plots, everybody); err != nil {
		return err
	}
	return b.latency(ctx, &b.plot, b.plan.plots, everybody)
}

func (b *bench) latency(ctx context.Context, w *workload, rounds int, everybody []contestant) error {
	times, err := takeTurns(ctx, w, rounds, everybody)
	if err != nil {
		return err
	}
	for _, one := range everybody {
		l := Latency{Workload: w.name, Contestant: one.name, Summary: times[one.name].summary()}
		b.results.Latency = append(b.results.Latency, l)
		fmt.Fprintf(b.progress, "   %-6s %-18s %9.2f ms\n", w.name, one.name, l.P50)
	}
	return nil
}

// measureFiles is what files cost.
func (b *bench) measureFiles(ctx context.Context) error {
	everybody, err := b.field(ctx)
	if err != nil {
		return err
	}
	w := copying()
	if err := b.latency(ctx, &w, b.plan.files, everybody); err != nil {
		return err
	}
	w.name = "transfer"
	if err := b.latency(ctx, &w, b.plan.files, []contestant{airlockTransfer(nameWarm, b.warm)}); err != nil {
		return err
	}
	if err := b.inputs(ctx); err != nil {
		return err
	}
	return b.outputs(ctx)
}

// inputs compares a program with a small input and the same program with one
// of 100 MiB: the difference is what staging it takes.
func (b *bench) inputs(ctx context.Context) error {
	small, large := holding(100), holding(100*mebibyte)
	var clients [2]*client
	for i, w := range []*workload{&small, &large} {
		c, err := airlock(nameWarm, b.warm).open(ctx, w)
		if err != nil {
			return err
		}
		defer c.close()
		if _, err := c.time(ctx); err != nil {
			return err
		}
		clients[i] = c
	}
	var times [2]sample
	for range b.plan.inputs {
		for i, c := range clients {
			pause(ctx, rest)
			took, err := c.time(ctx)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took)
		}
	}
	in := &Inputs{Small: times[0].summary(), Large: times[1].summary()}
	in.Staging = max(0, in.Large.P50-in.Small.P50)
	b.results.Inputs = in
	fmt.Fprintf(b.progress, "   100 MiB staged in %.2f ms\n", in.Staging)
	return nil
}
