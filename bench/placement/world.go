package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/remote"
)

// world is a cluster in simulated time.
type world struct {
	now    time.Duration
	events events
	chance *rand.Rand
	rate   func(at time.Duration) float64
	owner  func(*rand.Rand) int

	workers map[int64]*worker
	apis    []*api
	taken   int // slots

	untilRejected bool
	counts        bool // of what begins now
	began         time.Duration
	busy          time.Duration // slots times time
	changed       time.Duration // when taken did
	window        [2]time.Duration
	lastSecond    float64

	placed, waited    []time.Duration
	refused, rejected int
	owners            [ownerCount]demand
}

type demand struct {
	asked, served int
	waited        []time.Duration
}

// worker is the part of a worker that placement sees.
type worker struct {
	node    remote.Node
	running int
}

// api has the queue and the scheduler of an api.
type api struct {
	world     *world
	turns     *engine.Turns
	placement *remote.Scheduler
	nodes     []remote.Node
	queued    []*job
	searching []*job
}

// job is a run on its way.
type job struct {
	api     *api
	owner   int
	tier    string
	service time.Duration
	counts  bool

	asked, turn time.Duration
	code        time.Duration // what the code took, for real
	ready       <-chan struct{}
	leave       func()
	search      *remote.Search
	slot        *remote.Slot
	news        <-chan struct{}
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWorld(seed uint64, rate func(time.Duration) float64, owner func(*rand.Rand) int) *world {
	w := &world{chance: rand.New(rand.NewPCG(seed, 1)), rate: rate, owner: owner, workers: map[int64]*worker{}}
	for i := range int64(workerCount) {
		at := &worker{node: remote.Node{Name: "worker-" + strconv.FormatInt(i, 10), Epoch: i + 1, Slots: slots, Free: slots}}
		w.workers[at.node.Epoch] = at
		w.each(time.Second, func() { at.node.Free, at.node.Heard = slots-at.running, w.clock() })
	}
	for range apiCount {
		a := &api{world: w, turns: engine.NewTurns(queueMost, queueOwner)}
		a.placement = remote.NewScheduler(a.turns.Resize, w.clock)
		a.look()
		a.placement.Update(a.nodes)
		w.each(time.Second, a.look)
		w.each(250*time.Millisecond, func() { a.placement.Update(a.nodes); a.step() })
		w.apis = append(w.apis, a)
	}
	w.arrive()
	return w
}

func (w *world) clock() time.Time { return time.Unix(1, 0).Add(w.now) }

// each does something at intervals, from some moment on.
func (w *world) each(interval time.Duration, do func()) {
	var again func()
	again = func() { do(); w.after(interval, again) }
	w.after(time.Duration(w.chance.Int64N(int64(interval))), again)
}

func (w *world) after(d time.Duration, do func()) { heap.Push(&w.events, event{w.now + d, do}) }

func (w *world) run(warm, d time.Duration) {
	w.after(warm, func() { w.counts, w.began, w.busy, w.changed = true, w.now, 0, w.now })
	for w.now < warm+d && (!w.untilRejected || w.rejected == 0) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.changeTaken(0)
}

// changeTaken changes how many slots are taken.
func (w *world) changeTaken(n int) {
	w.busy += time.Duration(w.taken) * (w.now - w.changed)
	if w.now/time.Second != w.changed/time.Second {
		w.lastSecond = float64(w.busy-w.window[0]) / float64(workerCount*slots) / float64(max(w.now-w.window[1], 1))
		w.window = [2]time.Duration{w.busy, w.now}
	}
	w.changed = w.now
	w.taken += n
}

func (w *world) utilisation() float64 {
	return float64(w.busy) / float64(workerCount*slots) / float64(w.now-w.began)
}

// arrive has a run come to one of the apis, and the next one after it.
func (w *world) arrive() {
	w.after(time.Duration(w.chance.ExpFloat64()/w.rate(w.now)*float64(time.Second)), w.arrive)
	j := &job{api: w.apis[w.chance.IntN(apiCount)], owner: w.owner(w.chance), asked: w.now, counts: w.counts}
	at := w.chance.Float64()
	for _, p := range programs {
		j.tier = p.tier
		// Its logarithm is normal: half below p50, one of a hundred over late.
		spread := math.Log(float64(p.late)/float64(p.p50)) / 2.33
		j.service = time.Duration(float64(p.p50) * math.Exp(w.chance.NormFloat64()*spread))
		if at -= p.share; at < 0 {
			break
		}
	}
	if j.counts {
		w.owners[j.owner].asked++
	}
	var err error
	if j.ready, j.leave, err = j.api.turns.Enter(engine.Owner(strconv.Itoa(j.owner))); err != nil {
		if j.counts || w.untilRejected {
			w.rejected++
		}
		return
	}
	j.api.queued = append(j.api.queued, j)
	j.api.step()
}

// look reads the table of nodes.
func (a *api) look() {
	a.nodes = a.nodes[:0]
	for epoch := range int64(workerCount) {
		a.nodes = append(a.nodes, a.world.workers[epoch+1].node)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// step continues the jobs that can.
func (a *api) step() {
	for again := true; again; {
		again = false
		var ready []*job
		a.queued, ready = split(a.queued, func(j *job) bool { return closed(j.ready) })
		for _, j := range ready {
			j.turn = a.world.now
			j.search = a.placement.Search(j.tier, "python")
			j.next()
		}
		var news []*job
		a.searching, news = split(a.searching, func(j *job) bool { return closed(j.news) })
		for _, j := range news {
			j.next()
		}
	}
}

func split(list []*job, yes func(*job) bool) (left, taken []*job) {
	left = list[:0]
	for _, j := range list {
		if yes(j) {
			taken = append(taken, j)
		} else {
			left = append(left, j)
		}
	}
	return left, taken
}

// next asks a worker, or waits for a change.
func (j *job) next() {
	began := time.Now()
	j.slot, j.news = j.search.Next()
	j.code += time.Since(began)
	if j.slot == nil {
		j.api.searching = append(j.api.searching, j)
		return
	}
	w := j.api.world
	w.after(oneWay, func() { j.atWorker(w.workers[j.slot.Epoch()]) })
}

func (j *job) atWorker(at *worker) {
	w := j.api.world
	if at.running >= slots {
		if j.counts {
			w.refused++
		}
		w.after(oneWay, func() {
			j.slot.Refused()
			j.next()
			j.api.step()
		})
		return
	}
	at.running++
	w.changeTaken(1)
	left := slots - at.running
	w.after(oneWay, func() { j.slot.Started(left) })
	if j.counts {
		w.placed = append(w.placed, w.now-j.turn+j.code)
		w.waited = append(w.waited, j.turn-j.asked)
		o := &w.owners[j.owner]
		o.served++
		o.waited = append(o.waited, j.turn-j.asked)
	}
	w.after(j.service, func() {
		at.running--
		w.changeTaken(-1)
		free := slots - at.running
		w.after(oneWay, func() {
			j.slot.Ended(free)
			j.leave()
			j.api.step()
		})
	})
}

// share is what some owners got.
type share struct {
	served, jain float64
	waited       []time.Duration
}

// shares are those of the first ten owners, and of the others.
func (w *world) shares() (few, many share) {
	return shareOf(w.owners[:10]), shareOf(w.owners[10:])
}

func shareOf(owners []demand) (s share) {
	var asked, served, sum, squares float64
	for _, o := range owners {
		asked += float64(o.asked)
		served += float64(o.served)
		part := float64(o.served) / float64(max(o.asked, 1))
		sum += part
		squares += part * part
		s.waited = append(s.waited, o.waited...)
	}
	s.served, s.jain = served/max(asked, 1), sum*sum/max(squares, 1e-9)/float64(len(owners))
	return s
}
