package live

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// frames shows data frames in a session, and asks about them.
type frames struct {
	*place
	session engine.ID
}

// show runs code that displays one data frame, and returns its name.
func (f *frames) show(code string) string {
	f.t.Helper()
	c := f.want(f.run(f.session, code), StatusOK)
	var made struct{ Frame string }
	if len(c.Outputs) != 1 || json.Unmarshal(c.Outputs[0].Data[TableForm], &made) != nil || made.Frame == "" {
		f.t.Fatalf("%s: %+v", code, c.Outputs)
	}
	return made.Frame
}

func (f *frames) query(q FrameQuery) (FrameAnswer, error) {
	if q.Want == "" {
		q.Want = FrameWindow
	}
	if q.Columns == [2]int{} {
		q.Columns = [2]int{0, 1 << 20}
	}
	if q.Rows == [2]int{} {
		q.Rows = [2]int{0, 1 << 20}
	}
	return f.Frame(f.t.Context(), f.caller, f.session, q)
}

// data answers a question with the values, or with what is wrong about it.
func (f *frames) data(q FrameQuery) string {
	a, err := f.query(q)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(a.Data), " ", "")
}

func newFrames(t *testing.T) *frames {
	p := openWithPackages(t, Config{})
	f := &frames{p, p.session("python")}
	f.want(f.run(f.session, "import numpy as np, pandas as pd, polars as pl"), StatusOK)
	return f
}

func TestFrame(t *testing.T) {
	f := newFrames(t)
	big := f.show("big = pd.DataFrame({'n': np.arange(1_000_000) % 1000, 's': [f'row {i}' for i in range(1_000_000)]})\nbig")
	odd := f.show("pd.DataFrame([[1, 'b', None, 2**60], [2, 'a', 1.5, -5], [3, 'b', float('inf'), 0]], columns=['x', 'x', 'f', 'big'])")
	dates := f.show("pd.DataFrame({'t': pd.to_datetime(['2024-01-02', '2024-01-01 10:00', None], format='mixed'), " +
		"'z': pd.to_datetime(['2024-07-01 00:00']*3).tz_localize('Europe/Paris'), 'c': pd.Categorical(['low', 'high', None], ['low', 'high'], ordered=True), 'b': [True, False, True]})")
	levels := f.show("pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([('a', 'b'), ('a', 'c')]), index=pd.MultiIndex.from_tuples([('k', 'l')]))")
	lists := f.show("pl.DataFrame({'i': [1, None, 2**62], 'l': [[1], [2, 3], None]})")
	empty := f.show("pd.DataFrame({'a': []})")
	wide := f.show("pd.DataFrame(np.zeros((2, 10_000)))")
	one := f.show("pd.Series([3, 1], name='q')")
	array := f.show("np.arange(2000).reshape(1000, 2)")
	long := f.show("pd.DataFrame({'s': ['x' * 2000]})")
	for _, c := range []struct {
		frame string
		q     FrameQuery
		want  string
	}{
		{big, FrameQuery{Rows: [2]int{999_998, 1_000_010}}, `[[999998,999999],[998,999],["row999998","row999999"]]`},
		{big, FrameQuery{Rows: [2]int{0, 2}, Sort: []FrameSort{{1, true}}}, `[[999,1999],[999,999],["row999","row1999"]]`},
		{big, FrameQuery{Rows: [2]int{0, 2}, Sort: []FrameSort{{1, false}, {0, true}}}, `[[999000,998000],[0,0],["row999000","row998000"]]`},
		{big, FrameQuery{Columns: [2]int{2, 3}, Search: "ROW 77777", Filters: []FrameFilter{{1, ">=", "774"}}, Sort: []FrameSort{{2, true}}},
			`[["row977777","row877777","row777779","row777778","row777777","row777776","row777775","row777774","row77777","row677777",` +
				`"row577777","row477777","row377777","row277777","row177777"]]`},
		{big, FrameQuery{Columns: [2]int{2, 3}, Filters: []FrameFilter{{2, "=", "row 5"}}}, `[["row5"]]`},
		{big, FrameQuery{Filters: []FrameFilter{{1, "=", "x"}}}, `frame frame:: 'x' is not a value of this column, whose type is integer`},
		{big, FrameQuery{Sort: []FrameSort{{9, true}}}, `frame frame:: there is no column 9`},
		{odd, FrameQuery{}, `[[0,1,2],[1,2,3],["b","a","b"],[null,1.5,"inf"],["1152921504606846976",-5,0]]`},
		{odd, FrameQuery{Columns: [2]int{0, 1}, Sort: []FrameSort{{3, true}}}, `[[2,1,0]]`},
		{odd, FrameQuery{Columns: [2]int{0, 1}, Sort: []FrameSort{{4, false}}}, `[[1,2,0]]`},
		{odd, FrameQuery{Columns: [2]int{0, 1}, Sort: []FrameSort{{2, false}}}, `[[1,0,2]]`},
		{odd, FrameQuery{Columns: [2]int{0, 1}, Filters: []FrameFilter{{3, "missing", ""}}}, `[[0]]`},
		{dates, FrameQuery{}, `[[0,1,2],["2024-01-0200:00:00","2024-01-0110:00:00",null],["2024-07-0100:00:00+02:00","2024-07-0100:00:00+02:00",` +
			`"2024-07-0100:00:00+02:00"],["low","high",null],[true,false,true]]`},
		{dates, FrameQuery{Columns: [2]int{0, 1}, Sort: []FrameSort{{1, true}}}, `[[0,1,2]]`},
		{dates, FrameQuery{Columns: [2]int{0, 1}, Sort: []FrameSort{{3, true}}}, `[[1,0,2]]`},
		{dates, FrameQuery{Columns: [2]int{0, 1}, Filters: []FrameFilter{{1, "=", "2024-01-01"}}}, `[[1]]`},
		{dates, FrameQuery{Columns: [2]int{0, 1}, Filters: []FrameFilter{{4, "=", "True"}, {2, ">", "2024-06-30"}}}, `[[0,2]]`},
		{dates, FrameQuery{Columns: [2]int{0, 1}, Search: "2024-07 high"}, `[[1]]`},
		{levels, FrameQuery{}, `[["k"],["l"],[1],[2]]`},
		{lists, FrameQuery{Sort: []FrameSort{{0, true}}}, `[["4611686018427387904",1,null],[null,"[1]","[2,3]"]]`},
		{lists, FrameQuery{Columns: [2]int{1, 2}, Search: "3"}, `[["[2,3]",null]]`},
		{empty, FrameQuery{}, `[[],[]]`},
		{wide, FrameQuery{Columns: [2]int{10_000, 20_000}}, `[[0.0,0.0]]`},
		{one, FrameQuery{Sort: []FrameSort{{1, false}}}, `[[1,0],[1,3]]`},
		{array, FrameQuery{Rows: [2]int{999, 1000}}, `[[999],[1998],[1999]]`},
		{long, FrameQuery{Columns: [2]int{1, 2}}, `[["` + strings.Repeat("x", 500) + `\u2026"]]`},
	} {
		c.q.Frame = c.frame
		if got := f.data(c.q); got != c.want {
			t.Errorf("%+v: %.400s, want %s", c.q, got, c.want)
		}
	}
	a, err := f.query(FrameQuery{Frame: levels})
	if err != nil || !strings.Contains(string(a.Fields), `"names": ["a", "c"]`) || a.Index != 2 || a.Columns != 2 {
		t.Errorf("%+v, %s, %v", a, a.Fields, err)
	}
}

// The text of a frame has its whole values, whatever is displayed of them.
func TestFrameText(t *testing.T) {
	f := newFrames(t)
	name := f.show("df = pd.DataFrame({'a': np.random.default_rng(1).normal(size=30_000), 's': ['\\u00e4\\t\"' + 'x' * 900] * 30_000})\ndf")
	a, err := f.query(FrameQuery{Frame: name, Want: FrameText, Rows: [2]int{29_999, 30_000}, Columns: [2]int{2, 3}})
	if want := "\"ä\t\"\"" + strings.Repeat("x", 900) + `"`; err != nil || a.Text == nil || *a.Text != want {
		t.Errorf("%+v, %v", a, err)
	}
	var csv strings.Builder
	for next, parts := 0, 0; next < 30_000; parts++ {
		a, err := f.query(FrameQuery{Frame: name, Want: FrameCSV, Rows: [2]int{next, 30_000}})
		if err != nil || a.Text == nil || a.Next <= next {
			t.Fatalf("%d, %v", next, err)
		}
		csv.WriteString(*a.Text)
		next = a.Next
	}
	c := f.want(f.run(f.session, "import hashlib\nhashlib.sha256(df.to_csv(index=False).encode()).hexdigest()"), StatusOK)
	if got, want := fmt.Sprintf("%x", sha256.Sum256([]byte(csv.String()))), form(t, c.Outputs[0], "text/plain"); "'"+got+"'" != want {
		t.Errorf("the CSV of %d bytes is not pandas'", csv.Len())
	}
	if _, err := f.query(FrameQuery{Frame: name, Want: FrameText}); engine.KindOf(err) != engine.ErrInvalid ||
		!strings.Contains(err.Error(), "download the rows as CSV") {
		t.Errorf("more than can be copied: %v", err)
	}
}

func TestFrameStatistics(t *testing.T) {
	f := newFrames(t)
	name := f.show("pd.DataFrame({'n': [1, 2, 3, 4, None], 's': ['a', 'a', 'b', None, 'ccc'], 'l': [[1], [1], [2], [], None]})")
	for field, want := range map[int]string{
		1: `{"count": 5, "missing": 1, "facts": [["minimum", 1.0], ["25 %", 1.75], ["median", 2.5], ["75 %", 3.25], ["maximum", 4.0], ` +
			`["mean", 2.5], ["standard deviation", 1.2909944487358056], ["sum", 10.0]]`,
		2: `{"count": 5, "missing": 1, "facts": [["shortest", "1 characters"], ["longest", "3 characters"]], "bars": [["a", 2], ["b", 1], ["ccc", 1]], "unique": 3}`,
		3: `{"count": 5, "missing": 1, "facts": [["shortest", "2 characters"], ["longest", "3 characters"]], "bars": [["[1]", 2], ["[2]", 1], ["[]", 1]], "unique": 3}`,
	} {
		a, err := f.query(FrameQuery{Frame: name, Want: FrameStatistics, Columns: [2]int{field, field + 1}})
		if err != nil || !strings.HasPrefix(string(a.Statistics), want) {
			t.Errorf("%d: %s, %v", field, a.Statistics, err)
		}
	}
}

// The interpreter keeps the last frames, and of the large ones only what the program keeps, too.
func TestFrameGone(t *testing.T) {
	f := newFrames(t)
	first := f.show("pd.DataFrame({'a': [1]})")
	large := f.show("large = pd.DataFrame({'a': np.zeros(20_000_000)})\ndisplay(large)")
	changed := f.show("small = pd.DataFrame({'a': [1, 2]})\nsmall")
	f.want(f.run(f.session, "small.loc[5] = 9"), StatusOK)
	if got := f.data(FrameQuery{Frame: changed}); got != `[[0,1],[1,2]]` {
		t.Errorf("a frame that was changed later is %s", got)
	}
	if _, err := f.query(FrameQuery{Frame: large, Rows: [2]int{0, 1}}); err != nil {
		t.Error(err)
	}
	f.want(f.run(f.session, "del large"), StatusOK)
	gone := func(name, why string) {
		t.Helper()
		_, err := f.query(FrameQuery{Frame: name, Rows: [2]int{0, 1}})
		var told *engine.Error
		if engine.KindOf(err) != engine.ErrConflict || !errors.As(err, &told) || !strings.Contains(told.Hint, why) {
			t.Errorf("%v", err)
		}
	}
	gone(large, "the program has it no longer")
	f.want(f.run(f.session, "for i in range(32): display(pd.DataFrame({'a': [i]}))"), StatusOK)
	gone(first, "its interpreter has it no longer")
	last := f.show("pd.DataFrame({'a': [7]})")
	if err := f.Restart(t.Context(), f.caller, f.session); err != nil {
		t.Fatal(err)
	}
	gone(last, "")
	if info, err := f.Info(t.Context(), f.caller, f.session); err != nil || info.State != StateNone {
		t.Errorf("a question started an interpreter: %+v, %v", info, err)
	}
}

// A question that nobody waits for any more does not stay in the queue.
func TestFrameTakenBack(t *testing.T) {
	f := newFrames(t)
	name := f.show("pd.DataFrame({'a': [1]})")
	cell, err := f.Start(t.Context(), f.caller, f.session, CellRequest{Code: "input()", AllowInput: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxWaiting {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Frame(ctx, f.caller, f.session, FrameQuery{Frame: name, Want: FrameWindow}); engine.KindOf(err) != engine.ErrCanceled {
			t.Fatal(err)
		}
	}
	if err := f.CancelCell(t.Context(), f.caller, f.session, cell.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.data(FrameQuery{Frame: name}); got != `[[0],[1]]` {
		t.Error(got)
	}
}
