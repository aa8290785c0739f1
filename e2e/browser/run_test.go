package browser

import (
	"testing"
)

const plots = `import pandas as pd, numpy as np, matplotlib.pyplot as plt

rng = np.random.default_rng(7)
months = pd.period_range("2026-01", periods=12, freq="M").astype(str)
sales = pd.DataFrame({
    "month": months,
    "north": rng.integers(40, 90, 12),
    "south": rng.integers(20, 80, 12),
})
sales.to_csv("sales.csv", index=False)
print(sales.describe().round(1))
print("\033[32mbest month:\033[0m", months[sales.north.argmax()])

ax = sales.plot.bar(x="month", figsize=(8, 3.6), color=["#0e6b66", "#d9a441"], width=0.75)
ax.spines[["top", "right"]].set_visible(False)
ax.set_xlabel("")
plt.tight_layout()
plt.show()
`

// TestLooks runs a program with a table and a picture in every look.
func TestLooks(t *testing.T) {
	s := shared(t)
	for _, how := range looks {
		t.Run(how.name, func(t *testing.T) {
			b := open(t, how)
			b.goTo(s.url + "/")
			b.wait("document.querySelector('.cm-content')")
			b.runs(plots)
			b.run(`document.querySelector('.made').lastElementChild.scrollIntoView()`)
			b.wait(`document.querySelector('.made img')?.complete && document.querySelector('.look table')`)
			if got := b.text("#state"); got != "OK" {
				t.Errorf("state %q", got)
			}
			b.run(`scrollTo(0, 0)`)
			b.show("run")
		})
	}
}
