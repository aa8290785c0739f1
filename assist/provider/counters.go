package provider

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Counters count turns, files and errors by provider and model. A nil *Counters counts
// nothing.
type Counters struct {
	mu   sync.Mutex
	rows map[[2]string]*Counts
}

// Counts are the numbers of one provider and model.
type Counts struct {
	Provider   string             `json:"provider"`
	Model      string             `json:"model"`
	Turns      int64              `json:"turns"`
	TurnTime   time.Duration      `json:"turn_time"`
	TurnErrors int64              `json:"turn_errors"`
	Uploads    int64              `json:"uploads"`
	UploadTime time.Duration      `json:"upload_time"`
	Files      map[Evidence]int64 `json:"files"`     // by the best evidence
	Downloads  int64              `json:"downloads"` // that succeeded
	// DownloadTime is the sum over downloads, several of which run at once.
	DownloadTime     time.Duration `json:"download_time"`
	DownloadsRetried int64         `json:"downloads_retried"` // attempts after the first
	Bytes            int64         `json:"bytes"`
	Retries          int64         `json:"retries"`  // of all calls, downloads among them
	Failures         int64         `json:"failures"` // files that were found and not fetched
	Missing          int64         `json:"missing"`
	Recoveries       int64         `json:"recoveries"` // of expired sessions
}

// Snapshot returns a copy, sorted.
func (c *Counters) Snapshot() (rows []Counts) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rows {
		row := *r
		row.Files = maps.Clone(r.Files)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Counts) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return rows
}

// Count changes the row of a provider and model. Events without a model (an upload, a
// repetition) are counted under "".
func (c *Counters) Count(provider, model string, change func(*Counts)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[[2]string]*Counts{}
	}
	key := [2]string{provider, model}
	row := c.rows[key]
	if row == nil {
		row = &Counts{Provider: provider, Model: model, Files: map[Evidence]int64{}}
		c.rows[key] = row
	}
	change(row)
}

// Add adds d to c.
func (c *Counts) Add(d Counts) {
	c.Turns += d.Turns
	c.TurnTime += d.TurnTime
	c.TurnErrors += d.TurnErrors
	c.Uploads += d.Uploads
	c.UploadTime += d.UploadTime
	c.Downloads += d.Downloads
	c.DownloadTime += d.DownloadTime
	c.DownloadsRetried += d.DownloadsRetried
	c.Bytes += d.Bytes
	c.Retries += d.Retries
	c.Failures += d.Failures
	c.Missing += d.Missing
	c.Recoveries += d.Recoveries
	if c.Files == nil {
		c.Files = map[Evidence]int64{}
	}
	for k, v := range d.Files {
		c.Files[k] += v
	}
}

func (c *Counters) collected(provider, model string, found *Collection, took time.Duration, retried int64) {
	c.Count(provider, model, func(row *Counts) {
		row.DownloadTime += took
		row.DownloadsRetried += retried
		for _, f := range found.Files {
			row.Downloads++
			row.Bytes += f.Size
			row.Files[bestEvidence(f.FoundBy)]++
		}
		row.Failures += int64(len(found.Failed))
		row.Missing += int64(len(found.Missing))
	})
}

func bestEvidence(all []Evidence) Evidence {
	for _, e := range []Evidence{ByListing, ByResultBlock, ByAnnotation, ByInline, ByStdout, ByLinkText} {
		if slices.Contains(all, e) {
			return e
		}
	}
	return ""
}

// Turn counts a turn that is over.
func (c *Counters) Turn(provider, model string, took time.Duration, failure error) {
	c.Count(provider, model, func(row *Counts) {
		row.Turns++
		row.TurnTime += took
		if failure != nil {
			row.TurnErrors++
		}
	})
}

// Drain returns the counts since the last Drain, for adding them to those of other
// processes.
func (c *Counters) Drain() (rows []Counts) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	whole := Counters{rows: c.rows}
	c.rows = nil
	c.mu.Unlock()
	return whole.Snapshot()
}

// counting returns the rule with its repetitions counted.
func (r Retry) counting(c *Counters, provider string) Retry {
	again := r.Again
	r.Again = func(err error, wait time.Duration) {
		c.Count(provider, "", func(row *Counts) { row.Retries++ })
		if again != nil {
			again(err, wait)
		}
	}
	return r
}
