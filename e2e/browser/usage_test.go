package browser

import (
	"net/http"
	"strings"
	"testing"
)

// TestUsagePage checks that the page shows what was used, and how much of the month's quota that is.
func TestUsagePage(t *testing.T) {
	s := serve(t, "--owner-month", "runs=4,cpu=1h")
	b := open(t, light)
	for range 3 {
		answer, err := http.Post(strings.TrimSuffix(s.url, "/ui")+"/api/v1/runs", "application/json",
			strings.NewReader(`{"language":"bash","code":"for i in $(seq 20000); do :; done"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
	}
	b.goTo(s.url + "/usage")
	b.wait(`document.querySelector('.days rect')`)
	for selector, want := range map[string]string{".figures dd": "3", "#bounds + .scroll tbody td": "3",
		"#bounds + .scroll td + td": "4", "#bounds + .scroll meter": "75 %", "#who + .scroll th[scope=row]": "local"} {
		if got := eval[string](b, "document.querySelector("+quote(selector)+")?.textContent"); got != want {
			t.Errorf("%s is %q, not %q", selector, got, want)
		}
	}
	b.state("usage-bounded")
	b.click(".months a")
	b.wait(`document.body?.innerText.includes('Nothing was used in')`)
	if got := eval[int](b, "document.querySelectorAll('.months a').length"); got != 2 {
		t.Errorf("%d links to other months", got)
	}
	b.state("usage-before")
}
