package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// limitsPath is an address that passes all of httpd without work for the engine: it shows the
// cost of HTTP.
const limitsPath = "/api/v1/limits"

// measureStages measures the parts of the time of one print(1): those in the Server-Timing
// header of the service, and the rest by subtraction.
func (b *bench) measureStages(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	c, err := dial(b.warm.address)
	if err != nil {
		return err
	}
	defer c.close()
	request, err := c.runRequest(b.warm.address, &printing)
	if err != nil {
		return err
	}
	bare := newRequest("GET", limitsPath, b.warm.address, nil)
	var whole, door sample
	stages := stageTimes{times: map[string][]float64{}}
	for i := range b.plan.stages + 1 {
		pause(ctx, rest)
		began := time.Now()
		if err := c.do(request); err != nil {
			return err
		}
		took := time.Since(began)
		timing := c.timing
		began = time.Now()
		if err := c.do(bare); err != nil {
			return err
		}
		if i > 0 { // the first was for nothing
			whole, door = append(whole, took), append(door, time.Since(began))
			stages.add(timing)
		}
	}
	s := &Stages{Whole: whole.summary(), HTTP: door.summary(), Parts: stages.medians()}
	b.results.Stages = s
	fmt.Fprintf(b.progress, "   whole %.3f ms, HTTP alone %.3f ms\n", s.Whole.P50, s.HTTP.P50)
	for _, part := range s.Parts {
		fmt.Fprintf(b.progress, "   %-12s %.3f ms\n", part.Name, part.P50)
	}
	return ctx.Err()
}

// stageTimes collects what Server-Timing headers say, in the order in which
// they say it.
type stageTimes struct {
	names []string
	times map[string][]float64
}

// add reads a header as W3C Server Timing defines it: "queue;dur=0.02, run;dur=1".
func (s *stageTimes) add(header string) {
	for metric := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(metric), ";")
		for parameter := range strings.SplitSeq(parameters, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			ms, err := strconv.ParseFloat(value, 64)
			if key != "dur" || err != nil {
				continue
			}
			if s.times[name] == nil {
				s.names = append(s.names, name)
			}
			s.times[name] = append(s.times[name], ms)
		}
	}
}

func (s *stageTimes) medians() []Stage {
	var list []Stage
	for _, name := range s.names {
		list = append(list, Stage{Name: name, P50: median(s.times[name])})
	}
	return list
}
