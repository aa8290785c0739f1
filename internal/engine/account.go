package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"sync"
)

// An application has one key for many people, whom its requests name. Each of them is an
// owner of its own, below the owner of the key: nobody sees what another one has, and the
// bounds of one owner hold for each. Since the holder of a key can name as many as it
// likes, they all count against the totals of the key's owner, too: its account.

// userPart is between the owner of a key and the name of a user. No other owner contains it
// in this place: the name of a key's owner has no slash.
const userPart = "/user/"

// userDigits is the length of a user's name, which is a hash: the client chooses what it
// is called.
const userDigits = 32

// User returns the caller for a user whom it names; itself if the name is empty.
func (c Caller) User(name string) Caller {
	if name == "" || c.Owner == "" {
		return c
	}
	sum := sha256.Sum256([]byte(name))
	c.Owner += Owner(userPart + hex.EncodeToString(sum[:userDigits/2]))
	return c
}

// Account returns the owner of the key that named a user, and any other owner itself.
func (o Owner) Account() Owner {
	account, user, found := strings.Cut(string(o), userPart)
	if !found || len(user) != userDigits || strings.Trim(user, "0123456789abcdef") != "" ||
		strings.Contains(account, "/") {
		return o
	}
	return Owner(account)
}

// Accounts returns the owners whose bounds hold for what an owner has: itself, and for a
// user the account. What they have is counted for each of them.
func (o Owner) Accounts() []Owner {
	if account := o.Account(); account != o {
		return []Owner{o, account}
	}
	return []Owner{o}
}

// An Allowance says what an account may have.
type Allowance struct {
	Users  int // that have something at once; 0: any number
	Shares int // how many times the bounds of one owner all of them have together; 0: once
}

// or returns an allowance with the larger of both numbers.
func (a Allowance) or(b Allowance) Allowance {
	return Allowance{max(a.Users, b.Users), max(a.Shares, b.Shares)}
}

// times returns what an account may have of something of which one owner may have bound.
func (a Allowance) times(bound int64) int64 {
	shares := int64(max(a.Shares, 1))
	if bound > math.MaxInt64/shares {
		return math.MaxInt64
	}
	return bound * shares
}

// accounts remembers the allowances and walls of the accounts that have some.
type accounts struct {
	mu    sync.Mutex
	of    map[Owner]Allowance
	walls map[Owner]Wall // the strongest of the keys of each
}

// set replaces everything by what the keys in force say.
func (a *accounts) set(keys []Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of, a.walls = map[Owner]Allowance{}, map[Owner]Wall{}
	for i := range keys {
		if keys[i].RevokedAt.IsZero() {
			a.add(&keys[i])
		}
	}
}

// note adds what a key in force says, which another node may have made.
func (a *accounts) note(key *Key) {
	if key.Allowance == (Allowance{}) && key.Wall == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of, a.walls = map[Owner]Allowance{}, map[Owner]Wall{}
	}
	a.add(key)
}

// add adds what a key says. The caller holds mu.
func (a *accounts) add(key *Key) {
	if key.Allowance != (Allowance{}) {
		a.of[key.Owner] = a.of[key.Owner].or(key.Allowance)
	}
	if key.Wall != "" {
		a.walls[key.Owner] = key.Wall.Stronger(a.walls[key.Owner])
	}
}

func (a *accounts) wall(owner Owner) Wall {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.walls[owner]
}

func (a *accounts) get(owner Owner) Allowance {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[owner]
}

// loadAccounts reads the allowances, and how many keys there are.
func (s *Service) loadAccounts(ctx context.Context) error {
	keys, err := s.index.Keys(ctx)
	if err != nil {
		return err
	}
	s.accounts.set(keys)
	s.meter.keys.Store(int64(len(keys)))
	return nil
}

// A Bound is how much of something one owner may have.
type Bound struct {
	Owner Owner
	Most  int64
}

// Bounds returns the bounds for what an owner has, if one owner may have most: its own, and
// for a user also the account's.
func (s *Service) Bounds(owner Owner, most int64) []Bound {
	all := owner.Accounts()
	bounds := make([]Bound, len(all))
	for i, each := range all {
		bounds[i] = Bound{each, s.accounts.get(each).times(most)}
	}
	return bounds
}

// Tally counts something by owner, in memory: what is counted does not outlive the process.
// The zero value is ready.
type Tally struct {
	mu     sync.Mutex
	all    int64
	owners map[Owner]int64
}

// Add counts n more of an owner, unless an owner in bounds had more than it may then, or all
// together more than total: what does not fit takes nothing from what does. It returns the
// bound that it exceeds, nil for the total, and what its owner would have.
func (t *Tally) Add(n, total int64, bounds []Bound) (over *Bound, sum int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range bounds {
		if sum := t.owners[bounds[i].Owner] + n; sum > bounds[i].Most {
			return &bounds[i], sum, false
		}
	}
	if t.all+n > total {
		return nil, t.all + n, false
	}
	if t.owners == nil {
		t.owners = map[Owner]int64{}
	}
	t.all += n
	for i := range bounds {
		t.owners[bounds[i].Owner] += n
	}
	return nil, 0, true
}

// Remove counts n less of an owner.
func (t *Tally) Remove(owner Owner, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all -= n
	for _, each := range owner.Accounts() {
		if left := t.owners[each] - n; left > 0 {
			t.owners[each] = left
		} else {
			delete(t.owners, each)
		}
	}
}

// Empty reports whether nothing is counted.
func (t *Tally) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all == 0 && len(t.owners) == 0
}

// checkAllowance rejects an allowance that no key can have.
func checkAllowance(a Allowance) error {
	switch {
	case a.Users < 0 || a.Users > MaxUsers:
		return Invalid("users", "must be between 1 and %d", MaxUsers)
	case a.Shares > 0 && a.Users == 0:
		return Invalid("shares", "are of users: say how many there are")
	case a.Shares < 0 || a.Shares > MaxUsers:
		return Invalid("shares", "must be between 1 and %d", MaxUsers)
	}
	return nil
}

// MaxUsers bounds the numbers of an Allowance.
const MaxUsers = 1_000_000
