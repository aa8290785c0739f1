package providertest

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Op is the operation of a request, independent of the provider.
type Op string

// The operations.
const (
	OpCheck         Op = "check"
	OpUpload        Op = "upload" // the request that creates the file
	OpUploadPart    Op = "upload part"
	OpStat          Op = "stat"
	OpList          Op = "list"
	OpDownload      Op = "download"
	OpDelete        Op = "delete"
	OpSessionCreate Op = "session create"
	OpSessionGet    Op = "session get"
	OpSessionList   Op = "session list"
	OpSessionFiles  Op = "session files"
	OpSessionAdd    Op = "session add"
	OpSessionDelete Op = "session delete"
	OpRun           Op = "run"
	OpOther         Op = "other"
)

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of faults.
const (
	FaultStatus      FaultKind = "status"       // Status with the provider's error body; the request has no effect
	FaultLost        FaultKind = "lost"         // the request has its effect, and the answer gets lost
	FaultCut         FaultKind = "cut"          // half of the answer, then the connection breaks
	FaultTruncate    FaultKind = "truncate"     // half of the body, under a length that agrees with it
	FaultStall       FaultKind = "stall"        // half of the answer, then nothing until the client leaves
	FaultSlow        FaultKind = "slow"         // the answer in many small pieces
	FaultErrorAs200  FaultKind = "error as 200" // the provider's error body under status 200
	FaultExpire      FaultKind = "expire"       // all sessions expire just before the request
	FaultHTML        FaultKind = "html"         // a proxy's page, status 502
	FaultWrongLength FaultKind = "wrong length" // a longer length than the body
	FaultTwice       FaultKind = "twice"        // each event of a stream comes twice
	FaultEcho        FaultKind = "echo"         // Status, and the error repeats the key of the request
)

// Fault is a fault of one request.
type Fault struct {
	On     Op
	Kind   FaultKind
	Status int
	// RetryAfter is sent in the provider's format unless it is 0.
	RetryAfter time.Duration
	Skip       int // so many requests of this Op pass first
}

// record returns the recorded answer of a handler.
func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// breakOff answers a request with a fault.
func (b *Base) breakOff(w http.ResponseWriter, r *http.Request, f Fault) {
	switch f.Kind {
	case FaultStatus:
		b.writeError(w, f)
	case FaultEcho:
		b.echo(w, r, f)
	case FaultErrorAs200:
		rec := httptest.NewRecorder()
		b.dialect.WriteError(rec, http.StatusNotFound, 0)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		_, _ = w.Write(rec.Body.Bytes())
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html><body><h1>502 Bad Gateway</h1></body></html>"))
	case FaultExpire:
		b.dialect.ExpireSessions()
		b.dialect.ServeHTTP(w, r)
	case FaultLost:
		record(b.dialect, r)
		panic(http.ErrAbortHandler)
	default:
		b.garble(w, r, f, record(b.dialect, r))
	}
}

// writeError writes the error of a fault.
func (b *Base) writeError(w http.ResponseWriter, f Fault) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	b.dialect.WriteError(w, f.Status, f.RetryAfter)
}

// echo answers with an error that repeats the key of the request, also in a header.
func (b *Base) echo(w http.ResponseWriter, r *http.Request, f Fault) {
	rec := httptest.NewRecorder()
	b.writeError(rec, f)
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key = cmp.Or(key, r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.Header().Set("X-Request-Id", "req-"+key)
	w.Header().Set("Request-Id", "req-"+key)
	w.WriteHeader(rec.Code)
	said := regexp.MustCompile(`"(message|error)":\s*"`).ReplaceAllString(
		rec.Body.String(), `${0}Incorrect API key provided: `+key+`. `)
	_, _ = io.WriteString(w, said)
}

// garble sends a damaged answer.
func (b *Base) garble(w http.ResponseWriter, r *http.Request, f Fault, answer *httptest.ResponseRecorder) {
	body := answer.Body.Bytes()
	half := body[:len(body)/2]
	if f.Kind == FaultTwice {
		half = nil
		for event := range bytes.SplitAfterSeq(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
			half = append(append(half, event...), event...)
		}
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.Header().Del("Content-Length")
	switch f.Kind {
	case FaultTruncate:
		w.Header().Set("Content-Length", strconv.Itoa(len(half)))
	case FaultWrongLength:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+100))
		half = body
	case FaultStall, FaultCut:
		if r.Header.Get("Range") == "" && !bytes.Contains([]byte(answer.Header().Get("Content-Type")),
			[]byte("event-stream")) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
	}
	w.WriteHeader(answer.Code)
	flush := http.NewResponseController(w).Flush
	if f.Kind == FaultSlow {
		for piece := range bytes.SplitSeq(body, []byte("\n")) {
			_, _ = w.Write(piece)
			_, _ = w.Write([]byte("\n")[:min(1, len(body))])
			_ = flush()
		}
		return
	}
	_, _ = w.Write(half)
	_ = flush()
	switch f.Kind {
	case FaultCut, FaultWrongLength:
		panic(http.ErrAbortHandler)
	case FaultStall:
		<-r.Context().Done()
	}
}

// restOp returns the operation of a request to an API whose models run under one path.
func restOp(r *http.Request, run string) Op {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	switch {
	case strings.HasPrefix(path, "models"):
		return OpCheck
	case path == run:
		return OpRun
	case path == "files" && r.Method == http.MethodPost:
		return OpUpload
	case path == "files":
		return OpList
	case strings.HasSuffix(path, "/content"):
		return OpDownload
	case r.Method == http.MethodDelete:
		return OpDelete
	case strings.HasPrefix(path, "files/"):
		return OpStat
	}
	return OpOther
}
