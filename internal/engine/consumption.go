package engine

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Consumption is what was used in a time: by a caller's programs and requests.
type Consumption struct {
	Runs   int64         // programs that were begun: runs, cells of live sessions, and processes beside them
	CPU    time.Duration // of all their processes
	Memory int64         // byte-seconds; see Service.consumed and Service.meterLive
	Stored int64         // bytes of files that were stored: uploads, and what programs left
	Sent   int64         // bytes of answers, and what programs sent to the network
}

// Plus returns the sum of both.
func (c Consumption) Plus(d Consumption) Consumption {
	return Consumption{c.Runs + d.Runs, c.CPU + d.CPU, c.Memory + d.Memory, c.Stored + d.Stored, c.Sent + d.Sent}
}

// Day is a day of UTC, in days since 1970.
type Day int64

const dayLength = 24 * time.Hour

// DayOf returns the day of an instant.
func DayOf(t time.Time) Day { return Day(t.Truncate(dayLength).Unix() / int64(dayLength/time.Second)) }

// Time returns when the day begins.
func (d Day) Time() time.Time { return time.Unix(int64(d)*int64(dayLength/time.Second), 0).UTC() }

// Month returns the first day of the day's month.
func (d Day) Month() Day {
	t := d.Time()
	return d - Day(t.Day()-1)
}

// NextMonth returns the first day of the month after the day's.
func (d Day) NextMonth() Day { return DayOf(d.Month().Time().AddDate(0, 1, 0)) }

func (d Day) String() string { return d.Time().Format(time.DateOnly) }

// Subject is what has a quota of a month: an owner, an account with its users, or a key.
type Subject string

func ownerSubject(owner Owner) Subject { return Subject("owner:" + owner) }
func keySubject(key string) Subject    { return Subject("key:" + key) }

// ConsumptionDay is what an owner has used in a day with a key; with an empty one without any.
type ConsumptionDay struct {
	Day   Day
	Owner Owner
	Key   string
	Consumption
}

// ConsumptionMonth is what a subject has used in a month, which its first day names.
type ConsumptionMonth struct {
	Month   Day
	Subject Subject
	Consumption
}

// ConsumptionQuery selects days.
type ConsumptionQuery struct {
	Owner    Owner // with its users; empty: all
	From, To Day   // To is the first that does not count
	Users    bool  // each user of an account by itself; false: together
	Limit    int
}

// ConsumptionIndex records what was used.
type ConsumptionIndex interface {
	// AddConsumption adds to the days and to the months. It need not be durable when it returns.
	AddConsumption(ctx context.Context, days []ConsumptionDay, months []ConsumptionMonth) error
	// ConsumptionOf returns the sum of a month.
	ConsumptionOf(ctx context.Context, month Day, subject Subject) (Consumption, error)
	// ListConsumption returns days, the oldest first.
	ListConsumption(ctx context.Context, q ConsumptionQuery) ([]ConsumptionDay, error)
	// ExpireConsumption deletes up to limit days from before one, and as many months, and returns how many.
	ExpireConsumption(ctx context.Context, before Day, limit int) (int, error)
}

const (
	// consumptionDelay is how long a count may be in memory alone: a killed service loses so much.
	consumptionDelay = 10 * time.Second
	// maxDayUsers bounds the users of an account that have rows of their own in a day, for each node. What further
	// ones use counts for the account: the holder of a key can name as many as it likes.
	maxDayUsers = 10_000
	// maxCounts bounds the counts in memory. Above it users count for their account.
	maxCounts = 50_000
)

// consumptions counts what is used, and brings it to the index from time to time.
type consumptions struct {
	index Index
	log   *slog.Logger
	now   func() time.Time
	flush delay

	flushing sync.Mutex // held while the index gets counts, and while a sum is read there

	mu    sync.Mutex
	days  map[dayKey]Consumption // that the index does not have
	users map[Owner]map[Owner]bool
	day   Day                     // of users
	sums  map[Subject]*monthlySum // of subjects with a quota, that were looked at lately
}

type dayKey struct {
	day   Day
	owner Owner
	key   string
}

// monthlySum is the sum of a month, with all that this node has counted since it was read.
type monthlySum struct {
	month Day
	read  time.Time
	sum   Consumption
}

func newConsumptions(index Index, log *slog.Logger, now func() time.Time) *consumptions {
	c := &consumptions{index: index, log: log, now: now, days: map[dayKey]Consumption{},
		users: map[Owner]map[Owner]bool{}, sums: map[Subject]*monthlySum{}}
	c.flush.call = func() {
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		if err := c.flushNow(ctx); err != nil {
			c.log.WarnContext(ctx, "what was used could not be recorded, which is tried again", "error", err)
			c.flush.start(consumptionDelay)
		}
	}
	return c
}

// Count counts what a caller has used.
func (s *Service) Count(caller Caller, used Consumption) {
	if caller.Owner != "" && used != (Consumption{}) {
		s.counts.add(caller.Owner, caller.Key, used)
	}
}

func (c *consumptions) add(owner Owner, key string, used Consumption) {
	at := dayKey{DayOf(c.now()), owner, key}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, subject := range subjectsOf(owner, key) {
		if sum := c.sums[subject]; sum != nil && sum.month == at.day.Month() {
			sum.sum = sum.sum.Plus(used)
		}
	}
	if at.owner != at.owner.Account() && !c.mayName(at) {
		at.owner = at.owner.Account()
	}
	c.days[at] = c.days[at].Plus(used)
	c.flush.start(consumptionDelay)
}

// mayName reports whether a user has a row of its own. The caller holds mu.
func (c *consumptions) mayName(at dayKey) bool {
	if at.day > c.day {
		c.day, c.users = at.day, map[Owner]map[Owner]bool{}
	}
	named := c.users[at.owner.Account()]
	if named[at.owner] {
		return true
	}
	if len(named) >= maxDayUsers || len(c.days) >= maxCounts {
		return false
	}
	if named == nil {
		named = map[Owner]bool{}
		c.users[at.owner.Account()] = named
	}
	named[at.owner] = true
	return true
}

// subjectsOf returns whose quotas hold for an owner with a key.
func subjectsOf(owner Owner, key string) (list []Subject) {
	for _, each := range owner.Accounts() {
		list = append(list, ownerSubject(each))
	}
	if key != "" {
		list = append(list, keySubject(key))
	}
	return list
}

// close brings the rest to the index.
func (c *consumptions) close(ctx context.Context) error {
	c.flush.end()
	return c.flushNow(ctx)
}

// flushNow brings to the index what it does not have. What it refuses is kept for the next time.
func (c *consumptions) flushNow(ctx context.Context) error {
	c.flushing.Lock()
	defer c.flushing.Unlock()
	c.mu.Lock()
	taken := c.days
	c.days = map[dayKey]Consumption{}
	c.forgetSums()
	c.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	err := c.index.AddConsumption(ctx, daysOf(taken), monthsOf(taken))
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for at, used := range taken {
			c.days[at] = c.days[at].Plus(used)
		}
	}
	return err
}

func daysOf(counts map[dayKey]Consumption) []ConsumptionDay {
	days := make([]ConsumptionDay, 0, len(counts))
	for at, used := range counts {
		days = append(days, ConsumptionDay{at.day, at.owner, at.key, used})
	}
	slices.SortFunc(days, func(a, b ConsumptionDay) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), strings.Compare(string(a.Owner), string(b.Owner)),
			strings.Compare(a.Key, b.Key))
	})
	return days
}

func monthsOf(counts map[dayKey]Consumption) []ConsumptionMonth {
	type monthKey struct {
		month   Day
		subject Subject
	}
	sums := map[monthKey]Consumption{}
	for at, used := range counts {
		for _, subject := range subjectsOf(at.owner, at.key) {
			k := monthKey{at.day.Month(), subject}
			sums[k] = sums[k].Plus(used)
		}
	}
	months := make([]ConsumptionMonth, 0, len(sums))
	for k, used := range sums {
		months = append(months, ConsumptionMonth{k.month, k.subject, used})
	}
	slices.SortFunc(months, func(a, b ConsumptionMonth) int {
		return cmp.Or(cmp.Compare(a.Month, b.Month), strings.Compare(string(a.Subject), string(b.Subject)))
	})
	return months
}

// of returns what a subject has used in a month. It reads that at most once in consumptionDelay: what other nodes
// count comes so late, and up to as long before they record it.
func (c *consumptions) of(ctx context.Context, month Day, subject Subject) (Consumption, error) {
	if sum, ok := c.known(month, subject); ok {
		return sum, nil
	}
	c.flushing.Lock()
	defer c.flushing.Unlock()
	if sum, ok := c.known(month, subject); ok { // another caller has read it
		return sum, nil
	}
	// What is counted from here on is either added to the sum below, or among the days.
	sum, err := c.index.ConsumptionOf(ctx, month, subject)
	if err != nil {
		return Consumption{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, used := range c.days {
		if at.day.Month() == month && slices.Contains(subjectsOf(at.owner, at.key), subject) {
			sum = sum.Plus(used)
		}
	}
	c.sums[subject] = &monthlySum{month, c.now(), sum}
	return sum, nil
}

func (c *consumptions) known(month Day, subject Subject) (Consumption, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sums[subject]
	if s == nil || s.month != month || c.now().Sub(s.read) > consumptionDelay {
		return Consumption{}, false
	}
	return s.sum, true
}

// forgetSums forgets the sums that must be read again. The caller holds mu.
func (c *consumptions) forgetSums() {
	now := c.now()
	maps.DeleteFunc(c.sums, func(_ Subject, s *monthlySum) bool { return now.Sub(s.read) > consumptionDelay })
}

// consumed counts a program that has ended. Of the memory of a run only its peak is known: it counts for all of the
// time that the program ran. A live interpreter was measured from time to time.
func (s *Service) consumed(j *job, run *Run) {
	used := Consumption{Stored: bytesIn(run.Files), Sent: sentBy(run.Contacts)}
	switch {
	case run.StartedAt.IsZero():
	case j.request.Profile.Live != nil:
		used = used.Plus(j.measured.end(run, s.now()))
	default:
		used.Runs, used.CPU, used.Memory = 1, run.CPU, byteSeconds(run.MemoryPeak, run.Duration)
	}
	s.Count(j.caller, used)
}

func bytesIn(files []File) (sum int64) {
	for i := range files {
		sum += files[i].Size
	}
	return sum
}

func sentBy(contacts []Contact) (sum int64) {
	for i := range contacts {
		sum += contacts[i].Sent
	}
	return sum
}

func byteSeconds(bytes int64, d time.Duration) int64 {
	return int64(float64(max(bytes, 0)) * max(d, 0).Seconds())
}

// measured is what was counted of a live interpreter so far.
type measured struct {
	mu     sync.Mutex
	cpu    time.Duration
	memory int64     // when it was last measured; 0: it was not
	at     time.Time // until which it is counted; zero: it does not run
	ended  bool
}

func (m *measured) start(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = now
}

// add returns what an interpreter has used since it was last measured: its memory counts also while it is idle, since
// nobody else can have it.
func (m *measured) add(use SandboxUsage, now time.Time) (used Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended || m.at.IsZero() {
		return Consumption{}
	}
	used.Memory = byteSeconds(use.Memory, now.Sub(m.at))
	used.CPU = max(use.CPU-m.cpu, 0)
	m.memory, m.at, m.cpu = use.Memory, now, max(m.cpu, use.CPU)
	return used
}

// end returns the rest of an interpreter that has ended.
func (m *measured) end(run *Run, now time.Time) (used Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended || m.at.IsZero() {
		return Consumption{}
	}
	m.ended = true
	used.CPU = max(run.CPU-m.cpu, 0)
	used.Memory = byteSeconds(cmp.Or(m.memory, run.MemoryPeak), now.Sub(m.at))
	return used
}

// meterTime bounds one measurement of all live interpreters.
const meterTime = 10 * time.Second

// meterLive counts what live interpreters have used since the last time. It ends those whose owner has used up a
// month's time or memory.
func (s *Service) meterLive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, meterTime)
	defer cancel()
	for _, j := range s.residents() {
		if !j.request.Profile.Live.Apart { // otherwise its sandbox cannot be asked; it counts when it ends
			if use, err := s.sandbox.Usage(ctx, j.session.ID); err == nil {
				s.Count(j.caller, j.measured.add(use, s.now()))
			}
		}
		if err := s.checkMonth(ctx, opRun, j.caller, lasting); KindOf(err) == ErrSpent {
			j.cancel(errMonth)
		}
	}
}

// residents returns the live interpreters.
func (s *Service) residents() (list []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.request.Profile.Live != nil {
			list = append(list, j)
		}
	}
	return list
}

// keyOf returns the key of the live interpreter of a session.
func (s *Service) keyOf(session ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.within == session && j.caller.Key != "" {
			return j.caller.Key
		}
	}
	return ""
}

// mostDays is how many days one answer has.
const mostDays = 20_000

// Consumption returns what was used in a month: by the caller and its users, or for an admin by the owner of the
// query, or all. It reports whether there is more.
func (s *Service) Consumption(
	ctx context.Context, caller Caller, month Day, q ConsumptionQuery,
) (days []ConsumptionDay, more bool, err error) {
	const op = "list consumption"
	if !caller.Operator() {
		if q.Owner != "" && q.Owner != caller.Owner && q.Owner.Account() != caller.Owner {
			return nil, false, adminOnly(op, caller)
		}
		q.Owner = cmp.Or(q.Owner, caller.Owner)
	}
	q.From, q.To, q.Limit = month.Month(), month.NextMonth(), mostDays+1
	if err := s.counts.flushNow(ctx); err != nil {
		return nil, false, failure(op, "", err)
	}
	days, err = s.index.ListConsumption(ctx, q)
	if len(days) > mostDays {
		days, more = days[:mostDays], true
	}
	return days, more, failure(op, "", err)
}
