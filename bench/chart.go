package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The picture's measures, in pixels.
const (
	chartWidth = 760
	labelWidth = 150
	valueWidth = 90
	barHeight  = 18
	barStep    = 26
	panelGap   = 44
)

// chartStyle reads well on white and on black: the page's colours are the
// reader's.
const chartStyle = `text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#24292f}
.title{font-weight:600;font-size:14px}.tick{font-size:11px;fill:#6e7781}
.grid{stroke:#d0d7de;stroke-width:1}.other{fill:#8c959f}.ours{fill:#2f81b7}.bound{fill:#6a9f58}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#8d96a0}.grid{stroke:#30363d}.other{fill:#6e7681}.ours{fill:#4ea1d8}.bound{fill:#7fb56c}}
`

// chart draws the medians of each workload as bars. The scale is
// logarithmic: a bar of half the length is not half the time, and the axis
// says so.
func (r *Results) chart() string {
	var body strings.Builder
	y := 24
	for _, workload := range []string{"print", "plain", "plot"} {
		var rows []Latency
		for _, l := range r.Latency {
			if l.Workload == workload {
				rows = append(rows, l)
			}
		}
		if len(rows) > 0 {
			y = panel(&body, y, titles[workload]+", one at a time: median in ms, logarithmic scale", rows)
		}
	}
	fmt.Fprintf(&body, "<text class=\"tick\" x=\"0\" y=\"%d\">%s</text>\n", y, html.EscapeString(fmt.Sprintf(
		"%d cores of %s, Linux %s, %s, %s", r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Python,
		r.At.Format("2 January 2006"))))
	height := y + 12
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "+
		"role=\"img\">\n<title>%s</title>\n<style>%s</style>\n%s</svg>\n",
		chartWidth, height, chartWidth, height, "How long one program takes, by who runs it", chartStyle, body.String())
}

// panel draws one workload and returns where the next may begin.
func panel(b *strings.Builder, y int, title string, rows []Latency) int {
	least, most := math.Inf(1), 0.0
	for _, row := range rows {
		least, most = min(least, row.P50), max(most, row.P50)
	}
	// From the power of ten below the shortest bar, so that it has a length.
	low := math.Floor(math.Log10(least) - 0.05)
	high := math.Log10(most)
	room := float64(chartWidth - labelWidth - valueWidth)
	length := func(ms float64) float64 { return (math.Log10(ms) - low) / max(high-low, 1e-9) * room }

	fmt.Fprintf(b, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", y, html.EscapeString(title))
	top := y + 14
	bottom := top + barStep*len(rows)
	for exponent := int(low); float64(exponent) <= high; exponent++ {
		ms := math.Pow10(exponent)
		x := labelWidth + length(ms)
		fmt.Fprintf(b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"tick\" x=\"%.1f\" "+
			"y=\"%d\" text-anchor=\"middle\">%g</text>\n",
			x, top, x, bottom, x, bottom+14, ms)
	}
	for i, row := range rows {
		class := "other"
		switch row.Contestant {
		case nameWarm, nameCold:
			class = "ours"
		case nameResident:
			class = "bound"
		}
		at := top + i*barStep
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" "+
			"width=\"%.1f\" height=\"%d\" rx=\"2\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
			labelWidth-10, at+17, html.EscapeString(row.Contestant), class, labelWidth, at+4, length(row.P50), barHeight,
			labelWidth+length(row.P50)+7, at+17, ms(row.P50))
	}
	return bottom + panelGap
}
