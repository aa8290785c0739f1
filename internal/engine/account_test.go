package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func userOf(account Owner, name string) Owner { return Caller{Owner: account}.User(name).Owner }

func TestAccount(t *testing.T) {
	if x, y := userOf("web", "x"), userOf("web", "y"); x == y || x.Account() != "web" || y.Account() != "web" {
		t.Errorf("%s, %s", x, y)
	}
	if got := userOf("web", ""); got != "web" {
		t.Errorf("no user is %s", got)
	}
	hex := strings.Repeat("0123456789abcdef", 2)
	for _, owner := range []Owner{
		"web", "local", "jwt/acme/user/ann", "jwt/acme/shared", Owner("jwt/acme/user/" + hex),
		Owner("jwt/user/user/" + hex), Owner("jwt/user/user/" + hex[5:]), Owner("web/user/" + hex + "0"),
		Owner("web/user/" + strings.ToUpper(hex)), "web/user/",
	} {
		if got := owner.Account(); got != owner {
			t.Errorf("the account of %s is %s", owner, got)
		}
	}
}

// What users have counts for each of them, and for their account.
func TestTally(t *testing.T) {
	var tally Tally
	s := &Service{}
	add := func(owner Owner) bool { _, _, ok := tally.Add(1, 6, s.Bounds(owner, 2)); return ok }
	z0, z1 := userOf("web", "z0"), userOf("web", "z1")
	if got := []bool{add(z0), add(z1), add(z0), add("web"), add("bob"), add("bob"), add("bob")}; !slices.Equal(got,
		[]bool{true, true, false, false, true, true, false}) {
		t.Errorf("with one share: %v", got)
	}
	s.accounts.set([]Key{{Owner: "web", Allowance: Allowance{Users: 8, Shares: 2}}})
	if got := []bool{add(z0), add(z0), add(z1), add("web"), add("eve")}; !slices.Equal(got,
		[]bool{true, false, true, false, false}) {
		t.Errorf("with two, of 6 together: %v", got)
	}
	for _, owner := range []Owner{z0, z0, z1, z1, "bob", "bob"} {
		tally.Remove(owner, 1)
	}
	if !tally.Empty() {
		t.Errorf("%+v", &tally)
	}
	if got := (Allowance{Shares: 1000}).times(math.MaxInt64 / 10); got != math.MaxInt64 {
		t.Errorf("an overflow: %d", got)
	}
}

// However many users the holder of a key names, they wait and run as one owner.
func TestQueueOfUsers(t *testing.T) {
	q := newQueue(4, 100, 3)
	q.share = func(Owner) (all, one int) { return 2, 1 }
	var all []*ticket
	for i := range 9 {
		ticket, err := q.reserve(userOf("web", fmt.Sprint("z", i)), NewID())
		if err != nil {
			if i < 5 {
				t.Fatal(i, err)
			}
			continue
		}
		q.join(ticket)
		all = append(all, ticket)
	}
	if got := running(all...); !slices.Equal(got, []bool{true, true, false, false, false}) {
		t.Errorf("of 9 users, 2 run and 3 wait: %v", got)
	}
	again := userOf("web", "z0")
	if _, err := q.reserve(again, NewID()); err == nil {
		t.Error("one more waits")
	}
	bob := enter(t, q, "bob", NewID())
	if bob.state != ticketRunning {
		t.Error("bob has to wait for the users of another key")
	}
	q.leave(all[0])
	q.leave(all[1])
	if got := running(all...); !slices.Equal(got, []bool{false, false, true, true, false}) {
		t.Errorf("the next ones: %v", got)
	}
	for _, ticket := range append(all, bob) {
		q.leave(ticket)
	}
	if len(q.owners) != 0 || len(q.accounts) != 0 {
		t.Errorf("left: %v, %v", q.owners, q.accounts)
	}
}

// The slots go round among accounts, and within one among its users.
func TestQueueTurnsOfUsers(t *testing.T) {
	q := newQueue(1, 100, 100)
	names := map[*ticket]string{}
	var all []*ticket
	add := func(owner Owner, name string) {
		ticket := enter(t, q, owner, NewID())
		names[ticket], all = name, append(all, ticket)
	}
	x, y := userOf("web", "x"), userOf("web", "y")
	for _, name := range []string{"x1", "x2", "x3"} {
		add(x, name)
	}
	add(y, "y1")
	add("bob", "b1")
	add("bob", "b2")
	var order []string
	for range all {
		for _, ticket := range all {
			if ticket.state == ticketRunning {
				order = append(order, names[ticket])
				q.leave(ticket)
				break
			}
		}
	}
	if want := []string{"x1", "b1", "y1", "b2", "x2", "x3"}; !slices.Equal(order, want) {
		t.Errorf("%v, not %v", order, want)
	}
}
