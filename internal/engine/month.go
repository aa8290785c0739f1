package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MonthQuota bounds what may be used in a month of UTC. Zero fields are no bound. Programs that run when it is used up
// go on to their end, so that more is used than it says: at most what they use, and what was begun in the seconds
// until all nodes know. Live interpreters are ended.
type MonthQuota Consumption

// ParseMonthQuota reads a quota such as "runs=10000,cpu=100h,memory=500GiBh,stored=10GiB,sent=100GiB".
func ParseMonthQuota(text string) (q MonthQuota, err error) {
	seen := map[string]bool{}
	for _, part := range list(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		var n int64
		switch name {
		case "runs":
			n, err = strconv.ParseInt(value, 10, 64)
			q.Runs = n
		case "cpu":
			q.CPU, err = time.ParseDuration(value)
			n = int64(q.CPU)
		case "memory":
			size, hours := strings.CutSuffix(value, "h")
			if n, err = parseBytes(size); !hours || n > math.MaxInt64/3600 {
				err = errors.New("no amount")
			}
			q.Memory = n * 3600
		case "stored":
			n, err = parseBytes(value)
			q.Stored = n
		case "sent":
			n, err = parseBytes(value)
			q.Sent = n
		default:
			return MonthQuota{}, fmt.Errorf("%.40q is not one of runs=N, cpu=TIME, memory=SIZEh, stored=SIZE and sent=SIZE",
				part)
		}
		if err != nil || n <= 0 || seen[name] {
			return MonthQuota{}, fmt.Errorf("%.40q is no amount such as runs=10000, cpu=100h, memory=500GiBh, stored=10GiB "+
				"or sent=100GiB, each at most once", part)
		}
		seen[name] = true
	}
	return q, nil
}

var byteUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseBytes reads a size such as 10GiB.
func parseBytes(text string) (int64, error) {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil && n > math.MaxInt64/unit.size {
			err = strconv.ErrRange
		}
		return n * unit.size, err
	}
	return 0, strconv.ErrSyntax
}

// kinds say which parts of a quota are looked at.
type quotaParts int

const (
	everything quotaParts = iota
	lasting               // what a program uses as long as it runs
)

// over returns what is used up, in words; empty if nothing is. shares is how many times the quota holds.
func (q MonthQuota) over(used Consumption, a Allowance, parts quotaParts) string {
	is := func(used, most int64) bool { return most > 0 && used >= a.times(most) }
	switch {
	case is(int64(used.CPU), int64(q.CPU)):
		return DurationText(time.Duration(a.times(int64(q.CPU)))) + " of processor time"
	case is(used.Memory, q.Memory):
		return byteCount(a.times(q.Memory)/3600) + " of memory for an hour"
	case parts == lasting:
	case is(used.Runs, q.Runs):
		return fmt.Sprintf("%d programs", a.times(q.Runs))
	case is(used.Stored, q.Stored):
		return byteCount(a.times(q.Stored)) + " of stored files"
	case is(used.Sent, q.Sent):
		return byteCount(a.times(q.Sent)) + " of answers"
	}
	return ""
}

var errMonth = errors.New("what may be used in a month is used up")

// maxSpentRetry bounds Retry-After of what a quota refuses. The quota may be raised, and a client that heeds it should
// not wait for weeks.
const maxSpentRetry = time.Hour

// CheckMonth returns ErrSpent if the caller, its account or its key has used up what it may use in a month. Then
// nothing is begun: no run, cell or process, and no upload.
func (s *Service) CheckMonth(ctx context.Context, op string, caller Caller) error {
	return s.checkMonth(ctx, op, caller, everything)
}

func (s *Service) checkMonth(ctx context.Context, op string, caller Caller, parts quotaParts) error {
	if s.cfg.Month == (MonthQuota{}) && caller.Month == "" {
		return nil
	}
	now := s.now()
	month := DayOf(now).Month()
	check := func(subject Subject, q MonthQuota, a Allowance, who, cure string) error {
		if q == (MonthQuota{}) {
			return nil
		}
		used, err := s.counts.of(ctx, month, subject)
		if err != nil {
			return failure(op, "", err)
		}
		what := q.over(used, a, parts)
		if what == "" {
			return nil
		}
		end := month.NextMonth().Time()
		return &Error{Op: op, Kind: ErrSpent, Err: errMonth, RetryAfter: min(end.Sub(now), maxSpentRetry),
			Hint: fmt.Sprintf("%s used %s this month, as much as it may: nothing new is begun until %s UTC. Files can be read "+
				"and deleted. Wait until then, or ask the operator %s.", who, what, end.Format("2 January 2006, 15:04"), cure)}
	}
	q, err := ParseMonthQuota(caller.Month)
	if err != nil {
		return failure(op, "", err)
	}
	if err := check(keySubject(caller.Key), q, Allowance{}, "This key has",
		"for one with more (`airlock keys create --month`)"); err != nil {
		return err
	}
	for _, each := range caller.Owner.Accounts() {
		who := "This owner has"
		if each != caller.Owner {
			who = "All users of this key together have"
		}
		allowance := Allowance{}
		if each == caller.Owner.Account() {
			allowance = s.accounts.get(each)
		}
		if err := check(ownerSubject(each), s.cfg.Month, allowance, who, "to raise owner_month"); err != nil {
			return err
		}
	}
	return nil
}

// Months returns the quotas of the month that hold for a caller, with what was used of each.
func (s *Service) Months(ctx context.Context, caller Caller) (list []MonthState, err error) {
	month := DayOf(s.now()).Month()
	add := func(subject Subject, q MonthQuota, a Allowance) error {
		if q == (MonthQuota{}) {
			return nil
		}
		used, err := s.counts.of(ctx, month, subject)
		if err == nil {
			list = append(list, MonthState{Subject: subject, Used: used, Quota: q.times(a)})
		}
		return err
	}
	for _, each := range caller.Owner.Accounts() {
		allowance := Allowance{}
		if each == caller.Owner.Account() {
			allowance = s.accounts.get(each)
		}
		if err := add(ownerSubject(each), s.cfg.Month, allowance); err != nil {
			return nil, failure("list quotas", "", err)
		}
	}
	q, err := ParseMonthQuota(caller.Month)
	if err == nil {
		err = add(keySubject(caller.Key), q, Allowance{})
	}
	return list, failure("list quotas", "", err)
}

// MonthState is a quota and what is used of it.
type MonthState struct {
	Subject Subject
	Used    Consumption
	Quota   MonthQuota
}

// times returns the quota of an account.
func (q MonthQuota) times(a Allowance) MonthQuota {
	return MonthQuota{a.times(q.Runs), time.Duration(a.times(int64(q.CPU))), a.times(q.Memory), a.times(q.Stored),
		a.times(q.Sent)}
}
