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
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// TestShare makes a link, reads it without a key, and revokes it.
func TestShare(t *testing.T) {
	now := time.Now()
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) {
		o.API, o.Site.Now = http.NotFoundHandler(), func() time.Time { return now }
	})
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
	const notebook = `{"nbformat":4,"cells":[{"cell_type":"markdown","source":["*a* <script>x</script>"]},{"cell_type":"code","source":"print(1)"}]}`
	share := func(query string) pagetest.Answer {
		r := v.Request("POST", "/shares?"+query, strings.NewReader(notebook))
		r.Header.Set(page.TokenHeader, v.Token())
		r.Header.Set("Content-Type", "application/json")
		return v.Send(r)
	}
	for _, query := range []string{"", "days=0", "days=31", "days=x"} {
		if got := share(query); got.Status != http.StatusBadRequest {
			t.Errorf("%q is answered %d", query, got.Status)
		}
	}
	got := share("days=1&title=Sales")
	var made struct{ ID, URL string }
	if err := json.Unmarshal([]byte(got.Body), &made); err != nil || got.Status != http.StatusCreated {
		t.Fatalf("%d %s: %v", got.Status, got.Body, err)
	}
	link := strings.TrimPrefix(made.URL, "/ui")
	stranger := v.another()
	page := stranger.Get(link)
	if page.Status != 200 || !strings.Contains(page.Body, "<h1>Sales</h1>") || strings.Contains(page.Body, ">ada<") ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"), "frame-src ") {
		t.Errorf("the shared page: %d %s", page.Status, page.Body)
	}
	var copied struct {
		Cells []struct {
			HTML string `json:"airlock_html"`
		}
	}
	body := stranger.Get(link + "/notebook").Body
	if err := json.Unmarshal([]byte(body), &copied); err != nil || !strings.Contains(body, "print(1)") ||
		len(copied.Cells) != 2 || !strings.Contains(copied.Cells[0].HTML, "<em>a</em>") ||
		strings.Contains(copied.Cells[0].HTML, "<script") {
		t.Errorf("the shared notebook: %v: %s", err, body)
	}

	// A link opens only the shared file, and discloses nothing about other files.
	other, err := v.Engine.PutFile(t.Context(), engine.Caller{Owner: "ada"}, engine.Upload{
		Name: "secret.json", Origin: engine.OriginNative,
	}, strings.NewReader(`{"title":"secret","until":"2999-01-01T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if link != "/share/"+made.ID {
		t.Errorf("the link has more than an id: %s", link)
	}
	former := link + ".YWRh" // a link of earlier versions names its owner
	if got := stranger.Get(former); got.Status != http.StatusOK {
		t.Errorf("a link of an earlier version is answered %d", got.Status)
	}
	missing := stranger.Get("/share/" + strings.Repeat("A", 21))
	for _, bad := range []string{"/share/" + other.ID.String(), "/share/" + other.ID.String() + ".YWRh", "/share/x"} {
		if got := stranger.Get(bad); got.Status != http.StatusNotFound || len(got.Body) != len(missing.Body) {
			t.Errorf("%s is answered %d, with %d bytes; what is not there with %d", bad, got.Status, len(got.Body),
				len(missing.Body))
		}
	}
	_, eve := v.KeyFor("eve")
	stranger.SignIn(eve, "/")
	remove := func(who *visitor) pagetest.Answer {
		return who.Post("/shares/"+made.ID+"/delete", url.Values{"token": {who.Token()}})
	}
	if got := remove(stranger); got.Status != http.StatusNotFound {
		t.Errorf("somebody else revokes the link: %d", got.Status)
	}

	now = now.Add(25 * time.Hour)
	if got := stranger.Get(link); got.Status != http.StatusNotFound {
		t.Errorf("after its time the link is answered %d", got.Status)
	}
	now = now.Add(-25 * time.Hour)
	if got := remove(v); got.Status != http.StatusSeeOther {
		t.Errorf("taking it back is answered %d", got.Status)
	}
	if got := stranger.Get(link); got.Status != http.StatusNotFound {
		t.Errorf("after it was revoked the link is answered %d", got.Status)
	}
}

// TestShareRun shares a run, which anyone with the link reads as a notebook of one cell.
func TestShareRun(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("<b>printed"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
	run, err := v.Engine.Run(t.Context(), engine.Caller{Owner: "ada"}, engine.RunRequest{
		Language: "python", Code: "# totals\nprint(1)", Profile: engine.Profile{Origin: engine.OriginNative}})
	if err != nil {
		t.Fatal(err)
	}
	share := func(who *visitor, days string) pagetest.Answer {
		return who.Post("/runs/"+run.ID.String()+"/share", url.Values{"token": {who.Token()}, "days": {days}})
	}
	stranger := v.another()
	_, eve := v.KeyFor("eve")
	stranger.SignIn(eve, "/")
	if got := share(stranger, "7"); got.Status != http.StatusNotFound {
		t.Errorf("somebody else shares the run: %d", got.Status)
	}
	if got := share(v, "31"); got.Status != http.StatusBadRequest {
		t.Errorf("a link for 31 days is answered %d", got.Status)
	}
	got := share(v, "7")
	link := strings.TrimPrefix(got.Header.Get("Location"), "/ui")
	if got.Status != http.StatusSeeOther || !strings.HasPrefix(link, "/share/") {
		t.Fatalf("%d %s", got.Status, link)
	}
	other := v.another()
	if page := other.Get(link); page.Status != 200 || !strings.Contains(page.Body, "<h1>totals</h1>") {
		t.Errorf("the page: %d %s", page.Status, page.Body)
	}
	var file struct {
		Cells []struct {
			Source  string
			Outputs []struct{ Name, Text string }
		}
	}
	if err := json.Unmarshal([]byte(other.Get(link+"/notebook").Body), &file); err != nil || len(file.Cells) != 1 ||
		file.Cells[0].Source != "# totals\nprint(1)" || len(file.Cells[0].Outputs) != 1 ||
		file.Cells[0].Outputs[0].Text != "<b>printed" {
		t.Errorf("%v: the notebook has %+v", err, file)
	}
}

// shareNotebook makes a link to a notebook, and returns its path.
func shareNotebook(t *testing.T, v *visitor, notebook string) string {
	t.Helper()
	r := v.Request("POST", "/shares?days=1&title=x", strings.NewReader(notebook))
	r.Header.Set(page.TokenHeader, v.Token())
	r.Header.Set("Content-Type", "application/json")
	var made struct{ URL string }
	if got := v.Send(r); json.Unmarshal([]byte(got.Body), &made) != nil || got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return strings.TrimPrefix(made.URL, "/ui")
}

// What the text cells of a shared notebook become is bounded together. Cells beyond the bound are sent as text, and
// no cell brings HTML of its own.
func TestSharedNotebookIsBounded(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
	table := "|" + strings.Repeat("a|", 50) + "\\n|" + strings.Repeat("-|", 50) + "\\n" + strings.Repeat("|b\\n", 100)
	cell := `{"cell_type":"markdown","airlock_html":"<b>own</b>","source":"` + table + `"}`
	const cells = 300
	notebook := `{"cells":[` + strings.Repeat(cell+",", cells) + `{"cell_type":"code","source":"1"},{}],"nbformat":4}`
	body := v.another().Get(shareNotebook(t, v, notebook) + "/notebook").Body
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
	if body := v.another().Get(shareNotebook(t, v, "{}") + "/notebook").Body; body != "{}\n" {
		t.Errorf("a notebook of nothing: %s", body)
	}
}

// Answers in progress are bounded by the bytes that they read, and requests of all visitors by a rate.
func TestManyReadersOfShares(t *testing.T) {
	var s sharing
	taken := 0
	for range 10_000 {
		if s.reserve(maxShare) {
			taken++
		}
	}
	if taken != maxSharing/maxShare {
		t.Errorf("%d of the largest notebooks are sent at once, want %d", taken, maxSharing/maxShare)
	}
	if s.release(maxShare); !s.reserve(maxShare) {
		t.Error("the place of an answer that has ended is not free")
	}
	v := visitSite(t, false, pagetest.Prints("x"), func(o *Options) { o.API = http.NotFoundHandler() })
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
	link := shareNotebook(t, v, `{"cells":[]}`)
	p := &sharePage{site: &site{Site: v.Site, Options: Options{Engine: v.Engine}}, rate: rate.NewLimiter(0, 2)}
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
