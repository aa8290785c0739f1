package conversation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// bytesFile is an uploaded file.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error { return nil }

// TestAgain resumes a conversation with uploaded files. They are sent again after the user
// agreed, the last of each name only. Lost files are reported.
func TestAgain(t *testing.T) {
	s := newStage(t, remotes()[provider.OpenAI])
	store := map[string]string{"u1": "a,b\n1,2\n", "u2": "a,b\n3,4\n", "u3": "x\n"}
	open := func(id, name string) conversation.File {
		return conversation.File{Stored: id, Source: provider.Source{
			Path: name, Name: name, MIME: "text/csv", Size: int64(len(store[id])),
			Open: func() (io.ReadSeekCloser, error) { return bytesFile{bytes.NewReader([]byte(store[id]))}, nil }}}
	}
	names := map[string]string{"u1": "sales.csv", "u2": "sales.csv", "u3": "rates.csv"}
	s.Stored = func(_ context.Context, owner, id string) (conversation.File, error) {
		if _, ok := store[id]; !ok || owner != "local" {
			return conversation.File{}, errors.New("there is no such file")
		}
		return open(id, names[id]), nil
	}
	var notices []string
	tell := func(e conversation.Event) {
		if n, ok := e.(conversation.Notice); ok {
			notices = append(notices, n.Text)
		}
	}
	chat := s.begin(t)
	for _, id := range []string{"u1", "u2", "u3"} {
		s.server.Rescript(providertest.Turn{Text: "Read."})
		if _, err := chat.Turn(t.Context(), conversation.Prompt{
			Text: "Read", Files: []conversation.File{open(id, names[id])}}, s, tell); err != nil {
			t.Fatal(err)
		}
	}
	id := chat.ID()
	s.clean(t, chat)

	again := func() (files, gone []string) {
		c, err := s.Conversation(t.Context(), "local", id)
		if err != nil {
			t.Fatal(err)
		}
		fs, lost := s.Again(t.Context(), c)
		for _, f := range fs {
			files = append(files, f.Stored)
		}
		for _, u := range lost {
			gone = append(gone, u.Path)
		}
		return files, gone
	}
	if files, gone := again(); !slices.Equal(files, []string{"u2", "u3"}) || len(gone) > 0 {
		t.Errorf("to be given again: %v, gone: %v", files, gone)
	}
	delete(store, "u3")
	if files, gone := again(); !slices.Equal(files, []string{"u2"}) || !slices.Equal(gone, []string{"rates.csv"}) {
		t.Errorf("after one was deleted: %v, gone: %v", files, gone)
	}
	chat, err := s.Resume(t.Context(), "local", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.asked = nil
	s.server.Rescript(providertest.Turn{Text: "Read again."})
	turn, err := chat.Turn(t.Context(), conversation.Prompt{Text: "And now?"}, s, tell)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 1 || s.asked[0].Kind != conversation.AskSend || len(s.asked[0].Files) != 1 ||
		!s.asked[0].Files[0].Again {
		t.Errorf("asked: %+v", s.asked)
	}
	if len(turn.Inputs) != 1 || turn.Inputs[0].Stored != "u2" || turn.Inputs[0].SHA256 == "" {
		t.Errorf("given: %+v", turn.Inputs)
	}
	if all := strings.Join(notices, "\n"); !strings.Contains(all, "1 file of earlier turns cannot be given again") ||
		!strings.Contains(all, "rates.csv") {
		t.Errorf("said: %s", all)
	}
	s.clean(t, chat)
}

// TestAgainReplaced sends a file with the name of an earlier input and replaces it.
func TestAgainReplaced(t *testing.T) {
	s := newStage(t, remotes()[provider.OpenAI])
	file := func(id, content string) conversation.File {
		return conversation.File{Stored: id, Source: provider.Source{
			Path: "sales.csv", Name: "sales.csv", MIME: "text/csv", Size: int64(len(content)),
			Open: func() (io.ReadSeekCloser, error) { return bytesFile{bytes.NewReader([]byte(content))}, nil }}}
	}
	s.Stored = func(context.Context, string, string) (conversation.File, error) { return file("old", "old"), nil }
	chat := s.begin(t)
	if _, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Read", Files: []conversation.File{file("old", "old")}},
		s, s.tell); err != nil {
		t.Fatal(err)
	}
	s.clean(t, chat)
	chat, err := s.Resume(t.Context(), "local", chat.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := chat.Turn(t.Context(), conversation.Prompt{
		Text: "Read the new one", Files: []conversation.File{file("new", "newer")}}, s, s.tell)
	if err != nil || len(turn.Inputs) != 1 || turn.Inputs[0].Stored != "new" {
		t.Errorf("given: %+v, %v", turn.Inputs, err)
	}
	s.clean(t, chat)
}

// TestShared gives a local model an uploaded file. Its code reads the file in place, and
// the file stays when the conversation ends.
func TestShared(t *testing.T) {
	s := newStage(t, remotes()[provider.Local])
	s.shares = true
	stored, err := s.provider.Files().Upload(t.Context(), provider.Upload{Name: "a.csv", Size: 2,
		Body: strings.NewReader("a\n")})
	if err != nil {
		t.Fatal(err)
	}
	before := s.server.Objects()
	sum := sha256.Sum256([]byte("a\n"))
	file := conversation.File{Stored: stored.Ref.ID, SHA256: hex.EncodeToString(sum[:]), Source: provider.Source{
		Path: "a.csv", Name: "a.csv", MIME: "text/csv", Size: 2,
		Open: func() (io.ReadSeekCloser, error) { return bytesFile{bytes.NewReader([]byte("a\n"))}, nil }}}
	s.server.Rescript(s.makes("Read."), providertest.Turn{Text: "Done."})
	chat := s.begin(t)
	turn, err := chat.Turn(t.Context(), conversation.Prompt{Text: "Read", Files: []conversation.File{file}}, s, s.tell)
	if err != nil {
		t.Fatal(err)
	}
	if in := turn.Inputs; len(in) != 1 || in[0].Remote.ID != stored.Ref.ID || in[0].SHA256 != file.SHA256 {
		t.Errorf("inputs %+v", in)
	}
	if diff := cmp.Diff(before, s.server.Objects()); diff != "" {
		t.Errorf("stored again: %s", diff)
	}
	if _, err := chat.Close(t.Context(), s.tell); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.server.Objects()); diff != "" {
		t.Errorf("after the end: %s", diff)
	}
}
