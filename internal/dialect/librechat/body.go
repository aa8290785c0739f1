package librechat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	// maxJSON limits a request to run something, in bytes.
	maxJSON     = 50 << 20
	maxStranger = 1 << 20 // of a body that may contain the key
	maxHint     = 128
)

// runBody is a request to run a program, in every form. Unknown members are ignored.
type runBody struct {
	Code      *string         `json:"code"`
	Lang      string          `json:"lang"`
	Language  string          `json:"language"`
	Args      json.RawMessage `json:"args"`
	Files     []ref           `json:"files"`
	UserID    string          `json:"user_id"`
	EntityID  string          `json:"entity_id"`
	SessionID string          `json:"session_id"`
	Hint      string          `json:"runtime_session_hint"`
	Timeout   json.RawMessage `json:"timeout"` // ms
	Packages  string          `json:"python_packages"`

	Tools       []tool           `json:"tools"`
	Token       *string          `json:"continuation_token"`
	ToolResults *json.RawMessage `json:"tool_results"`

	// Keys of clients that send the parameters of their tool along.
	Key1 string `json:"apiKey"`
	Key2 string `json:"api_key"`
	Key3 string `json:"LIBRECHAT_CODE_API_KEY"`
}

// readBody reads a request to run something and authenticates it.
func (a *api) readBody(w http.ResponseWriter, r *http.Request) (*runBody, engine.Caller, error) {
	most := int64(maxJSON)
	if a.Caller(r).Owner == "" {
		most = maxStranger
	}
	text, err := a.Bodies.ReadRequest(w, r, a.Caller(r).Owner, most)
	switch {
	case wire.IsTooLarge(err) && most == maxStranger:
		return nil, engine.Caller{}, errNoKey()
	case wire.IsTooLarge(err), errors.Is(err, wire.ErrBodies):
		return nil, engine.Caller{}, err
	case err != nil:
		return nil, engine.Caller{}, bad("the body did not arrive whole")
	}
	body := &runBody{}
	wrong := json.Unmarshal(text, body)
	caller, err := a.callerOf(r, body.Key1, body.Key2, body.Key3)
	switch {
	case err != nil:
		return nil, caller, err
	case wrong != nil:
		return nil, caller, malformed(wrong)
	}
	return body, caller, nil
}

// malformed returns the fault of a body, without its content.
func malformed(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return bad("%s is invalid", e.Field)
	}
	return bad("the body is not a JSON object")
}

// The profiles that a client may expect of a server.
const (
	profileDefault  = "default"
	profileStateful = "stateful"
)

// profile checks the profile that the client expects, and answers with the actual one. A server
// that keeps state serves both.
func (a *api) profile(w http.ResponseWriter, r *http.Request) error {
	want := r.Header.Get("X-CodeAPI-Expected-Profile")
	actual := want
	if want == profileStateful && a.State == StateOff {
		actual = profileDefault
	}
	switch want {
	case "":
		return nil
	case profileDefault, profileStateful:
		w.Header().Set("X-CodeAPI-Execution-Profile", actual)
	default:
		return bad("invalid_execution_profile")
	}
	if actual != want {
		return &wire.Refusal{Status: http.StatusConflict, Detail: errorBody{
			Error: "execution_profile_mismatch", ExpectedProfile: want, ActualProfile: actual,
			Message: "This server keeps no state between programs. Its operator can switch that on: librechat_python_state=hint",
		}}
	}
	return nil
}

func (b *runBody) checkHint() error {
	if len(b.Hint) > maxHint || strings.ContainsFunc(b.Hint, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._:-", c)
	}) {
		return bad("runtime_session_hint is invalid")
	}
	return nil
}

// arguments returns the program's arguments, which are a list or one string.
func (b *runBody) arguments() ([]string, error) {
	if isNull(b.Args) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(b.Args, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if json.Unmarshal(b.Args, &list) != nil {
		return nil, bad("args must be a list of strings")
	}
	return list, nil
}

// limit is the time that the program may run, no more than is allowed here;
// zero: as long as usual.
func (b *runBody) limit(most time.Duration) (time.Duration, error) {
	if isNull(b.Timeout) {
		return 0, nil
	}
	var ms float64
	if json.Unmarshal(b.Timeout, &ms) != nil || ms <= 0 {
		return 0, bad("timeout must be a positive number of milliseconds")
	}
	return time.Duration(max(math.Min(ms, float64(most.Milliseconds())), 1) * float64(time.Millisecond)), nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// user returns the user of the request, if it names one.
func (b *runBody) user(r *http.Request) string {
	return cmp.Or(r.Header.Get(userHeader), b.UserID)
}
