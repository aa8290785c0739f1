package assignment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// maxAnswer bounds the size of an answer.
const maxAnswer = 1 << 20

// attempt tries once to deliver a post.
func (s *Sender) attempt(ctx context.Context, p *Post) Outcome {
	o := s.try(ctx, p)
	switch {
	case o.Sent, o.DeadLetter:
	case ctx.Err() != nil: // the sender ends, which says nothing about the API
		o.Retry = 0
	case o.Untried:
	default:
		o.Retry = max(o.Retry, s.backoff(p.Attempts))
		if time.Since(p.First) >= s.o.Total {
			o.DeadLetter = true
			o.Problem = fmt.Sprintf("it was tried %d times in %s: %s", p.Attempts, s.o.Total, o.Problem)
		}
	}
	return o
}

func (s *Sender) try(ctx context.Context, p *Post) Outcome {
	if _, err := CheckAPI(p.API); err != nil {
		return Outcome{DeadLetter: true, Problem: err.Error()}
	}
	address, err := p.address()
	if err != nil {
		return Outcome{DeadLetter: true, Problem: err.Error()}
	}
	host := Origin(p.API)
	if wait, open := s.closed(host); !open {
		return Outcome{Untried: true, Retry: wait, Problem: host + " did not answer a moment ago"}
	}
	if p.Unsure {
		if o := s.compare(ctx, p, host); o != nil {
			return *o
		}
	}
	answer := s.call(ctx, http.MethodPost, address, p, host)
	if answer.err != nil {
		return Outcome{Unsure: answer.arrived, Problem: explain(answer.err)}
	}
	return s.judge(ctx, p, host, answer)
}

// judge returns the outcome of an answer.
func (s *Sender) judge(ctx context.Context, p *Post, host string, a answer) Outcome {
	// The body is not quoted: it may come from any server.
	problem := fmt.Sprintf("%s answered %d (%s)", host, a.status, http.StatusText(a.status))
	switch {
	case a.status >= 200 && a.status < 300:
		return Outcome{Sent: true}
	case a.status == http.StatusConflict:
		// The user reported before us, or this very post did.
		if o := s.compare(ctx, p, host); o != nil {
			return *o
		}
		return Outcome{DeadLetter: true, Problem: problem}
	case a.status == http.StatusRequestTimeout, a.status == http.StatusTooEarly, a.status == http.StatusTooManyRequests,
		a.status >= 500:
		// An error inside may have come after the work was done.
		return Outcome{Retry: a.retryAfter(time.Now()), Unsure: a.status >= 500, Problem: problem}
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return Outcome{DeadLetter: true, Problem: problem + ": the token is missing, or not good for this"}
	case a.status >= 300 && a.status < 400:
		return Outcome{DeadLetter: true, Problem: problem + ": redirects are not followed, since the token would go along"}
	}
	return Outcome{DeadLetter: true, Problem: problem}
}

// compare reads what the API has. It returns that the post was sent, or that the API
// cannot be asked now, or nil if the API does not have the post. An API without a
// way to read has nothing.
func (s *Sender) compare(ctx context.Context, p *Post, host string) *Outcome {
	a := s.call(ctx, http.MethodGet, p.subject(), p, host)
	switch {
	case a.err != nil:
		return &Outcome{Unsure: true, Problem: explain(a.err)}
	case a.status == http.StatusTooManyRequests, a.status >= 500 && a.status != http.StatusNotImplemented:
		return &Outcome{Unsure: true, Retry: a.retryAfter(time.Now()),
			Problem: fmt.Sprintf("%s answered %d (%s)", host, a.status, http.StatusText(a.status))}
	case a.status == http.StatusOK && p.in(a.body):
		return &Outcome{Sent: true}
	}
	return nil
}

// in reports whether a post is part of what the API has.
func (p *Post) in(known json.RawMessage) bool {
	switch p.Kind {
	case Progress:
		return decode[ProgressBody](known).equal(decode[ProgressBody](p.Body))
	case Submission:
		return decode[SubmissionBody](known).equal(decode[SubmissionBody](p.Body))
	case Question:
		return decode[QuestionBody](known).ID == p.Escalation
	case Decision:
		there, ours := decode[struct {
			Decision DecisionBody `json:"decision"`
		}](known), decode[DecisionBody](p.Body)
		return there.Decision.At.Equal(ours.At) && there.Decision.Choice == ours.Choice
	}
	return false
}

// answer is the result of a request.
type answer struct {
	status  int
	header  http.Header
	body    json.RawMessage
	err     error
	arrived bool // with an error: the request may have reached the API
}

// call makes one request.
func (s *Sender) call(ctx context.Context, method, address string, p *Post, host string) answer {
	bounded, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var body io.Reader
	if method == http.MethodPost {
		body = bytes.NewReader(p.Body)
	}
	r, err := http.NewRequestWithContext(bounded, method, address, body)
	if err != nil {
		return answer{err: err}
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "airlock")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", p.Key)
	}
	if token := s.o.Token(p.API); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			s.answered(host, false)
		}
		return answer{err: err, arrived: !neverSent(err)}
	}
	defer response.Body.Close()
	s.answered(host, response.StatusCode != http.StatusServiceUnavailable &&
		response.StatusCode != http.StatusBadGateway &&
		response.StatusCode != http.StatusGatewayTimeout)
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil && method == http.MethodGet {
		return answer{err: err, arrived: true}
	}
	// For a POST the status is the answer, wherever its words end.
	return answer{status: response.StatusCode, header: response.Header, body: text}
}

// neverSent reports whether a request failed before it left this machine.
func neverSent(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// explain returns the text of a transport error, without the address.
func explain(err error) string {
	if call, ok := errors.AsType[*url.Error](err); ok {
		err = call.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}

// retryAfter returns the delay in the Retry-After header, in seconds or as a date, an
// hour at most.
func (a answer) retryAfter(now time.Time) time.Duration {
	const most = time.Hour
	value := a.header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 86400))*time.Second, most)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
