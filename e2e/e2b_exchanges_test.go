package e2e

import (
	"bytes"
	"cmp"
	"context"
	order "encoding/binary"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
)

var record = flag.Bool("record", false, "have E2B's clients make the recordings of their exchanges anew")

const e2bRecordings = "../internal/dialect/e2b/testdata"

// What E2B's clients were recorded to send gets the answers that it got then, but for
// what differs from run to run. `make e2b-recordings` lets the clients, unchanged, make
// the recordings anew.
func TestE2BExchanges(t *testing.T) {
	t.Parallel()
	needPackages(t)
	who := anyPerson(t)
	s := serve(t, who, dataWithPackages(t, who))
	if *record {
		recordE2B(t, s.url)
	}
	dialecttest.Replay(t, e2bRecordings+"/*.txtar", func(*testing.T) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil && isConnectStream(r.Header) {
				body = frames(body)
			}
			resp, answer, err := forward(r, s.url, body, err)
			if err != nil {
				http.Error(w, err.Error(), http.StatusTeapot)
				return
			}
			for name, values := range resp.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = w.Write(readable(resp.Header, answer)) // into memory
		})
	})
}

// forward asks the service what a client asked, whose address has no prefix.
func forward(r *http.Request, service string, body []byte, err error) (*http.Response, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, service+"/e2b"+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Accept-Encoding")
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, err
}

func isConnectStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/connect+json")
}

// frames makes messages of a stream of Connect's out of lines, each a flag and JSON.
func frames(lines []byte) (stream []byte) {
	for line := range strings.Lines(string(lines)) {
		flag, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		stream = append(stream, flag[0]-'0')
		stream = append(order.BigEndian.AppendUint32(stream, uint32(len(message))), message...)
	}
	return stream
}

// readable makes lines out of messages, joins the texts that a slow machine sent in pieces,
// and leaves out what only says that it is alive.
func readable(h http.Header, answer []byte) []byte {
	if isConnectStream(h) {
		var lines []byte
		for len(answer) >= 5 {
			end := min(len(answer), 5+int(order.BigEndian.Uint32(answer[1:])))
			lines = fmt.Appendf(lines, "%d %s\n", answer[0], answer[5:end])
			answer = answer[end:]
		}
		answer = lines
	}
	answer = alive.ReplaceAll(answer, nil)
	for _, join := range pieces {
		for before := 0; before != len(answer); {
			before, answer = len(answer), join.ReplaceAll(answer, []byte("$1$2"))
		}
	}
	return answer
}

// pieces find the place where one text of a program came in two.
var pieces = []*regexp.Regexp{piece("stdout"), piece("stderr")}

func piece(stream string) *regexp.Regexp {
	const text = `(?m)^({"text":"(?:\\.|[^"\\])*)`
	end := `","timestamp":"[^"]*","type":"` + stream + `"}`
	return regexp.MustCompile(text + end + `\n{"text":"((?:\\.|[^"\\])*` + end + `)$`)
}

var alive = regexp.MustCompile(`(?m)^({"type":"keepalive"}|0 {"event":{"keepalive":{}}})\n`)

// recordE2B runs the clients against a proxy that writes down what goes through it.
func recordE2B(t *testing.T, service string) {
	folder := e2bClients(t)
	for name, command := range map[string][]string{
		"python":     {filepath.Join(folder, "python/bin/python"), "e2b/exchanges.py"},
		"typescript": {"node", "e2b/exchanges.mjs"},
		"smolagents": {filepath.Join(folder, "python/bin/python"), "e2b/smol.py"},
	} {
		rec := &recording{t: t, service: service, known: map[string]string{}}
		proxy := httptest.NewServer(rec)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "AIRLOCK_SDK="+folder, "E2B_API_KEY=e2b_0000", "E2B_API_URL="+proxy.URL,
			"E2B_SANDBOX_URL="+proxy.URL)
		out, err := cmd.CombinedOutput()
		cancel()
		proxy.Close()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		text := fmt.Sprintf("What E2B's clients send and get (%s), recorded by `make e2b-recordings`.\n\n%s",
			filepath.Base(command[1]), rec.text.String())
		if err := os.WriteFile(filepath.Join(e2bRecordings, name+".txtar"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recording is a proxy. Its exchanges come one after the other, as they are replayed.
type recording struct {
	t       *testing.T
	service string
	busy    atomic.Int32
	text    strings.Builder
	known   map[string]string // names of what answers said, by what it was
}

func (rec *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rec.busy.Add(1) > 1 {
		rec.t.Errorf("%s %s comes while another is under way, which is not replayed", r.Method, r.URL)
	}
	defer rec.busy.Add(-1)
	body, err := io.ReadAll(r.Body)
	resp, answer, err := forward(r, rec.service, body, err)
	if err != nil {
		rec.t.Error(err)
		return
	}
	rec.write(r, body, resp, answer)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // a client that has left has failed, too
}

// unrecorded are headers that say nothing of the protocol, or that the transport makes.
var unrecorded = []string{"Accept", "Accept-Encoding", "Accept-Language", "Connection", "Content-Length", "Host",
	"Lang_version", "Machine", "Os", "Processor", "Release", "Sec-Fetch-Mode", "System", "Transfer-Encoding", "User-Agent"}

func (rec *recording) write(r *http.Request, body []byte, resp *http.Response, answer []byte) {
	request := fmt.Sprintf("%s %s\n", r.Method, r.URL.RequestURI())
	for name := range r.Header {
		if slices.Contains(unrecorded, name) {
			continue
		}
		request += fmt.Sprintf("%s: %s\n", name, r.Header.Get(name))
	}
	first, headers, _ := strings.Cut(request, "\n")
	sorted := strings.SplitAfter(headers, "\n")
	slices.Sort(sorted)
	text := strings.ReplaceAll(string(readable(r.Header, body)), "\r\n", "\n")
	request = rec.named(first + "\n" + strings.Join(sorted, "") + "\n" + text)
	response := fmt.Sprintf("%d\n", resp.StatusCode)
	if kind := resp.Header.Get("Content-Type"); kind != "" {
		response += "Content-Type: " + kind + "\n"
	}
	fmt.Fprintf(&rec.text, "-- request --\n%s\n-- response --\n%s\n", request,
		rec.hollow(response+"\n"+string(readable(resp.Header, answer))))
}

// named has a hole for whatever an earlier answer said.
func (rec *recording) named(text string) string {
	for value, name := range rec.known {
		if number, ok := strings.CutPrefix(value, pid); ok {
			text = regexp.MustCompile(pid+number+`\b`).ReplaceAllString(text, pid+"<<"+name+">>")
		} else {
			text = strings.ReplaceAll(text, value, "<<"+name+">>")
		}
	}
	return text
}

const pid = `"pid":`

var (
	// varying are values that later requests have, with their kinds. A number counts only with its key.
	varying = regexp.MustCompile(`"(sandboxID|envdAccessToken|id|watcherId)":"([A-Za-z0-9_-]{20,})"|("pid":\d+)`)
	holes   = []struct {
		expr *regexp.Regexp
		hole string
	}{
		{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)"`), `"<<time>>"`},
		{regexp.MustCompile(`"(timestampUnix|cpuCount|memUsed|memTotal|diskUsed|diskTotal|memoryMB|diskSizeMB)":\d+`),
			`"$1":<<int>>`},
		{regexp.MustCompile(`"(cpuUsedPct)":[0-9.]+`), `"$1":<<any>>`},
		{regexp.MustCompile(`"(traceback|domain|png|jpeg)":"(\\.|[^"\\])*"`), `"$1":"<<any>>"`},
	}
)

// hollow has a hole for whatever differs from run to run.
func (rec *recording) hollow(text string) string {
	text = rec.named(text)
	for _, h := range holes {
		text = h.expr.ReplaceAllString(text, h.hole)
	}
	for _, found := range varying.FindAllStringSubmatch(text, -1) {
		value, kind := found[2], "word"
		if found[3] != "" {
			value, kind = found[3], "int"
		}
		if _, again := rec.known[value]; again {
			continue
		}
		name := fmt.Sprintf("%s_%d", strings.ToLower(cmp.Or(found[1], "pid")), len(rec.known)+1)
		rec.known[value] = name
		text = strings.Replace(rec.named(text), "<<"+name+">>", "<<"+name+":"+kind+">>", 1)
	}
	return text
}
