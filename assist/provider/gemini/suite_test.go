package gemini_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func open(tb testing.TB, part int) (*gemini.Client, *providertest.GeminiServer) {
	s := providertest.NewGeminiServer(tb)
	c, err := gemini.New(gemini.Options{Key: "test", URL: s.URL, Clock: s.Clock, PartSize: part})
	if err != nil {
		tb.Fatal(err)
	}
	return c, s
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, func(tb testing.TB) providertest.Bench {
		c, s := open(tb, 0)
		s.Processing = 2
		return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.GeminiModel}
	})
}

// An upload continues where it broke off, whatever its size and whichever request
// fails.
func TestUploadIsResumed(t *testing.T) {
	for _, size := range []int{0, 1, 9, 10, 11, 25, 30} {
		for _, fault := range []providertest.Fault{
			{}, {On: providertest.OpUploadPart, Kind: providertest.FaultStatus, Status: 503, Skip: 1},
			{On: providertest.OpUploadPart, Kind: providertest.FaultLost, Skip: 1},
			{On: providertest.OpUpload, Kind: providertest.FaultStatus, Status: 500},
			{On: providertest.OpUpload, Kind: providertest.FaultLost},
			{On: providertest.OpUpload, Kind: providertest.FaultHTML},
		} {
			t.Run(fmt.Sprintf("%d bytes, %s on %s", size, fault.Kind, fault.On), func(t *testing.T) {
				c, s := open(t, 10)
				if fault.Kind != "" {
					s.Inject(fault)
				}
				data := bytes.Repeat([]byte("0123456789"), 3)[:size]
				var sent int64
				info, err := c.Files().Upload(t.Context(), provider.Upload{
					Name: "x.csv", Size: -1, Body: iotest.HalfReader(bytes.NewReader(data)), Progress: func(n int64) { sent = n }})
				if err != nil {
					t.Fatal(err)
				}
				if info.Size != int64(size) || sent != int64(size) || info.MIME != "text/csv" || len(s.Objects()) != 1 {
					t.Errorf("%+v, sent %d, %v", info, sent, s.Objects())
				}
			})
		}
	}
}

func TestUploadErrors(t *testing.T) {
	c, s := open(t, 10)
	broken := io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(errors.New("disk")))
	if _, err := c.Files().Upload(t.Context(), provider.Upload{Name: "x", Size: -1, Body: broken}); !errors.Is(
		err, provider.Invalid) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	s.Processing = 1000
	info, err := c.Files().Upload(t.Context(), provider.Upload{Name: "slow", Size: 1, Body: strings.NewReader("x")})
	if !errors.Is(err, provider.NotReady) || info.Ref.ID == "" {
		t.Errorf("a file that is never ready: %+v, %v", info, err)
	}
	if len(s.Objects()) != 1 {
		t.Errorf("there are %v", s.Objects())
	}
	if _, _, err := c.Files().Open(t.Context(), info.Ref, 0); !errors.Is(err, provider.NotDownloadable) {
		t.Errorf("an upload is handed out: %v", err)
	}
}

// What came in one turn, ids and signatures, is sent back unchanged in the next:
// the server refuses it otherwise. So are the files of all turns.
func TestConversation(t *testing.T) {
	c, s := open(t, 0)
	info, err := c.Files().Upload(t.Context(), provider.Upload{Name: "a.csv", Size: 1, Body: strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "1/0", Exit: 1, Stderr: "no"},
		{Code: "sleep", TimedOut: true}}, Text: "hm"}, providertest.Turn{Text: "fine"})
	input := []provider.Turn{{Role: provider.RoleUser, Text: "go", Files: []provider.Attachment{{File: info}}}}
	first, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel, Input: input}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.Steps[0].Outcome != provider.OutcomeFailed || first.Steps[0].Stderr != "no" ||
		first.Steps[1].Outcome != provider.OutcomeTimeout {
		t.Errorf("%+v", first.Steps)
	}
	input = append(append(input, first.Next...), provider.Turn{Role: provider.RoleUser, Text: "and now?"})
	second, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel, Input: input}, nil)
	if err != nil || second.Text != "fine" {
		t.Errorf("%+v, %v", second, err)
	}
	if got, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel, Input: input},
		nil); err != nil || got.Stop != provider.StopDone {
		t.Errorf("%+v, %v", got, err)
	}
}

// A conversation that has a turn of another API of the service continues with its text.
func TestForeignTurn(t *testing.T) {
	c, s := open(t, 0)
	s.Script(providertest.Turn{Text: "fine"})
	input := []provider.Turn{
		{Role: provider.RoleUser, Text: "go"},
		{Role: provider.RoleAssistant, Text: "hm", Provider: provider.Gemini,
			Raw: []byte(`[{"type":"model_output","content":[{"type":"text","text":"hm"}]}]`)},
		{Role: provider.RoleUser, Text: "and now?"},
	}
	got, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel, Input: input}, nil)
	if err != nil || got.Text != "fine" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	c, s := open(t, 0)
	s.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStatus, Status: 429,
		RetryAfter: 23 * time.Second})
	_, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, nil)
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.RateLimited || e.RetryAfter != 23*time.Second {
		t.Errorf("%+v", e)
	}
	s.Script(providertest.Turn{Refuse: true})
	if got, err := c.Run(t.Context(), provider.RunRequest{Model: providertest.GeminiModel,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, nil); err != nil || got.Stop != provider.StopRefused {
		t.Errorf("%+v, %v", got, err)
	}
	wrong, err := gemini.New(gemini.Options{Key: "wrong", URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Check(t.Context(), providertest.GeminiModel); !errors.Is(err, provider.Auth) {
		t.Errorf("a wrong key: %v", err)
	}
	if _, err := gemini.New(gemini.Options{}); !errors.Is(err, provider.Auth) {
		t.Errorf("no key: %v", err)
	}
}
