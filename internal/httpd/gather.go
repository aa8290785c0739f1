package httpd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	// unansweredHeader names the nodes that are missing in a list.
	unansweredHeader = "Airlock-Unanswered"

	gatherTime = time.Second // for the answers of other nodes
	maxGather  = 16 << 20    // bytes of one
)

// Gather repeats a request for a list at the other nodes, each of which has a part of the
// list in memory, and returns their answers. A header names the nodes that do not answer in
// time. A forwarded request is for this node alone.
func (p *Peers) Gather(w http.ResponseWriter, r *http.Request) (answers [][]byte) {
	if p == nil || p.Nodes == nil || forwardOf(r.Context()) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), gatherTime)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var unanswered []string
	for _, n := range p.Nodes() {
		if n.Dead || n.Role == engine.RoleWorker || n.Epoch == p.Cluster.Self() {
			continue
		}
		group.Go(func() {
			answer, err := p.fetch(ctx, n, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unanswered = append(unanswered, n.Name)
				return
			}
			answers = append(answers, answer)
		})
	}
	group.Wait()
	if len(unanswered) > 0 {
		w.Header().Set(unansweredHeader, strings.Join(unanswered, ", "))
	}
	return answers
}

// fetch has one node answer a request without a body.
func (p *Peers) fetch(ctx context.Context, n engine.Node, r *http.Request) ([]byte, error) {
	u, err := url.ParseRequestURI(r.RequestURI) // with the prefix of its mount
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(n.Address)
	if err != nil {
		return nil, err
	}
	header, err := p.headerFor(n.Epoch, r, u)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = to.Scheme, to.Host
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	out.Host = r.Host
	out.Header.Set(forwardHeader, header)
	answer, err := p.transport(to).RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxGather))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %s", answer.Status)
	}
	return body, err
}
