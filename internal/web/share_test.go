package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestShare makes a link, reads it without a key, and revokes it.
func TestShare(t *testing.T) {
	now := time.Now()
	v := visitSite(t, false, prints("x"), func(o *Options) {
		o.API, o.Now = http.NotFoundHandler(), func() time.Time { return now }
	})
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	const notebook = `{"nbformat":4,"cells":[{"cell_type":"markdown","source":["*a* <script>x</script>"]},{"cell_type":"code","source":"print(1)"}]}`
	share := func(query string) answer {
		r := v.request("POST", "/shares?"+query, strings.NewReader(notebook))
		r.Header.Set(tokenHeader, v.token())
		r.Header.Set("Content-Type", "application/json")
		return v.send(r)
	}
	for _, query := range []string{"", "days=0", "days=31", "days=x"} {
		if got := share(query); got.status != http.StatusBadRequest {
			t.Errorf("%q is answered %d", query, got.status)
		}
	}
	got := share("days=1&title=Sales")
	var made struct{ ID, URL string }
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != http.StatusCreated {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	link := strings.TrimPrefix(made.URL, "/ui")
	stranger := v.another()
	page := stranger.get(link)
	if page.status != 200 || !strings.Contains(page.body, "<h1>Sales</h1>") || strings.Contains(page.body, ">ada<") ||
		!strings.Contains(page.header.Get("Content-Security-Policy"), "frame-src ") {
		t.Errorf("the shared page: %d %s", page.status, page.body)
	}
	var copied struct {
		Cells []struct {
			HTML string `json:"airlock_html"`
		}
	}
	body := stranger.get(link + "/notebook").body
	if err := json.Unmarshal([]byte(body), &copied); err != nil || !strings.Contains(body, "print(1)") ||
		len(copied.Cells) != 2 || !strings.Contains(copied.Cells[0].HTML, "<em>a</em>") ||
		strings.Contains(copied.Cells[0].HTML, "<script") {
		t.Errorf("the shared notebook: %v: %s", err, body)
	}

	// A link opens only the shared file, and discloses nothing about other files.
	other, err := v.engine.PutFile(t.Context(), engine.Caller{Owner: "ada"}, engine.Upload{
		Name: "secret.json", Origin: engine.OriginNative,
	}, strings.NewReader(`{"title":"secret","until":"2999-01-01T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if link != "/share/"+made.ID {
		t.Errorf("the link has more than an id: %s", link)
	}
	former := link + ".YWRh" // a link of earlier versions names its owner
	if got := stranger.get(former); got.status != http.StatusOK {
		t.Errorf("a link of an earlier version is answered %d", got.status)
	}
	missing := stranger.get("/share/" + strings.Repeat("A", 21))
	for _, bad := range []string{"/share/" + other.ID.String(), "/share/" + other.ID.String() + ".YWRh", "/share/x"} {
		if got := stranger.get(bad); got.status != http.StatusNotFound || len(got.body) != len(missing.body) {
			t.Errorf("%s is answered %d, with %d bytes; what is not there with %d", bad, got.status, len(got.body),
				len(missing.body))
		}
	}
	_, eve := v.keyFor("eve")
	stranger.signIn(eve, "/")
	remove := func(who *visitor) answer {
		return who.post("/shares/"+made.ID+"/delete", url.Values{"token": {who.token()}})
	}
	if got := remove(stranger); got.status != http.StatusNotFound {
		t.Errorf("somebody else revokes the link: %d", got.status)
	}

	now = now.Add(25 * time.Hour)
	if got := stranger.get(link); got.status != http.StatusNotFound {
		t.Errorf("after its time the link is answered %d", got.status)
	}
	now = now.Add(-25 * time.Hour)
	if got := remove(v); got.status != http.StatusSeeOther {
		t.Errorf("taking it back is answered %d", got.status)
	}
	if got := stranger.get(link); got.status != http.StatusNotFound {
		t.Errorf("after it was revoked the link is answered %d", got.status)
	}
}

// TestShareRun shares a run, which anyone with the link reads as a notebook of one cell.
func TestShareRun(t *testing.T) {
	v := visitSite(t, false, prints("<b>printed"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	run, err := v.engine.Run(t.Context(), engine.Caller{Owner: "ada"}, engine.RunRequest{
		Language: "python", Code: "# totals\nprint(1)", Profile: engine.Profile{Origin: engine.OriginNative}})
	if err != nil {
		t.Fatal(err)
	}
	share := func(who *visitor, days string) answer {
		return who.post("/runs/"+run.ID.String()+"/share", url.Values{"token": {who.token()}, "days": {days}})
	}
	stranger := v.another()
	_, eve := v.keyFor("eve")
	stranger.signIn(eve, "/")
	if got := share(stranger, "7"); got.status != http.StatusNotFound {
		t.Errorf("somebody else shares the run: %d", got.status)
	}
	if got := share(v, "31"); got.status != http.StatusBadRequest {
		t.Errorf("a link for 31 days is answered %d", got.status)
	}
	got := share(v, "7")
	link := strings.TrimPrefix(got.header.Get("Location"), "/ui")
	if got.status != http.StatusSeeOther || !strings.HasPrefix(link, "/share/") {
		t.Fatalf("%d %s", got.status, link)
	}
	other := v.another()
	if page := other.get(link); page.status != 200 || !strings.Contains(page.body, "<h1>totals</h1>") {
		t.Errorf("the page: %d %s", page.status, page.body)
	}
	var file struct {
		Cells []struct {
			Source  string
			Outputs []struct{ Name, Text string }
		}
	}
	if err := json.Unmarshal([]byte(other.get(link+"/notebook").body), &file); err != nil || len(file.Cells) != 1 ||
		file.Cells[0].Source != "# totals\nprint(1)" || len(file.Cells[0].Outputs) != 1 ||
		file.Cells[0].Outputs[0].Text != "<b>printed" {
		t.Errorf("%v: the notebook has %+v", err, file)
	}
}

// shareNotebook makes a link to a notebook, and returns its path.
func shareNotebook(t *testing.T, v *visitor, notebook string) string {
	t.Helper()
	r := v.request("POST", "/shares?days=1&title=x", strings.NewReader(notebook))
	r.Header.Set(tokenHeader, v.token())
	r.Header.Set("Content-Type", "application/json")
	var made struct{ URL string }
	if got := v.send(r); json.Unmarshal([]byte(got.body), &made) != nil || got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	return strings.TrimPrefix(made.URL, "/ui")
}

// What the text cells of a shared notebook become is bounded together. Cells beyond the bound are sent as text, and
// no cell brings HTML of its own.
func TestSharedNotebookIsBounded(t *testing.T) {
	v := visitSite(t, false, prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	table := "|" + strings.Repeat("a|", 50) + "\\n|" + strings.Repeat("-|", 50) + "\\n" + strings.Repeat("|b\\n", 100)
	cell := `{"cell_type":"markdown","airlock_html":"<b>own</b>","source":"` + table + `"}`
	const cells = 300
	notebook := `{"cells":[` + strings.Repeat(cell+",", cells) + `{"cell_type":"code","source":"1"},{}],"nbformat":4}`
	body := v.another().get(shareNotebook(t, v, notebook) + "/notebook").body
	var copied struct {
		Cells []struct {
			HTML   string `json:"airlock_html"`
			Source string
		}
		Format int `json:"nbformat"`
	}
	if err := json.Unmarshal([]byte(body), &copied); err != nil || len(copied.Cells) != cells+2 || copied.Format != 4 {
		t.Fatalf("%d cells, format %d, %v", len(copied.Cells), copied.Format, err)
	}
	rendered := 0
	for i, c := range copied.Cells {
		if strings.Contains(c.HTML, "own") {
			t.Fatalf("cell %d has HTML of its own", i)
		}
		rendered += len(c.HTML)
	}
	if first := copied.Cells[0]; rendered > maxSharedText || len(body) > len(notebook)+2*maxSharedText ||
		!strings.Contains(first.HTML, "<table>") || copied.Cells[cells-1].HTML != "" || copied.Cells[cells-1].Source == "" {
		t.Errorf("%d bytes became %d, %d of them HTML", len(notebook), len(body), rendered)
	}
	if body := v.another().get(shareNotebook(t, v, "{}") + "/notebook").body; body != "{}\n" {
		t.Errorf("a notebook of nothing: %s", body)
	}
}

// Answers in progress are bounded by the bytes that they read, and requests of all visitors by a rate.
func TestManyReadersOfShares(t *testing.T) {
	var s sharing
	taken := 0
	for range 10_000 {
		if s.take(maxShare) {
			taken++
		}
	}
	if taken != maxSharing/maxShare {
		t.Errorf("%d of the largest notebooks are sent at once, want %d", taken, maxSharing/maxShare)
	}
	if s.give(maxShare); !s.take(maxShare) {
		t.Error("the place of an answer that has ended is not free")
	}
	v := visitSite(t, false, prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	link := shareNotebook(t, v, `{"cells":[]}`)
	p := &sharePage{Site: v.site, rate: rate.NewLimiter(0, 2)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /share/{link}", p.public(p.show))
	for i, want := range []int{200, 200, 429, 429} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", link, http.NoBody))
		if w.Code != want || want == 429 && w.Header().Get("Retry-After") == "" {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if p.sharing.bytes != 0 {
		t.Errorf("%d bytes are counted after all answers", p.sharing.bytes)
	}
}
