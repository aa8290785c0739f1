package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Results is all that a run found; it is what is kept as JSON, and all that
// the tables and the picture are made of.
type Results struct {
	At      time.Time         `json:"at"`
	Version string            `json:"version"`
	Quick   bool              `json:"quick"`
	Seconds float64           `json:"seconds"` // that the run took
	Machine Machine           `json:"machine"`
	Missing map[string]string `json:"missing"` // contestants that could not take part, and why

	Latency  []Latency `json:"latency"`
	Load     []Load    `json:"load"`
	Constant *Constant `json:"constant,omitempty"`
	Inputs   *Inputs   `json:"inputs,omitempty"`
	Outputs  *Outputs  `json:"outputs,omitempty"`
	Stream   *Stream   `json:"stream,omitempty"`
	Start    *Start    `json:"start,omitempty"`

	LibreChat *LibreChat `json:"librechat,omitempty"`
	MCP       *MCP       `json:"mcp,omitempty"`
	Jupyter   *Protocol  `json:"jupyter,omitempty"`
	Protocols *Protocols `json:"protocols,omitempty"`
	Network   *Network   `json:"network,omitempty"`
	Images    *Images    `json:"images,omitempty"`
	Computer  *Computer  `json:"computer,omitempty"`
	OwnKernel *OwnKernel `json:"gvisor,omitempty"`
	Traces    *Traces    `json:"traces,omitempty"`
	Live      *Live      `json:"live,omitempty"`
	Grown     *Grown     `json:"growth,omitempty"`
	Ablation  []Ablated  `json:"ablation,omitempty"`

	Memory []Memory `json:"memory"`
	Stages *Stages  `json:"stages,omitempty"`
	Goals  []Goal   `json:"goals"`
}

// Latency is one request at a time.
type Latency struct {
	Workload   string `json:"workload"`
	Contestant string `json:"contestant"`
	Summary
}

// Load is a number of clients that ask as fast as they can.
type Load struct {
	Workload   string  `json:"workload"`
	Contestant string  `json:"contestant"`
	Clients    int     `json:"clients"`
	PerSecond  float64 `json:"per_second"`
	Failed     int     `json:"failed"`
	Summary
}

// Constant is load at a constant rate; times count from when a request was
// due.
type Constant struct {
	Rate    float64 `json:"rate"`
	Reached float64 `json:"reached"`
	Failed  int     `json:"failed"`
	Stolen  float64 `json:"stolen"` // part of the processors' time that the host gave to others meanwhile
	Summary
}

// Inputs is a program with an input of 100 bytes and of 100 MiB.
type Inputs struct {
	Small   Summary `json:"small"`
	Large   Summary `json:"large"`
	Staging float64 `json:"staging_ms"` // the difference of their medians
}

// Stream is how old output is when it arrives.
type Stream struct {
	First Summary `json:"first"` // line of a program
	Later Summary `json:"later"` // ones
}

// Start is the time from the start of the service.
type Start struct {
	First Summary `json:"first"` // answer
	Ready Summary `json:"ready"` // all tiers of zygotes
}

// Memory is what a part holds, in MB; of several the median.
type Memory struct {
	Part    string  `json:"part"`
	Count   int     `json:"count"`
	Private float64 `json:"private_mb"`
	PSS     float64 `json:"pss_mb"`
}

// Stages is where the time of one print(1) goes.
type Stages struct {
	Whole Summary `json:"whole"` // as the client sees it
	HTTP  Summary `json:"http"`  // a request that asks the engine for nothing
	Parts []Stage `json:"parts"` // by the service's own account
}

// Stage is one part of it.
type Stage struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
}

func newResults(m Machine, version string, quick bool) *Results {
	return &Results{At: time.Now().UTC().Truncate(time.Second), Version: version, Quick: quick, Machine: m,
		Missing: map[string]string{}}
}

// save writes the results under their time, and as latest.json.
func (r *Results) save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	named := filepath.Join(dir, r.At.Format("2006-01-02T150405Z")+".json")
	return errors.Join(os.WriteFile(named, text, 0o644), os.WriteFile(filepath.Join(dir, "latest.json"), text, 0o644))
}

func load(name string) (*Results, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s holds no results: %w", name, err)
	}
	r.judge()
	return r, nil
}

// latency finds a row.
func (r *Results) latency(workload, contestant string) (Latency, bool) {
	for _, l := range r.Latency {
		if l.Workload == workload && l.Contestant == contestant {
			return l, true
		}
	}
	return Latency{}, false
}

// saturated is the most that a contestant did in a second, with whatever
// number of clients.
func (r *Results) saturated(workload, contestant string) (most float64, ok bool) {
	for _, l := range r.Load {
		if l.Workload == workload && l.Contestant == contestant {
			most, ok = max(most, l.PerSecond), true
		}
	}
	return most, ok
}

// private is what a part has of its own.
func (r *Results) private(part string) (float64, bool) {
	for _, m := range r.Memory {
		if m.Part == part {
			return m.Private, true
		}
	}
	return 0, false
}
