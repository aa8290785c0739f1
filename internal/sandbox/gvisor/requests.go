package gvisor

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// A request is what the executor asks of a sandbox that runs; see cmd/airlock-gvisor.
type request struct {
	ID     int
	Start  *startRequest  `json:",omitempty"`
	Signal *signalRequest `json:",omitempty"`
	Count  string         `json:",omitempty"`
	Dial   int            `json:",omitempty"`
	Store  bool           `json:",omitempty"`
	Settle *settleRequest `json:",omitempty"`
	Proxy  string         `json:",omitempty"`
}

type settleRequest struct{ GoOn bool }

type startRequest struct {
	Job       string
	Argv, Env []string
	Dir       string
	User      uint32
	Terminal  bool
}

type signalRequest struct {
	Job    string
	Group  int
	Number int
}

type reply struct {
	ID     int
	PID    int
	Job    string
	Status int32
	Count  int
	Error  string
}

// requests are the executor's end of the socket on which it asks the first process of a sandbox.
type requests struct {
	link    *executor.Link
	sending sync.Mutex

	mu      sync.Mutex
	next    int
	jobs    int
	begun   bool // listen was called
	over    bool // the first process has gone
	replies map[int]chan reply
	ends    map[string]*end // of jobs
	done    chan struct{}   // closed when listen has returned
}

// end is that of a process that has entered.
type end struct {
	told   *os.File // is closed when the process has ended; nil then
	status unix.WaitStatus
}

// newRequests returns both ends.
func newRequests() (*requests, *os.File, error) {
	q := &requests{replies: map[int]chan reply{}, ends: map[string]*end{}, done: make(chan struct{})}
	var theirs *os.File
	var err error
	q.link, theirs, err = executor.NewLinkPair()
	return q, theirs, err
}

// close is called when the sandbox has ended.
func (q *requests) close() {
	q.link.Close()
	q.mu.Lock()
	begun := q.begun
	q.mu.Unlock()
	if begun {
		<-q.done
	}
}

// listen receives replies until the first process has gone.
func (q *requests) listen() {
	defer close(q.done)
	for {
		var r reply
		files, err := q.link.Receive(&r)
		executor.CloseAll(files...)
		q.mu.Lock()
		switch {
		case err != nil:
			q.over = true
			for id, reply := range q.replies {
				close(reply)
				delete(q.replies, id)
			}
			for _, e := range q.ends {
				e.tell(unix.WaitStatus(unix.SIGKILL))
			}
		case r.Job != "":
			if e := q.ends[r.Job]; e != nil {
				e.tell(unix.WaitStatus(r.Status))
			}
		case q.replies[r.ID] != nil:
			q.replies[r.ID] <- r
			delete(q.replies, r.ID)
		}
		q.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// tell tells that the process has ended.
func (e *end) tell(status unix.WaitStatus) {
	if e.told != nil {
		e.status = status
		e.told.Close()
		e.told = nil
	}
}

// expect returns where the reply to the next request will come.
func (q *requests) expect() (id int, replied chan reply, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return 0, nil, executor.ErrNoProgram
	}
	if !q.begun {
		q.begun = true
		go q.listen()
	}
	q.next++
	replied = make(chan reply, 1)
	q.replies[q.next] = replied
	return q.next, replied, nil
}

// storeTime bounds the time until a sandbox is stored.
const storeTime = 5 * time.Minute

// ask sends a request and waits for its reply.
func (q *requests) ask(r request, files ...*os.File) (reply, error) {
	id, replied, err := q.expect()
	if err != nil {
		return reply{}, err
	}
	r.ID = id
	q.sending.Lock()
	q.link.SetWriteDeadline(time.Now().Add(executor.EnterTime))
	err = q.link.Send(r, files...)
	q.sending.Unlock()
	limit := executor.EnterTime
	if r.Store {
		limit = storeTime
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	if err == nil {
		select {
		case answer, ok := <-replied:
			switch {
			case !ok:
				return reply{}, executor.ErrNoProgram
			case answer.Error != "":
				return reply{}, errors.New(answer.Error)
			}
			return answer, nil
		case <-late.C:
			err = errors.New("the sandbox did not answer in time")
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.replies, id)
	return reply{}, err
}

// A job is a process that has entered, with all that it starts.
type job struct {
	requests *requests
	name     string
}

// newJob returns the job of the next process, and what is readable when the process has ended.
func (q *requests) newJob() (j *job, ended int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs++
	j = &job{q, strconv.Itoa(q.jobs)}
	q.ends[j.name] = &end{told: os.NewFile(uintptr(pipe[1]), "end")}
	return j, pipe[0], nil
}

// forget removes the end of a job's process, and returns how it has ended.
func (j *job) forget() unix.WaitStatus {
	j.requests.mu.Lock()
	defer j.requests.mu.Unlock()
	e := j.requests.ends[j.name]
	if e == nil {
		return unix.WaitStatus(unix.SIGKILL)
	}
	e.tell(unix.WaitStatus(unix.SIGKILL)) // unless it was told
	delete(j.requests.ends, j.name)
	return e.status
}

// Signal implements Parent.
func (j *job) Signal(pid int, signal unix.Signal) { j.signal(pid, signal) }

// SignalAll implements Job.
func (j *job) SignalAll(signal unix.Signal) { j.signal(0, signal) }

func (j *job) signal(group int, signal unix.Signal) {
	// They may have ended.
	_, _ = j.requests.ask(request{Signal: &signalRequest{Job: j.name, Group: group, Number: int(signal)}})
}

// Reap implements Parent. The processor time is the sandbox's alone to tell.
func (j *job) Reap(int) (unix.WaitStatus, time.Duration) { return j.forget(), 0 }

// Empty implements Job.
func (j *job) Empty() bool {
	answer, err := j.requests.ask(request{Count: j.name})
	return err != nil || answer.Count == 0
}
