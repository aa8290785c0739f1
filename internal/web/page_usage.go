package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// usagePage shows what was used in a month.
type usagePage struct{ *site }

// usageView is the data of the usage page.
type usageView struct {
	Title          string // "November 2026"
	Before, After  string // other months, as in the query; empty: there is none
	All            bool   // of all owners
	Sum            engine.Consumption
	Bounds         []usageBound
	Rows           []usageRow
	More           int  // rows that are not shown
	Unread         bool // there are more days than one answer has
	First, LastDay string
}

// usageRow is what an owner has used in the month with a key.
type usageRow struct {
	Owner string
	Key   string
	engine.Consumption
	Bars  []usageBar
	Words string // for whoever does not see the bars
	days  map[engine.Day]engine.Consumption
}

// usageBar is the processor time of a day, in percent of the row's longest.
type usageBar struct{ X, Y, Height int }

// usageBound is a quota in words.
type usageBound struct {
	What, Used, Most string
	Percent          int
}

func (s *site) usagePage() {
	p := &usagePage{site: s}
	s.Nav = append(s.Nav, page.Entry{Name: "usage", Title: "Usage", Path: "/usage", More: true})
	s.Mux.HandleFunc("GET /usage", s.Handle(p.show))
}

const (
	monthQuery = "2006-01"
	// shownUsage is how many rows the page has: of those who used most processor time.
	shownUsage = 200
)

func (p *usagePage) show(w http.ResponseWriter, v *page.Request) error {
	now := engine.DayOf(p.Engine.Now()).Month()
	month := now
	if text := v.URL.Query().Get("month"); text != "" {
		t, err := time.Parse(monthQuery, text)
		if err != nil || engine.DayOf(t) > now || t.Year() < 2000 {
			return page.ErrNotFound
		}
		month = engine.DayOf(t)
	}
	days, more, err := p.Engine.Consumption(v.Context(), v.Caller, month, engine.ConsumptionQuery{})
	if err != nil {
		return err
	}
	body := usageView{Title: month.Time().Format("January 2006"), All: v.Operator(), Unread: more,
		Before: (month - 1).Time().Format(monthQuery), First: month.Time().Format("2 January"),
		LastDay: (month.NextMonth() - 1).Time().Format("2 January")}
	if month < now {
		body.After = month.NextMonth().Time().Format(monthQuery)
	}
	body.Rows = usageRows(days, month)
	for i := range body.Rows {
		body.Sum = body.Sum.Plus(body.Rows[i].Consumption)
	}
	if len(body.Rows) > shownUsage {
		body.Rows, body.More = body.Rows[:shownUsage], len(body.Rows)-shownUsage
	}
	if month == now {
		quotas, err := p.Engine.Months(v.Context(), v.Caller)
		if err != nil {
			return err
		}
		for _, quota := range quotas {
			body.Bounds = append(body.Bounds, boundsOf(quota)...)
		}
	}
	p.Render(w, v, http.StatusOK, "usage", "Usage", body)
	return nil
}

// usageRows sums days by owner and key, those with most processor time first.
func usageRows(days []engine.ConsumptionDay, month engine.Day) (rows []usageRow) {
	type who struct {
		owner engine.Owner
		key   string
	}
	at := map[who]int{}
	for _, d := range days {
		i, known := at[who{d.Owner, d.Key}]
		if !known {
			i = len(rows)
			at[who{d.Owner, d.Key}] = i
			rows = append(rows, usageRow{Owner: string(d.Owner), Key: d.Key, days: map[engine.Day]engine.Consumption{}})
		}
		rows[i].Consumption = rows[i].Plus(d.Consumption)
		rows[i].days[d.Day] = d.Consumption
	}
	for i := range rows {
		rows[i].draw(month)
	}
	slices.SortStableFunc(rows, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), strings.Compare(a.Owner, b.Owner),
			strings.Compare(a.Key, b.Key))
	})
	return rows
}

const barHeight = 20

// draw makes a bar for each day with processor time.
func (r *usageRow) draw(month engine.Day) {
	var most time.Duration
	var longest engine.Day
	for day, used := range r.days {
		if used.CPU > most || used.CPU == most && day < longest {
			most, longest = used.CPU, day
		}
	}
	r.Words = "no processor time"
	if most == 0 {
		return
	}
	r.Words = fmt.Sprintf("most on %s, %s", longest.Time().Format("2 January"), engine.DurationText(most))
	for day := month; day < month.NextMonth(); day++ {
		if used := r.days[day].CPU; used > 0 {
			height := max(int(barHeight*float64(used)/float64(most)), 1)
			r.Bars = append(r.Bars, usageBar{int(day-month) * 4, barHeight - height, height})
		}
	}
}

// boundsOf returns the parts of a quota that bound something.
func boundsOf(m engine.MonthState) (list []usageBound) {
	who := "This owner"
	if strings.HasPrefix(string(m.Subject), "key:") {
		who = "This key"
	}
	add := func(what string, used, most int64, words func(int64) string) {
		if most > 0 {
			list = append(list, usageBound{who + ": " + what, words(used), words(most), int(min(100*float64(used)/float64(most),
				100))})
		}
	}
	times := func(n int64) string { return engine.DurationText(time.Duration(n)) }
	add("programs", m.Used.Runs, m.Quota.Runs, func(n int64) string { return strconv.FormatInt(n, 10) })
	add("processor time", int64(m.Used.CPU), int64(m.Quota.CPU), times)
	add("memory", m.Used.Memory, m.Quota.Memory, gibHours)
	add("stored", m.Used.Stored, m.Quota.Stored, page.ByteCount)
	add("sent", m.Used.Sent, m.Quota.Sent, page.ByteCount)
	return list
}

// gibHours returns byte-seconds in GiB-hours.
func gibHours(n int64) string {
	return strings.TrimSuffix(strconv.FormatFloat(float64(n)/(1<<30)/3600, 'f', 2, 64), ".00") + " GiB-h"
}
