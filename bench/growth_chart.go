package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// pictures are what is drawn of results, by what is added to the document's name.
func (r *Results) pictures() map[string]string {
	g := r.Grown
	if r.Ablation != nil {
		return nil
	}
	if g == nil {
		return map[string]string{"": r.chart()}
	}
	rows := lines{title: "99th percentile in ms against runs and files in the index", logX: true, logY: true}
	for _, store := range []string{nameSQLite, namePostgres} {
		kinds := []curve{{name: store + ", list"}, {name: store + ", get"}, {name: store + ", search"}}
		for _, row := range g.Rows {
			if row.Database != store {
				continue
			}
			for i, took := range []float64{row.List.P99, row.Get.P99, row.Search.P99} {
				kinds[i].points = append(kinds[i].points, [2]float64{float64(row.Count), took})
			}
		}
		rows.add(kinds...)
	}
	load := lines{title: "print(1): ms from when it was due, against requests a second", logY: true}
	half, tail := curve{name: "median"}, curve{name: "99th percentile"}
	for _, l := range g.Overload {
		half.points = append(half.points, [2]float64{l.PerSecond, l.P50})
		tail.points = append(tail.points, [2]float64{l.PerSecond, l.P99})
	}
	load.add(half, tail)
	memory := lines{title: "Memory of all processes in MB against live sessions"}
	held := curve{name: "all processes"}
	for _, h := range g.Live {
		held.points = append(held.points, [2]float64{float64(h.Sessions), h.Memory})
	}
	memory.add(held)
	pictures := map[string]string{}
	for name, l := range map[string]lines{"-rows": rows, "-load": load, "-sessions": memory} {
		if len(l.curves) > 0 {
			pictures[name] = l.draw()
		}
	}
	return pictures
}

// lines is a picture of curves.
type lines struct {
	title      string
	logX, logY bool
	curves     []curve
}

type curve struct {
	name   string
	points [][2]float64
}

func (l *lines) add(curves ...curve) {
	for _, c := range curves {
		if len(c.points) > 0 {
			l.curves = append(l.curves, c)
		}
	}
}

const curveStyle = `.c0{stroke:#2f81b7}.c1{stroke:#6a9f58}.c2{stroke:#c2703d}
.c3{stroke:#8b6fb8}.c4{stroke:#8c959f}.c5{stroke:#b5473c}
polyline{fill:none;stroke-width:2}`

// The picture of curves, in pixels.
const (
	linesWidth, linesHeight         = 760, 360
	linesLeft, linesRight           = 60, 590
	linesTop, linesBottom           = 44, 316
	maxColours                      = 6
	ticksOfALinearAxis      float64 = 5
)

// scale places values between two pixels.
type scale struct {
	log       bool
	low, high float64
	from, to  float64
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
	if s.high <= s.low {
		s.high = s.low + 1
	}
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
	for i := 0.0; i <= ticksOfALinearAxis; i++ {
		values = append(values, s.low+(s.high-s.low)*i/ticksOfALinearAxis)
	}
	return values
}

func (l *lines) draw() string {
	var xs, ys []float64
	for _, c := range l.curves {
		for _, p := range c.points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x, y := newScale(xs, l.logX, linesLeft, linesRight), newScale(ys, l.logY, linesBottom, linesTop)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "+
		"role=\"img\">\n<title>%s</title>\n<style>%s%s</style>\n<text class=\"title\" x=\"0\" y=\"20\">%s</text>\n",
		linesWidth, linesHeight, linesWidth, linesHeight, html.EscapeString(l.title), chartStyle, curveStyle,
		html.EscapeString(l.title))
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"tick\" x=\"%.1f\" "+
			"y=\"%d\" text-anchor=\"middle\">%s</text>\n", x.at(v), linesTop, x.at(v), linesBottom, x.at(v),
			linesBottom+18, tick(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"tick\" x=\"%d\" "+
			"y=\"%.1f\" text-anchor=\"end\">%s</text>\n", linesLeft, y.at(v), linesRight, y.at(v), linesLeft-8,
			y.at(v)+4, tick(v))
	}
	for i, c := range l.curves {
		var points []string
		for _, p := range c.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(p[0]), y.at(p[1])))
		}
		at := linesTop + 10 + i*22
		fmt.Fprintf(&b, "<polyline class=\"c%d\" points=\"%s\"/><line class=\"c%d\" stroke-width=\"3\" x1=\"%d\" y1=\"%d\" "+
			"x2=\"%d\" y2=\"%d\"/><text x=\"%d\" y=\"%d\">%s</text>\n", i%maxColours, strings.Join(points, " "), i%maxColours,
			linesRight+14, at, linesRight+34, at, linesRight+42, at+4, html.EscapeString(c.name))
	}
	return b.String() + "</svg>\n"
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
