package mcp

import (
	"context"
	"net/url"
	"time"

	"github.com/tidwall/gjson"
)

const (
	rootsID   = `"airlock-roots"` // of the request for the host's roots
	rootsTime = 5 * time.Second   // for the host to answer
	maxRoots  = 32
)

// roots asks the host for the folders that it works in. There are none if it has not said that it tells, if it
// does not answer, or since version 2026-07-28.
func (r *relay) roots(ctx context.Context) (folders []string) {
	r.mu.Lock()
	hello := r.hello
	r.mu.Unlock()
	if !gjson.GetBytes(hello, "params.capabilities.roots").IsObject() {
		return nil
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	answer := make(chan []byte, 1)
	r.mu.Lock()
	r.answered = answer
	r.mu.Unlock()
	r.write([]byte(`{"jsonrpc":"2.0","id":` + rootsID + `,"method":"roots/list"}`))
	ctx, cancel := context.WithTimeout(ctx, rootsTime)
	defer cancel()
	select {
	case line := <-answer:
		for _, root := range gjson.GetBytes(line, "result.roots.#.uri").Array() {
			u, err := url.Parse(root.String())
			if err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && len(folders) < maxRoots {
				folders = append(folders, u.Path)
			}
		}
	case <-ctx.Done():
	}
	return folders
}

// takeRoots takes the host's answer.
func (r *relay) takeRoots(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered != nil {
		r.answered <- line
		r.answered = nil
	}
}
