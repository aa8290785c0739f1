package browser

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// flows are those of conversations with a provider elsewhere, in one service.
type flows struct {
	*asking
	*tab
	remote *providertest.OpenAI
	gate   *gate // before the provider
}

// TestAskFlows goes through every question and every end of a file's way, on a
// wide and on a narrow screen.
func TestAskFlows(t *testing.T) {
	remote := providertest.NewOpenAI(t)
	g := newGate(t, remote.URL)
	a := ask(t, "OPENAI_API_KEY="+providertest.OpenAIKey, "OPENAI_BASE_URL="+g.url+"/v1")
	inEachSize(t, func(t *testing.T, how look) {
		a.reset()
		remote.Clock.Advance(time.Since(remote.Clock.Now())) // it says when it was used last
		f := &flows{a, open(t, how), remote, g}
		f.files()
		f.saves()
		f.applies()
		f.moves()
	})
}

// begins opens the page with the provider and the project chosen.
func (f *flows) begins() {
	f.t.Helper()
	f.goTo(f.url + "/ask")
	f.choose("#provider", provider.OpenAI)
	f.choose("#model", "gpt-5")
	f.choose("#project", "atlas")
}

// asks sends a prompt, to which the model answers so.
func (f *flows) asks(prompt string, turns ...providertest.Turn) {
	f.t.Helper()
	f.remote.Rescript(turns...)
	f.wait(`!document.querySelector('#send').disabled`)
	f.run(`document.querySelector('#prompt').value = ` + quote(prompt))
	f.press("#send")
}

// press presses a button wherever it is: previews that arrive move what is
// below them.
func (f *flows) press(selector string) {
	f.t.Helper()
	f.wait(`document.querySelector(` + quote(selector) + `)`)
	f.run(`document.querySelector(` + quote(selector) + `).click()`)
}

func (f *flows) says(selector string, wants ...string) {
	f.t.Helper()
	got := f.text(selector)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			f.t.Errorf("%s lacks %q: %q", selector, want, got)
		}
	}
}

// question waits for a question of a title.
func (f *flows) question(title string) {
	f.t.Helper()
	f.wait(`document.querySelector('.questions .question h3')?.innerText === ` + quote(title))
}

var reads = providertest.Turn{Steps: []providertest.Step{
	{Code: "print(open('rates.csv').read())", Stdout: "region,rate\nEast,1.2\n"}}, Text: "East is at 1.2."}

// files are asked about in every way before they leave: consent, within the
// request, without some of them, and further ones that the model wants. Then
// the container expires, and the conversation ends and is taken up again.
func (f *flows) files() {
	t := f.t
	t.Helper()
	f.begins()
	f.says("#can", "Python and shell", "files go to OpenAI")
	f.give("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
	f.press("#browse")
	f.wait(`document.querySelector('.browser [data-at="data"]')`)
	f.press(`.browser [data-at="data"]`)
	f.wait(`document.querySelector('.browser [data-path="data/rates.csv"]')`)
	f.press(`.browser [data-path="data/rates.csv"]`)
	f.wait(`document.querySelector('#inputs input[name=path]')`)
	f.inspect("ask-browse")
	before, there := f.remote.Count(providertest.OpUpload), f.remote.Objects()
	f.remote.Inject(providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultStatus,
		Status: http.StatusNotFound})
	f.asks("Look at the rates of each region", reads)
	f.question("May these files leave this machine?")
	f.says(".question", "OpenAI (127.0.0.1", "Careful:", "data/rates.csv")
	if got := eval[[]bool](
		f.tab, `[...document.querySelectorAll('.question [name=pick]')].map((box) => box.checked)`); len(got) != 2 ||
		got[0] == got[1] {
		t.Errorf("marked: %v, want the one that is nothing to be careful about", got)
	}
	if f.remote.Count(providertest.OpUpload) != before {
		t.Error("a file was sent before anybody agreed")
	}
	f.inspect("ask-consent")
	f.press(".question button[value=yes]")

	f.question("Send within the request?")
	f.says(".question", "with each one that follows", "data/rates.csv")
	f.inspect("ask-inline")
	f.press(".question button[value=yes]")
	f.over(1)
	f.says("#turn-1", "You agreed to send 1 of 2 files to OpenAI", "You agreed to send 1 file within the request",
		"travels within the request", "East is at 1.2.")

	f.remote.Inject(providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultStatus,
		Status: http.StatusBadRequest})
	f.give("odd.bin", "\x00\x01")
	f.asks("And this one?", providertest.Turn{Text: "I see no further file."})
	f.question("May these files leave this machine?")
	f.press(".question button[value=yes]")
	f.question("Continue without these files?")
	f.says(".question", "odd.bin", "1 of 1 file cannot be sent")
	if got := eval[string](f.tab, "getComputedStyle(document.querySelector('.question')).position"); got != "static" {
		f.t.Errorf("the question is %s: it stands over the conversation", got)
	}
	f.inspect("ask-skip")
	f.press(".question button[value=yes]")
	f.over(2)
	f.says("#turn-2", "You went on without 1 file", "not sent:", "I see no further file.")

	// of strings
	wants, _ := json.Marshal(map[string]any{"paths": []string{"data/rates.csv", "notes.txt"},
		"reason": "The notes say what the rates mean."})
	f.asks("What do they mean?", providertest.Turn{Steps: []providertest.Step{{Code: "import os; os.listdir()"}},
		Calls: []providertest.Call{{Name: "request_files", Arguments: wants}}},
		providertest.Turn{Text: "They are rates."})
	f.question("The model asks for more files")
	f.says(".question", "The notes say what the rates mean.", "was not checked", "notes.txt")
	if eval[bool](f.tab, `[...document.querySelectorAll('.question [name=pick]')].some((box) => box.checked)`) {
		t.Error("files that the model chose are marked")
	}
	f.inspect("ask-more")
	f.press(`.question [name=pick][value=f2]`)
	f.press(".question button[value=yes]")
	f.over(3)
	f.says("#turn-3", "You gave the model 1 of 2 files", "which the model asked for", "They are rates.")
	f.expires()
	f.ends(there)
}

// expires lets the page's clock run until the container is no more. The provider's clock stands
// since the test began, so that of the 20 minutes some are over, and on a busy machine several.
func (f *flows) expires() {
	f.t.Helper()
	f.wait(`document.querySelector('#clock .badge').innerText.match(/^(1\d|20):\d\d$/)`)
	f.run(`const [minutes, seconds] = document.querySelector('#clock .badge').innerText.split(':');
		window.left = (60 * minutes + Number(seconds)) * 1e3; window.now = Date.now; Date.now = () => now() + left - 110e3`)
	f.wait(`document.querySelector('#clock.soon .badge')?.innerText.match(/^0[01]:\d\d$/)`)
	f.run(`Date.now = () => now() + left + 1e3`)
	f.wait(`document.querySelector('#clock.over')`)
	f.says("#clock", "expired", "has expired. The next turn makes a new one with the same files")
	f.run(`scrollTo(0, document.documentElement.scrollHeight)`)
	f.inspect("ask-expired")
	f.run(`Date.now = window.now`)
	f.remote.ExpireSessions()
	f.asks("Still there?", providertest.Turn{Text: "I am."})
	f.over(4)
	f.says("#turn-4", "has expired; a new one is made with the same files", "I am.")
}

// ends ends the conversation, which leaves at the provider what was there
// before, and takes it up again.
func (f *flows) ends(there []string) {
	t := f.t
	t.Helper()
	f.run(`window.confirm = () => true`)
	f.press(`form[action$="/close"] button`)
	f.wait(`document.querySelector('.cleaned') && document.querySelector('#kept p')`)
	for _, left := range f.remote.Objects() {
		if !slices.Contains(there, left) {
			t.Errorf("left at the provider: %s", left)
		}
	}
	f.says("#kept", "gives these files to a new one, after you agreed", "data/rates.csv", "notes.txt")
	f.inspect("ask-ended")
	f.asks("And now?", providertest.Turn{Text: "never"})
	f.question("May these files leave this machine?")
	f.says(".question", "Given again: an earlier turn has brought it.")
	f.inspect("ask-again")
	f.press(".question button[value=no]")
	f.over(5)
	f.says("#turn-5", "not sent", "You did not agree to send files to OpenAI")
	if f.text("#kept") != "" {
		t.Errorf("it still says %q", f.text("#kept"))
	}
}

const newNotes = "# Notes\nRates are per region.\nThey hold for 2026.\nEast is the base.\n"

// saves saves what code made: over another file after a look at what changes,
// beside one, and later from its card; and discards and downloads.
func (f *flows) saves() {
	t := f.t
	t.Helper()
	f.begins()
	f.writes("kept.txt", "mine\n")
	f.asks("Write it down", providertest.Turn{Steps: []providertest.Step{{Code: "write()", Files: []providertest.Made{
		{Name: "notes.txt", Data: []byte(newNotes)}, {Name: "sales.png", Data: onePixel()},
		{Name: "later.txt", Data: []byte("one\ntwo\n")}, {Name: "never.txt", Data: []byte("x\n")},
		{Name: "kept.txt", Data: []byte("theirs\n")}, {Name: "pass.txt", Data: []byte("z\n")}}}},
		Text: "All is in [notes.txt](sandbox:/mnt/data/notes.txt)."})
	f.question("Save what was made?")
	f.wait(`document.querySelectorAll('.question [name=pick]').length === 6`)
	row := func(name string) string {
		return `[...document.querySelectorAll('.question .pick-row')].find((row) => row.querySelector('.file-name').innerText === ` + quote(name) + `)`
	}
	f.run(row("notes.txt") + `.querySelector('[value=replace]').click()`)
	f.wait(row("notes.txt") + `.querySelector('details').open`)
	if got := eval[string](f.tab, row("notes.txt")+`.querySelector('.diff').innerText`); !strings.Contains(
		got, "They hold for 2025.") || !strings.Contains(got, "They hold for 2026.") {
		t.Errorf("replacing shows %q", got)
	}
	if !eval[bool](f.tab, row("notes.txt")+`.querySelector('[name=pick]').checked && !`+row("sales.png")+
		`.querySelector('[name=pick]').checked`) {
		t.Error("what is replaced is not marked, or what nobody chose is")
	}
	f.run(row("sales.png") + `.querySelector('details').open = true; ` + row("sales.png") +
		`.querySelector('[value=rename]').click(); ` + row("sales.png") + `.querySelector('[name=pick]').checked = true`)
	f.run(row("kept.txt") + `.querySelector('[value=skip]').click()`)
	for _, name := range []string{"later.txt", "never.txt", "pass.txt"} {
		f.run(row(name) + `.querySelector('[name=pick]').checked = false`)
	}
	f.run(`document.querySelector('.question').scrollIntoView()`)
	f.inspect("ask-clash")
	f.press(".question button[value=yes]")
	f.over(1)
	f.says("#turn-1", "You agreed to save 2 of 6 files", "the history of atlas")
	if got := f.reads("notes.txt"); got != newNotes {
		t.Errorf("replaced: %q", got)
	}
	if f.reads("sales.png") != "the old one" || f.reads("sales (2).png") != string(onePixel()) {
		t.Error("the picture is not beside the old one")
	}
	if got := f.reads("kept.txt"); got != "mine\n" {
		t.Errorf("skipped: %q", got)
	}
	f.settles()
}

// settles decides about files after the turn.
func (f *flows) settles() {
	t := f.t
	t.Helper()
	card := func(name string) string { return `.card[data-name="` + name + `"]` }
	f.press(card("never.txt") + ` .settle .primary`)
	f.wait(`document.querySelector('` + card("never.txt") + ` .badge')?.innerText === 'saved'`)
	f.writes("later.txt", "one\n")
	f.press(card("later.txt") + ` .settle .primary`)
	f.wait(`document.querySelector('` + card("later.txt") + ` .badge')?.innerText === 'a file has this name'`)
	f.run(`document.querySelector('` + card("later.txt") + ` .replace summary').click()`)
	f.wait(`document.querySelector('` + card("later.txt") + ` .diff')?.innerText.includes('two')`)
	f.run(`document.querySelector('.cards').scrollIntoView()`)
	f.wait(`!document.querySelector('[data-preview][aria-busy]')`)
	f.inspect("ask-card-clash")
	f.press(card("later.txt") + ` .settle [value=replace]`)
	f.wait(`document.querySelector('` + card("later.txt") + ` .badge')?.innerText === 'saved'`)
	if got := f.reads("later.txt"); got != "one\ntwo\n" {
		t.Errorf("replaced later: %q", got)
	}
	f.writes("pass.txt", "mine\n")
	f.press(card("pass.txt") + ` .settle .primary`)
	f.press(card("pass.txt") + ` .settle [value=skip]`)
	f.wait(`!document.querySelector('` + card("pass.txt") + ` .settle [value=skip]')`)
	if got := f.reads("pass.txt"); got != "mine\n" {
		t.Errorf("skipped later: %q", got)
	}
	link := eval[string](f.tab, `document.querySelector('`+card("notes.txt")+` a[download]').href`)
	if _, header, body := f.fetch(strings.TrimPrefix(link, f.url)); body != newNotes ||
		!strings.Contains(header.Get("Content-Disposition"), `notes.txt`) {
		t.Errorf("the download is %q, %v", body, header)
	}
	f.asks("One more", providertest.Turn{Steps: []providertest.Step{
		{Code: "more()", Files: []providertest.Made{{Name: "more.txt", Data: []byte("more\n")}}}},
		Text: "[more.txt](sandbox:/mnt/data/more.txt)"})
	f.question("Save what was made?")
	f.press(".question button[value=no]")
	f.over(2)
	f.says("#turn-2", "You saved none of the files.", "discarded")
}

// applies has a reply that changes the project: it opens in Review.
func (f *flows) applies() {
	t := f.t
	t.Helper()
	f.begins()
	f.run(`document.querySelector('details.more').open = true; document.querySelector('[name=propose]').checked = true`)
	f.inspect("ask-settings")
	f.asks("Write a guide", providertest.Turn{
		Text: "Here is a guide.\n\n```md:docs/guide.md\n# Guide\n\nSet `PORT` to choose the port.\n```\n"})
	f.question("The reply changes the project")
	f.says(".question", "docs/guide.md", "+3", "new", "Review shows every line")
	f.inspect("ask-apply")
	at := eval[string](f.tab, "location.href")
	f.press(".question button[value=review]")
	f.wait(`location.pathname.startsWith('/ui/review/') && document.querySelector('main')?.innerText.includes('docs/guide.md')`)
	if _, err := os.Stat(filepath.Join(f.project, "docs")); err == nil {
		t.Error("the guide was written before anybody saw it")
	}
	f.goTo(at)
	f.over(1)
	f.says("#turn-1", "You left the changes of the project for review.", "Open them in Review")
}

const large = 32 << 20

// creeps lets a held body go on bit by bit until the page shows something, always more slowly: what is
// to be seen is over after some bits, and a busy service reports them late.
func (f *flows) creeps(h *hold, condition string) {
	f.t.Helper()
	deadline := time.Now().Add(waitTime)
	for pause := 10 * time.Millisecond; !eval[bool](f.tab, "!!("+condition+")"); pause = pause * 3 / 2 {
		h.step()
		<-time.After(pause)
		if time.Now().After(deadline) {
			f.capture("failed-" + strings.ReplaceAll(f.t.Name(), "/", "-"))
			f.t.Fatalf("it does not become true: %s", condition)
		}
	}
}

// moves looks at files that are on their way: to the service, to the provider
// and back.
func (f *flows) moves() {
	t := f.t
	t.Helper()
	front := newGate(t, strings.TrimSuffix(f.url, "/ui"))
	f.goTo(front.url + "/ui/ask")
	f.choose("#provider", provider.OpenAI)
	f.choose("#model", "gpt-5")
	up := front.hold(http.MethodPost, "/files", 1<<20)
	f.run(`const data = new DataTransfer(); data.items.add(new File([new Uint8Array(32 << 20)], 'large.bin'));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	f.creeps(up, `document.querySelector('.input small')?.innerText.match(/^[\d.]+ MiB of 32 MiB$/) && document.querySelector('.input progress').value > 0 && document.querySelector('.input progress').value < 1`)
	f.inspect("ask-adding")
	up.release()
	f.wait(`document.querySelector('#inputs input[name=file]') && document.querySelector('.input small').innerText === '32 MiB'`)

	send := f.gate.hold(http.MethodPost, "/v1/files", 1<<20)
	fetch := f.gate.hold(http.MethodGet, "/content", 5<<20)
	f.asks("Turn it round", providertest.Turn{Steps: []providertest.Step{
		{Code: "turn()", Files: []providertest.Made{{Name: "turned.bin", Data: make([]byte, large)}}}},
		Text: "[turned.bin](sandbox:/mnt/data/turned.bin)"})
	f.question("May these files leave this machine?")
	f.press(".question button[value=yes]")
	f.creeps(send, `document.querySelector('.sent small')?.innerText.match(/^sending, [\d.]+ MiB of 32 MiB$/) && document.querySelector('.sent progress').value > 0 && document.querySelector('.sent progress').value < 1`)
	f.inspect("ask-sending")
	send.release()
	f.creeps(fetch, `document.querySelector('.coming small')?.innerText.match(/^fetching, [5-9](\.\d)? MiB/) && document.querySelector('.coming progress').value < 1`)
	f.says(".sent", "32 MiB, sent")
	f.inspect("ask-fetching")
	fetch.release()
	f.over(1)
	f.says(".cards", "turned.bin", "32 MiB", "Download")
}
