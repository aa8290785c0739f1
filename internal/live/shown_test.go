package live

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// A figure that is shown says as which picture it was saved, if it still is that.
func TestSavedFigure(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	p.want(p.run(s, "import matplotlib.pyplot as plt"), StatusOK)
	for code, want := range map[string][]string{
		"plt.plot([1]); plt.savefig('c.png'); plt.show()":                                             {"c.png"},
		"plt.plot([1]); plt.savefig('d.png')":                                                         {"d.png"},
		"plt.plot([1]); plt.savefig('e.png'); plt.title('changed'); plt.show()":                       {""},
		"plt.plot([1]); plt.savefig('/tmp/f.png'); plt.show()":                                        {""},
		"plt.plot([1]); plt.savefig('g.svg'); plt.show()":                                             {""},
		"for n in (1, 2):\n plt.figure(); plt.plot([n])\n if n > 1: plt.savefig('h.jpg')\nplt.show()": {"", "h.jpg"},
	} {
		c := p.want(p.run(s, code), StatusOK)
		var got []string
		for _, o := range c.Outputs {
			var about map[string]struct{ Saved string }
			if o.Data["image/png"] == nil {
				continue
			}
			if err := json.Unmarshal(o.Metadata, &about); err != nil {
				t.Errorf("%s: %s: %v", code, o.Metadata, err)
			}
			got = append(got, about["image/png"].Saved)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: figures saved as %q, not %q", code, got, want)
		}
	}
	c := p.run(s, "plt.plot([1]); plt.savefig('no/folder.png')")
	if e := raised(c); e.Name != "FileNotFoundError" || strings.Contains(strings.Join(e.Traceback, "\n"), "/opt/airlock/live") {
		t.Errorf("%+v", e)
	}
}

// An image that Pillow shows is displayed, and no program of a desktop is started for it.
func TestImagesOfPillow(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	started := "import subprocess, os\nplain, ran = subprocess.Popen, []\n" +
		"class Popen(plain):\n def __init__(self, *a, **k): ran.append(a); super().__init__(*a, **k)\nsubprocess.Popen = Popen\n"
	p.want(p.run(s, started), StatusOK)
	c := p.want(p.run(s, "from PIL import Image\nImage.new('RGB', (4, 4)).show()\n"+
		"Image.new('1', (4, 4)).show(title='t')\nran"), StatusOK)
	var kinds []string
	for _, o := range c.Outputs {
		kind := string(o.Type)
		if o.Data["image/png"] != nil {
			kind += " picture"
		}
		kinds = append(kinds, kind)
	}
	if want := []string{"display picture", "display picture", "result"}; !slices.Equal(kinds, want) ||
		form(t, c.Outputs[2], "text/plain") != "[]" {
		t.Errorf("%q, %+v", kinds, c.Outputs)
	}
}

// A data frame comes with its size and its values, as far as there is room for them.
func TestTableForm(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	p.want(p.run(s, "import numpy as np, pandas as pd, decimal"), StatusOK)
	type field struct{ Name, Type string }
	type table struct {
		Rows, Columns, Index int
		Fields               []field
		Data                 [][]any
	}
	shown := func(code string) (got table) {
		t.Helper()
		c := p.want(p.run(s, code), StatusOK)
		if len(c.Outputs) != 1 {
			t.Fatalf("%s: %+v", code, c.Outputs)
		}
		if raw := c.Outputs[0].Data[TableForm]; raw != nil {
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatalf("%s: %v", code, err)
			}
		}
		return got
	}
	zeros := shown("pd.DataFrame(np.zeros((2000, 14)))")
	if zeros.Rows != 2000 || zeros.Columns != 14 || zeros.Index != 1 || len(zeros.Data) != 2000 || len(zeros.Fields) != 15 ||
		zeros.Fields[0] != (field{"", "integer"}) || zeros.Fields[14] != (field{"13", "number"}) || zeros.Data[1999][0] != 1999.0 {
		t.Errorf("%d rows and %d columns, %d rows are there: %v", zeros.Rows, zeros.Columns, len(zeros.Data), zeros.Fields)
	}
	for code, want := range map[string]string{
		"pd.DataFrame({'t': pd.to_datetime(['2024-01-01', None]), 's': ['007', 'b'], 'n': [1, 2**60], 'f': [1.5, np.nan]})": `[[0,"2024-01-01","007",1,1.5],[1,null,"b","1152921504606846976",null]] datetime string integer number`,
		"pd.DataFrame({'i': pd.array([1, None], 'Int64'), 'd': [decimal.Decimal('1.10'), 2], 'b': [True, False]})":          `[[0,1,"1.10",true],[1,null,"2",false]] integer number boolean`,
		"pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_tuples([('x', 1)], names=['k', 'l']))":                           `[["x",1,1]] integer integer`,
		"pd.DataFrame()": `[] `,
	} {
		got := shown(code)
		data, err := json.Marshal(got.Data)
		var types []string
		for _, f := range got.Fields[min(1, len(got.Fields)):] {
			types = append(types, f.Type)
		}
		if text := string(data) + " " + strings.Join(types, " "); err != nil || strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(text) != want {
			t.Errorf("%s: %s, not %s", code, text, want)
		}
	}
	for code, want := range map[string][2]int{ // how many rows there are, and how many are sent at most
		"pd.DataFrame(np.zeros((1_000_000, 3)))":    {1_000_000, 10_000},
		"pd.DataFrame({'s': ['x' * 900] * 20_000})": {20_000, 10_000},
		"pd.DataFrame(np.random.rand(3000, 500))":   {3000, 500},
		"pd.DataFrame([['x' * 900] * 300] * 200)":   {200, 20},
	} {
		got := shown(code)
		raw, err := json.Marshal(got)
		if err != nil || got.Rows != want[0] || len(got.Data) == 0 || len(got.Data) > want[1] || len(raw) > 1<<20 {
			t.Errorf("%s: %d of %d rows, %d bytes, %v", code, len(got.Data), got.Rows, len(raw), err)
		}
	}
	if got := shown("pd.set_option('display.notebook_repr_html', False)\npd.DataFrame({'a': [1]})"); got.Rows != 0 {
		t.Errorf("it is shown as text: %+v", got)
	}
}

// JSON has no NaN, which libraries display all the same.
func TestNaN(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	c := p.want(p.run(s, "from IPython.display import JSON\nJSON({'x': [float('nan'), float('-inf'), 1.5]})"), StatusOK)
	if o := c.Outputs[0]; string(o.Data["application/json"]) != `{"x": ["NaN", "-Infinity", 1.5]}` {
		t.Errorf("%s", o.Data["application/json"])
	}
}
