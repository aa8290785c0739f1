package main

import "fmt"

// Goal is one promise, with its measurement.
type Goal struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Must     float64  `json:"must"`
	Aim      float64  `json:"aim"`
	More     bool     `json:"more,omitempty"` // more is better
	Measured *float64 `json:"measured"`       // null: not measured
	Verdict  string   `json:"verdict"`
}

// Verdicts.
const (
	verdictAim     = "aim met"
	verdictMust    = "must met"
	verdictMissed  = "missed"
	verdictUnknown = "not measured"
)

func (g *Goal) judge() {
	within := func(limit float64) bool {
		if g.More {
			return *g.Measured >= limit
		}
		return *g.Measured <= limit
	}
	switch {
	case g.Measured == nil:
		g.Verdict = verdictUnknown
	case within(g.Aim):
		g.Verdict = verdictAim
	case within(g.Must):
		g.Verdict = verdictMust
	default:
		g.Verdict = verdictMissed
	}
}

func (g *Goal) format(v float64) string {
	if g.Unit == "x" {
		return fmt.Sprintf("%.3gx", v)
	}
	return fmt.Sprintf("%.3g %s", v, g.Unit)
}

// judge fills in the goals.
func (r *Results) judge() {
	r.Goals = []Goal{
		{Name: "print(1) over HTTP, warm, against cold python3", Unit: "x", Must: 0.1, Aim: 0.045,
			Measured: r.ratio("print", nameWarm, namePython)},
		{Name: "plain plot over HTTP, warm, against cold python3", Unit: "x", Must: 0.13, Aim: 0.07,
			Measured: r.ratio("plain", nameWarm, namePython)},
		{Name: "examples/plot.py over HTTP, warm, against cold python3", Unit: "x", Must: 0.14, Aim: 0.133,
			Measured: r.ratio("plot", nameWarm, namePython)},
		{Name: "plain plot over HTTP against the same work warm in process", Unit: "x", Must: 2.2, Aim: 1.2,
			Measured: r.ratio("plain", nameWarm, nameResident)},
		{Name: "examples/plot.py over HTTP against the same work warm in process", Unit: "x", Must: 2.2, Aim: 1.2,
			Measured: r.ratio("plot", nameWarm, nameResident)},
		{Name: "print(1) saturated, against go-judge", Unit: "x", Must: 5.5, Aim: 10, More: true, Measured: r.times("print")},
		{Name: "processor time of one print(1), all cores", Unit: "ms", Must: 3.2, Aim: 1.8,
			Measured: r.processorTime("print")},
		{Name: "processor time of one print of 1 KB, all cores", Unit: "ms", Must: 3.2, Aim: 1.8,
			Measured: r.processorTime("kilobyte")},
		{Name: "plain plot saturated, against go-judge", Unit: "x", Must: 15, Aim: 18, More: true,
			Measured: r.times("plain")},
		{Name: "plain plot saturated, against all cores' worth of the same work warm in process", Unit: "x", Must: 0.8,
			Aim: 0.9, More: true, Measured: r.ofAllCores("plain")},
		{Name: "examples/plot.py saturated, against go-judge", Unit: "x", Must: 8, Aim: 12, More: true,
			Measured: r.times("plot")},
		{Name: "private memory of a waiting sandbox, full tier", Unit: "MB", Must: 2, Aim: 1.5,
			Measured: r.sum(partWaiting + "full")},
		{Name: "service and executor at rest, without zygotes", Unit: "MB", Must: 80, Aim: 40,
			Measured: r.sum(partParent, partService, partExecutor)},
		{Name: "start to the first print(1)", Unit: "s", Must: 2, Aim: 0.6, Measured: r.started()},
		{Name: "100 MiB input staged", Unit: "ms", Must: 5, Aim: 1, Measured: r.staged()},
		{Name: "100 MiB output stored and sent over HTTP, against cp and sha256sum", Unit: "x", Must: 1.3, Aim: 1,
			Measured: r.kept()},
		{Name: "first byte of streamed output after the program wrote it", Unit: "ms", Must: 5, Aim: 1,
			Measured: r.streamed()},
		{Name: "p99 of print(1) at half the saturated rate", Unit: "ms", Must: 40, Aim: 10, Measured: r.tail()},
	}
	for _, one := range spoken {
		r.Goals = append(r.Goals, Goal{Name: titles[one.name] + " over HTTP against " + one.command, Unit: "x",
			Must: one.must, Aim: one.aim, Measured: r.ratio(one.name, nameWarm, nameByHand)})
	}
	r.Goals = append(r.Goals, r.MCP.goals()...)
	r.Goals = append(r.Goals, r.Jupyter.goals()...)
	r.Goals = append(r.Goals, r.Protocols.goals()...)
	r.Goals = append(r.Goals, r.Network.goals()...)
	r.Goals = append(r.Goals, r.Images.goals()...)
	r.Goals = append(r.Goals, r.stays().goals()...)
	r.Goals = append(r.Goals, r.OwnKernel.goals()...)
	r.Goals = append(r.Goals, r.Traces.goals()...)
	r.Goals = append(r.Goals, r.liveGoals()...)
	if r.Grown != nil {
		r.Goals = r.Grown.goals()
	}
	for i := range r.Goals {
		r.Goals[i].judge()
	}
}

// ratio compares medians.
func (r *Results) ratio(workload, one, other string) *float64 {
	a, found := r.latency(workload, one)
	b, also := r.latency(workload, other)
	if !found || !also {
		return nil
	}
	return new(a.P50 / b.P50)
}

// times is how many times as much as go-judge we do in a second.
func (r *Results) times(workload string) *float64 {
	ours, found := r.saturated(workload, nameWarm)
	theirs, also := r.saturated(workload, nameJudge)
	if !found || !also {
		return nil
	}
	return new(ours / theirs)
}

// processorTime is what one program takes when the machine does nothing else, in ms.
func (r *Results) processorTime(workload string) *float64 {
	most, ok := r.saturated(workload, nameWarm)
	if !ok {
		return nil
	}
	return new(float64(r.Machine.Cores) * 1000 / most)
}

// ofAllCores compares what we do in a second with what as many processes as there are
// cores would do that have everything loaded.
func (r *Results) ofAllCores(workload string) *float64 {
	most, found := r.saturated(workload, nameWarm)
	warm, also := r.latency(workload, nameResident)
	if !found || !also {
		return nil
	}
	return new(most / (float64(r.Machine.Cores) * 1000 / warm.P50))
}

// sum adds up the memory of parts, of which the last must be there.
func (r *Results) sum(parts ...string) *float64 {
	total, found := 0.0, false
	for _, part := range parts {
		var mb float64
		mb, found = r.private(part)
		total += mb
	}
	if !found {
		return nil
	}
	return &total
}

func (r *Results) started() *float64 {
	if r.Start == nil {
		return nil
	}
	return new(r.Start.First.P50 / 1000)
}

func (r *Results) staged() *float64 {
	if r.Inputs == nil {
		return nil
	}
	return &r.Inputs.Staging
}

func (r *Results) kept() *float64 {
	if r.Outputs == nil {
		return nil
	}
	return new(r.Outputs.Both.P50 / r.Outputs.ByHand.P50)
}

func (r *Results) streamed() *float64 {
	if r.Stream == nil {
		return nil
	}
	return &r.Stream.First.P50
}

func (r *Results) tail() *float64 {
	if r.Constant == nil {
		return nil
	}
	return &r.Constant.P99
}
