package e2e

import (
	"net/http"
	"strings"
)

// A machine that is busy with other tests may leave a node silent for so long that its peers
// give it up. So what follows asks again where a node may answer that another one has to be
// waited for, and looks at the node that is meant.

// live is service.liveSession where workers may be given up.
func (r *roles) live(at *service) (id string) {
	r.Helper()
	eventually(r.T, waitTime, "a live session", func() bool {
		made := at.do("POST", "/api/v1/sessions", `{"kind":"live","language":"python"}`)
		if made.status != http.StatusCreated {
			return false
		}
		id = find(object(r.T, made), "id")
		return strings.Contains(at.again(id, "x = 41; open('kept.txt','w').write('kept')"), `"ok"`)
	})
	return id
}

// again asks for a cell's answer until there is one: the first one may have been lost
// with its worker.
func (s *service) again(session, code string) (text string) {
	s.t.Helper()
	eventually(s.t, waitTime, "a cell that is not lost", func() bool {
		text = s.cell(session, code)
		return !strings.Contains(text, `"lost"`)
	})
	return text
}

// goesOn starts a program that goes on, with a word by which its processes are found, and
// returns its run and worker.
func (r *roles) goesOn(at *service, word string) (id string, worker *service) {
	r.Helper()
	eventually(r.T, waitTime, "a program prints", func() bool {
		events, _ := at.tryStream("POST", runs, `{"language":"bash","code":"echo up; sleep $1","args":["`+word+`"]}`)
		if events == nil {
			return false
		}
		for e, more := events.next(); more && e.name != "result"; e, more = events.next() {
			if e.name == "output" {
				worker = r.runner(word)
				return worker != nil
			}
			if e.name == "started" {
				id = find(e.data, "id")
			}
		}
		return false
	})
	return id, worker
}

// interrupted follows a run at an api, to its end.
func (s *service) interrupted(run, after string) {
	s.t.Helper()
	var status string
	eventually(s.t, waitTime, "the run has ended", func() bool {
		events, _ := s.tryStream("GET", runs+"/"+run+"/events", "", "Last-Event-ID", after)
		if events == nil {
			return false
		}
		for e, more := events.next(); more; e, more = events.next() {
			if e.name == "result" {
				status = find(e.data, "status")
			}
		}
		return status != ""
	})
	if status != "interrupted" {
		s.t.Errorf("a run whose node is lost is %s", status)
	}
}

// givenUp counts how often nodes were given up that have a text in their names or addresses.
func (r *roles) givenUp(node string) (n int) {
	for _, s := range r.apis {
		for line := range strings.Lines(s.log.String()) {
			if _, at, found := strings.Cut(line, "it was given up"); found && strings.Contains(at, node) {
				n++
			}
		}
	}
	return n
}

// at is the address that a worker has told its apis.
func (s *service) at() string {
	_, rest, _ := strings.Cut(s.log.String(), "address=http://")
	address, _, _ := strings.Cut(rest, " ")
	return address
}

// lives is how many lives of a node have begun after its first.
func (s *service) lives() int { return strings.Count(s.log.String(), "begins anew") }
