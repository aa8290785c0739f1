package conversation_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/internal/redact"
)

// No secret is in the events of a turn or in its record, whatever its source and however it
// is split: secrets of the settings, and keys of a known form.
func TestSecretsAreNeitherToldNorKept(t *testing.T) {
	const known, formed = "hunter2-is-in-no-dictionary", "sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWxYz12345678"
	each(t, func(t *testing.T, s *stage) {
		s.Redact = redact.New(known)
		both := known + " and " + formed
		step := providertest.Step{Code: "print('" + both + "')", Stdout: "It says " + both + "\n", Stderr: both}
		s.server.Script(providertest.Turn{Steps: []providertest.Step{step},
			Text: "The key is " + both + ", and this is said."})
		var told bytes.Buffer
		texts := map[string]string{}
		chat := s.begin(t)
		turn, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Look at " + both}, s, func(e conversation.Event) {
			text, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			told.Write(text)
			switch e := e.(type) {
			case provider.TextDelta:
				texts["text"] += e.Text
			case provider.OutputDelta:
				texts["output"] += e.Data
			case provider.CodeDelta:
				texts["code"] += e.Code
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range texts {
			told.WriteString(what + text)
		}
		if !strings.Contains(texts["text"], "and this is said.") || texts["text"] != turn.Text {
			t.Errorf("told %q, kept %q", texts["text"], turn.Text)
		}
		s.clean(t, chat)
		for _, secret := range []string{known, formed} {
			if at := strings.Index(told.String(), secret); at >= 0 {
				t.Errorf("told: ...%s", told.String()[max(0, at-100):at+len(secret)])
			}
		}
		kept, err := json.Marshal(turn)
		if err != nil || bytes.Contains(kept, []byte(known)) || bytes.Contains(kept, []byte(formed)) {
			t.Errorf("kept: %s, %v", kept, err)
		}
		if at := onDisk(t, s.data, known); at != "" {
			t.Errorf("%s has a secret", at)
		}
	})
}

// onDisk returns a file below dir that contains a text.
func onDisk(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte(text)) {
			found = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
