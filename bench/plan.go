package main

import (
	"context"
	"time"
)

// plan says how often and for how long. A quick run takes about four minutes, a full one
// about thirteen: a third of that is load, a fifth live sessions, and much of the rest is
// waiting for cold interpreters.
type plan struct {
	prints, plots, files, inputs int // rounds, each with a turn of every contestant
	starts, streams, stages      int
	pairs                        int // of print(1), natively and by another dialect

	segments   int // of load at most, for each number of clients, in turn with the others'
	printLoad  time.Duration
	plotLoad   time.Duration
	plotLevels []int
	constant   time.Duration // of load at a constant rate

	silence                              time.Duration // that a client of MCP takes
	sessions, cells, figures, interrupts int           // of live sessions, one at a time
	manyCells, manySessions              int           // that may leave nothing behind
	crowd                                int           // of idle interpreters
	idle                                 time.Duration
}

// printLevels are the numbers of clients that print(1) is asked for by.
var printLevels = []int{1, 2, 8, 32}

var quickPlan = plan{
	prints: 25, plots: 3, files: 4, inputs: 8, starts: 1, streams: 5, stages: 60, pairs: 100,
	segments: 1, printLoad: 900 * time.Millisecond, plotLoad: 2 * time.Second, plotLevels: []int{4},
	constant: 4 * time.Second,
	silence:  6 * time.Second,
	sessions: 40, cells: 60, figures: 12, interrupts: 20,
	manyCells: 1000, manySessions: 400, crowd: 50, idle: 10 * time.Second,
}

var fullPlan = plan{
	prints: 100, plots: 10, files: 12, inputs: 30, starts: 3, streams: 40, stages: 150, pairs: 1000,
	segments: 2, printLoad: 2 * time.Second, plotLoad: 2 * time.Second, plotLevels: []int{1, 2, 8, 32},
	constant: 15 * time.Second,
	silence:  10 * time.Second,
	sessions: 100, cells: 100, figures: 20, interrupts: 100,
	manyCells: 10_000, manySessions: 2000, crowd: 500, idle: 30 * time.Second,
}

// rest is how long nothing happens before each single measurement, so that
// what the one before left to be done is not paid for by the next: we refill
// our pool behind the answer.
const rest = 25 * time.Millisecond

// section is one part of a run.
type section struct {
	name, title string
	measure     func(*bench, context.Context) error
}

// sections are in the order in which they are measured: first what wants a
// new service, then single requests, then load.
var sections = []section{
	{"start", "from the start of the service to its first answer, and what it holds in memory", (*bench).measureStart},
	{"latency", "print(1) and the plot script, everybody in turn", (*bench).measureLatency},
	{"files", "10 MB in and out, 100 MiB in, 100 MiB out", (*bench).measureFiles},
	{"languages", "the least program of JavaScript, TypeScript, Bash and C beside what one would type",
		(*bench).measureLanguages},
	{"stream", "first byte of streamed output", (*bench).measureStream},
	{"stages", "where the time of one print(1) goes", (*bench).measureStages},
	{"librechat", "LibreChat's API beside the native one", (*bench).measureLibreChat},
	{"mcp", "the Model Context Protocol beside the native API", (*bench).measureMCP},
	{"jupyter", "a Jupyter kernel beside the native cell", (*bench).measureJupyter},
	{"protocols", "the protocols of E2B, Dify, Open Terminal and OpenAI beside the native API", (*bench).measureProtocols},
	{"network", "what a network by permission costs", (*bench).measureNetwork},
	{"images", "programs in an image beside the machine's own environment", (*bench).measureImages},
	{"computer", "processes in live sessions: E2B's commands, trees, thousands", (*bench).measureComputer},
	{"gvisor", "programs with a kernel of their own beside those that share the machine's", (*bench).measureOwnKernel},
	{"traces", "what it costs to send traces", (*bench).measureTraces},
	{"live", "interpreters that stay, beside ipykernel", (*bench).measureLive},
	{"load", "saturated throughput, and p99 at half of it", (*bench).measureLoad},
}

func namesOf(list []section) []string {
	var names []string
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
