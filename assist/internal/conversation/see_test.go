package conversation_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// wire records the requests to a provider, except uploads.
type wire struct {
	mu   sync.Mutex
	sent strings.Builder
}

func (w *wire) client() *http.Client {
	c := provider.HTTPClient(provider.HTTPOptions{})
	c.Transport = listening{c.Transport, w}
	return c
}

type listening struct {
	next http.RoundTripper
	wire *wire
}

func (l listening) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.wire.mu.Lock()
		l.wire.sent.Write(append(body, '\n'))
		l.wire.mu.Unlock()
	}
	return l.next.RoundTrip(r)
}

func (l listening) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Files go to the code by their ids, never as text. A picture or a PDF with See is also
// shown to the model. Gemini and xAI have one way for both.
func TestSee(t *testing.T) {
	picture, document := "\x89PNG\r\n\x1a\n"+strings.Repeat("pixels", 50), "%PDF-1.7\n"+strings.Repeat("words", 50)
	shown := map[string][]string{
		provider.OpenAI:    {`"type":"input_image"`, `"type":"input_file"`},
		provider.Anthropic: {`"type":"image"`, `"type":"document"`},
		provider.Local:     {`"type":"image_url"`},
	}
	each(t, func(t *testing.T, s *stage) {
		for _, see := range []bool{false, true} {
			files := []conversation.File{s.file(t, "photo.png", picture), s.file(t, "report.pdf", document),
				s.file(t, "data.bin", strings.Repeat("\x00\x01\xfe", 100))}
			for i := range files {
				files[i].See = see
			}
			s.server.Rescript(providertest.Turn{Text: "Seen."})
			s.wire.sent.Reset()
			turn, err := s.turn(t, conversation.Prompt{Text: "Look", Files: files}, s)
			if err != nil {
				t.Fatal(err)
			}
			sent := s.wire.sent.String()
			for _, part := range shown[s.name] {
				if strings.Contains(sent, part) != see {
					t.Errorf("see %v, and %s in what was sent: %.2000s", see, part, sent)
				}
			}
			for name, content := range map[string]string{"photo.png": picture, "report.pdf": document,
				"data.bin": strings.Repeat("\x00\x01\xfe", 100)} {
				text := base64.StdEncoding.EncodeToString([]byte(content))
				allowed := s.name == provider.Local && see && name == "photo.png" // such endpoints know no ids
				if strings.Contains(sent, text[:40]) != allowed || strings.Contains(sent, "pixelspixels") ||
					strings.Contains(sent, "wordswords") {
					t.Errorf("see %v: %s travelled as text: %.2000s", see, name, sent)
				}
			}
			for _, in := range turn.Inputs {
				if in.See != (see && in.Name != "data.bin") {
					t.Errorf("the record of %s does not say that the model sees it: %+v", in.Name, in)
				}
			}
			said := strings.Contains(strings.Join(turn.Notices, " "), "report.pdf is not shown")
			if said != (see && s.name == provider.Local) {
				t.Errorf("see %v: %q", see, turn.Notices)
			}
			if s.name != provider.Local && s.asked[len(s.asked)-1].Files[0].See != see {
				t.Errorf("it is not said in the question: %+v", s.asked[len(s.asked)-1])
			}
		}
	})
}
