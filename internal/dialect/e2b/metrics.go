package e2b

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

type sampleBody struct {
	Timestamp string  `json:"timestamp"`
	Unix      int64   `json:"timestampUnix"`
	CPUs      int     `json:"cpuCount"`
	CPUUsed   float64 `json:"cpuUsedPct"`
	MemUsed   int64   `json:"memUsed"`
	MemTotal  int64   `json:"memTotal"`
	MemCache  int64   `json:"memCache"` // not measured separately
	DiskUsed  int64   `json:"diskUsed"`
	DiskTotal int64   `json:"diskTotal"`
}

// metrics answers with one sample: nothing is measured between requests. The use of the processor
// is that since the last sample, in percent of one processor.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	now := time.Now()
	for name, misses := range map[string]func(asked int64) bool{
		"start": func(asked int64) bool { return now.Unix() < asked },
		"end":   func(asked int64) bool { return now.Unix() > asked },
	} {
		text := r.URL.Query().Get(name)
		at, err := strconv.ParseInt(text, 10, 64)
		switch {
		case text != "" && err != nil:
			return invalid(name + " must be seconds since 1970")
		case text != "" && misses(at):
			writeJSON(w, http.StatusOK, []sampleBody{})
			return nil
		}
	}
	if _, paused := sb.life(); paused {
		writeJSON(w, http.StatusOK, []sampleBody{})
		return nil
	}
	use, err := h.Live.Usage(r.Context(), sb.caller, sb.session)
	if err != nil {
		return err
	}
	sb.mu.Lock()
	since, before := sb.measured, sb.used
	if since.IsZero() {
		since = sb.started
	}
	sb.measured, sb.used = now, use.CPU
	sb.mu.Unlock()
	percent := max(0, float64(use.CPU-before)/float64(max(now.Sub(since), time.Millisecond))*100)
	writeJSON(w, http.StatusOK, []sampleBody{{
		Timestamp: timeOf(now), Unix: now.Unix(), CPUs: sb.cpus(), CPUUsed: math.Round(percent*100) / 100,
		MemUsed: use.Memory, MemTotal: sb.limits.Memory, DiskUsed: use.Workspace, DiskTotal: sb.limits.Workspace,
	}})
	return nil
}
