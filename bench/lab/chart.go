package lab

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Curve is one line of a chart, with a name.
type Curve struct {
	Name   string
	Points [][2]float64
}

// Bar is one bar of a chart: ours, the floor or another's.
type Bar struct {
	Name, Class string
	Value       float64
}

// Chart has curves, or bars on a logarithmic scale: a bar of half the length is not half the time, as its axis says.
type Chart struct {
	Title      string
	LogX, LogY bool
	Curves     []Curve
	Bars       []Bar
}

// style reads well on white and on black: the page's colours are the reader's.
const style = `text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#24292f}
.title{font-weight:600;font-size:14px}.tick{font-size:11px;fill:#6e7781}.grid{stroke:#d0d7de;stroke-width:1}
.bar{fill:#8c959f}.bar.ours{fill:#2f81b7}.bar.floor{fill:#6a9f58}
polyline{fill:none;stroke-width:2}.c0{stroke:#2f81b7}.c1{stroke:#6a9f58}.c2{stroke:#c2703d}.c3{stroke:#8b6fb8}
.c4{stroke:#8c959f}.c5{stroke:#b5473c}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#8d96a0}.grid{stroke:#30363d}.bar{fill:#6e7681}
.bar.ours{fill:#4ea1d8}.bar.floor{fill:#7fb56c}}
`

// The pictures' measures, in pixels.
const (
	width                   = 760
	top, foot               = 44, 44
	curvesLeft, curvesRight = 60, 590
	curvesHeight            = 212
	barsLeft, barsRight     = 190, 690
	barStep                 = 26
	colours                 = 6
)

// DrawCurves draws charts, one below the other.
func DrawCurves(title string, charts ...Chart) string {
	var b strings.Builder
	at := 0
	for _, c := range charts {
		if drawn, height := c.draw(); height > 0 {
			fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n%s</g>\n", at, drawn)
			at += height
		}
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "+
		"role=\"img\">\n<title>%s</title>\n<style>%s</style>\n%s</svg>\n", width, at, width, at,
		html.EscapeString(title), style, b.String())
}

// scale places values between two pixels.
type scale struct {
	log                 bool
	low, high, from, to float64
}

func newScale(values []float64, log bool, from, to float64) scale {
	s := scale{log: log, from: from, to: to}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if log {
		s.low, s.high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	} else {
		step := math.Pow10(int(math.Floor(math.Log10(max(high, 1)))))
		s.high = math.Ceil(high/step) * step
	}
	s.high = max(s.high, s.low+1)
	return s
}

func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from)
}

func (s scale) ticks() (values []float64) {
	if s.log {
		for e := s.low; e <= s.high; e++ {
			values = append(values, math.Pow(10, e))
		}
		return values
	}
	for i := range 6 {
		values = append(values, s.low+(s.high-s.low)*float64(i)/5)
	}
	return values
}

// draw returns a chart and its height, which is 0 if there is nothing to draw.
func (c *Chart) draw() (drawn string, height int) {
	var xs, ys []float64
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	log, left, right, bottom := c.LogX, curvesLeft, curvesRight, top+curvesHeight
	if len(c.Bars) > 0 {
		log, left, right, bottom = true, barsLeft, barsRight, top+barStep*len(c.Bars)
	}
	for _, bar := range c.Bars {
		xs = append(xs, bar.Value, 0.9*bar.Value) // so that the shortest has a length
	}
	if len(xs) == 0 {
		return "", 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<text class=\"title\" x=\"0\" y=\"20\">%s</text>\n", html.EscapeString(c.Title))
	grid := func(x1, y1, x2, y2, textX, textY float64, anchor string, v float64) {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" "+
			"x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x1, y1, x2, y2, textX, textY, anchor, tick(v))
	}
	x := newScale(xs, log, float64(left), float64(right))
	for _, v := range x.ticks() {
		grid(x.at(v), top, x.at(v), float64(bottom), x.at(v), float64(bottom+18), "middle", v)
	}
	for i, bar := range c.Bars {
		at := top + i*barStep
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"bar %s\" x=\"%d\" y=\"%d\" "+
			"width=\"%.1f\" height=\"18\" rx=\"2\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n", left-10, at+17,
			html.EscapeString(bar.Name), bar.Class, left, at+4, x.at(bar.Value)-float64(left), x.at(bar.Value)+7, at+17,
			Digits(bar.Value))
	}
	if len(ys) == 0 {
		return b.String(), bottom + foot
	}
	y := newScale(ys, c.LogY, float64(bottom), top)
	for _, v := range y.ticks() {
		grid(float64(left), y.at(v), float64(right), y.at(v), float64(left-8), y.at(v)+4, "end", v)
	}
	for i, curve := range c.Curves {
		var points []string
		for _, p := range curve.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(p[0]), y.at(p[1])))
		}
		at := top + 10 + i*22
		fmt.Fprintf(&b, "<polyline class=\"c%d\" points=\"%s\"/><line class=\"c%d\" stroke-width=\"3\" x1=\"%d\" y1=\"%d\" "+
			"x2=\"%d\" y2=\"%d\"/><text x=\"%d\" y=\"%d\">%s</text>\n", i%colours, strings.Join(points, " "), i%colours,
			right+14, at, right+34, at, right+42, at+4, html.EscapeString(curve.Name))
	}
	return b.String(), bottom + foot
}

// tick writes a number of an axis.
func tick(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%g M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%g k", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
