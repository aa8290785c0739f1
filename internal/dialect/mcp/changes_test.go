package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// folder is a folder with numbered plans.
type folder struct {
	mu      sync.Mutex
	applied []string
	yes     bool
	page    string
}

func (f *folder) Propose(ctx context.Context, _, _ string) (Plan, error) { return f.Plan(ctx, "p1") }

func (f *folder) Plan(_ context.Context, id string) (Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Plan{ID: id, Summary: "1 file: +1 -1 in /site", Diff: "-a\n+b\n", Review: "airlock apply --approve " + id,
		Agreed: f.yes, Page: f.page}
	if len(f.applied) > 0 {
		p.Done = "committed"
	}
	return p, nil
}

func (f *folder) Apply(_ context.Context, id string, only []string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = append(f.applied, id+strings.Join(only, ","))
	return "applied", nil
}

func (f *folder) done() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.applied, " ")
}

// Nothing is changed before the person agrees, in the host's dialog or elsewhere, in every
// version of the protocol.
func TestChanges(t *testing.T) {
	asking := func(action string, asked *string) *sdk.ClientOptions {
		return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (
			*sdk.ElicitResult, error) {
			*asked = r.Params.Message
			return &sdk.ElicitResult{Action: action, Content: map[string]any{}}, nil
		}}
	}
	for _, newer := range []bool{true, false} {
		for _, tc := range []struct{ name, action, want, applied string }{
			{"agrees", "accept", "applied", "p1a.txt"},
			{"declines", "decline", "did not agree", ""},
			{"cancels", "cancel", "did not agree", ""},
			{"cannot be asked", "", "Waiting for approval: airlock apply --approve p1", ""},
		} {
			f, asked := &folder{}, ""
			r := newRig(t, func(o *Options) { o.Changes = f })
			var o *sdk.ClientOptions
			if tc.action != "" {
				o = asking(tc.action, &asked)
			}
			c := r.client("ada", o)
			if !newer {
				c = r.connect(&sdk.SSEClientTransport{Endpoint: r.url + "/sse",
					HTTPClient: &http.Client{Transport: asOwner{"ada"}}}, o)
			}
			if is := c.InitializeResult().ProtocolVersion; (is >= stateless) != newer {
				t.Errorf("the client speaks %s", is)
			}
			if got := textOf(call1(t, c, "propose_changes", map[string]any{"response": "x"})); !strings.Contains(
				got, "-a\n+b") || f.done() != "" {
				t.Errorf("%s: proposed: %q", tc.name, got)
			}
			got := textOf(call1(t, c, "apply_changes", map[string]any{"plan_id": "p1", "only": []string{"a.txt"}}))
			if !strings.Contains(got, tc.want) || f.done() != tc.applied ||
				tc.action != "" && asked != "Change 1 file: +1 -1 in /site?" {
				t.Errorf("%v %s: %q, applied %q, asked %q", newer, tc.name, got, f.done(), asked)
			}
			if tc.applied != "" {
				if again := call1(t, c, "apply_changes", map[string]any{"plan_id": "p1"}); !again.IsError ||
					f.done() != tc.applied {
					t.Errorf("%s: again: %q", tc.name, textOf(again))
				}
			}
		}
	}
}

// A client that opens pages but shows no forms gets the page. Consent to open it is no
// approval: only the decision on the page counts.
func TestChangesOnPage(t *testing.T) {
	for _, newer := range []bool{true, false} {
		for decided, want := range map[bool]string{true: "the plan is committed", false: "Waiting for approval"} {
			f, opened := &folder{page: "https://airlock.example.com/ui/review/p1"}, ""
			r := newRig(t, func(o *Options) { o.Changes = f })
			o := &sdk.ClientOptions{
				Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
					URL: &sdk.URLElicitationCapabilities{}}},
				ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					opened = r.Params.Mode + " " + r.Params.URL
					if decided {
						f.mu.Lock()
						defer f.mu.Unlock()
						f.applied = append(f.applied, "there")
					}
					return &sdk.ElicitResult{Action: "accept"}, nil
				},
			}
			c := r.client("ada", o)
			if !newer {
				c = r.connect(&sdk.SSEClientTransport{Endpoint: r.url + "/sse",
					HTTPClient: &http.Client{Transport: asOwner{"ada"}}}, o)
			}
			got := call1(t, c, "apply_changes", map[string]any{"plan_id": "p1"})
			if !strings.Contains(textOf(got), want) || got.IsError || opened != "url "+f.page ||
				!decided && f.done() != "" {
				t.Errorf("%v %v: %q after %q, applied %q", newer, decided, textOf(got), opened, f.done())
			}
		}
	}
}

// An answer is valid once, for its own question and owner.
func TestForgedAnswer(t *testing.T) {
	f := &folder{}
	r := newRig(t, func(o *Options) { o.Changes = f })
	state := r.server.questions.put("mallory", "p1")
	other := r.server.questions.put("ada", "p2")
	for _, forged := range []string{"", "guess", state, other} {
		body := message(1, "tools/call", `{"name":"apply_changes","arguments":{"plan_id":"p1"},"requestState":"`+forged+
			`","inputResponses":{"confirm":{"action":"accept","content":{}}}}`, stateless)
		_, got, _ := r.send("POST", r.url, "ada", versionHeader+": "+stateless+
			"\nMcp-Method: tools/call\nMcp-Name: apply_changes", body)
		if !strings.Contains(got, "was answered before") || f.done() != "" {
			t.Errorf("%q: %s", forged, got)
		}
	}
}
