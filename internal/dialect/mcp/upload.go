package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	uploadTime = 10 * time.Minute
	maxUploads = 100 // addresses of one owner that wait
)

// uploads are the addresses that files can be sent to, once each.
type uploads struct {
	mu   sync.Mutex
	open map[string]upload
}

type upload struct {
	caller  engine.Caller
	session engine.ID
	path    string
	until   time.Time
}

func (u *uploads) add(one upload) (token string, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[string]upload{}
	}
	n := 0
	for token, other := range u.open {
		if time.Now().After(other.until) {
			delete(u.open, token)
		} else if other.caller.Owner == one.caller.Owner {
			n++
		}
	}
	if n >= maxUploads {
		return "", false
	}
	token = rand.Text() + rand.Text() // 256 bits: it is all that is asked for
	u.open[token] = one
	return token, true
}

func (u *uploads) take(token string) (upload, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one, ok := u.open[token]
	delete(u.open, token)
	return one, ok && time.Now().Before(one.until)
}

func (s *Server) uploadLink(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	name, err := c.path()
	if err != nil {
		return nil, err
	}
	session, err := s.work(ctx, c)
	if err != nil {
		return nil, err
	}
	token, ok := s.uploads.add(upload{caller: c.caller, session: session, path: name, until: time.Now().Add(uploadTime)})
	if !ok {
		return nil, refused("too many upload links wait: use them, or try again in 10 minutes")
	}
	base := s.PublicURL
	if extra := c.request.Extra; base == "" && extra != nil {
		base = extra.Header.Get(baseHeader)
	}
	return answer(fmt.Sprintf(
		"Send the file within 10 minutes, once:\ncurl -fsS -T FILE %s/mcp/upload/%s\nsession %s then has it as %s.",
		base, token, sessionPrefix+session.String(), engine.ShownName(name))), nil
}

// Uploads takes the files that were announced with upload_link. Its addresses
// are keys themselves, so it wants to be mounted for everybody.
func (s *Server) Uploads(limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.Header().Set("Allow", http.MethodPut)
			http.Error(w, "this address takes PUT", http.StatusMethodNotAllowed)
			return
		}
		to, ok := s.uploads.take(strings.TrimPrefix(r.URL.Path, "/"))
		if !ok {
			http.Error(w, "this address is used up, expired, or never was", http.StatusNotFound)
			return
		}
		entry, err := s.Files.WriteFile(r.Context(), to.caller, to.session, to.path, http.MaxBytesReader(w, r.Body, limit))
		if err != nil {
			text, _ := errorOf(err)
			http.Error(w, "the file was not stored: "+text, http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "stored %d bytes\n", entry.Size)
	})
}
