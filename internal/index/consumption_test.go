package index

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestConsumption(t *testing.T) { onEachStore(t, testConsumption) }

func testConsumption(t *testing.T, open func(...Option) *DB) {
	db, ctx := open(), t.Context()
	november := engine.DayOf(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	last, december := november+29, november+30
	if last.Month() != november || last.NextMonth() != december || december.Month() != december ||
		last.String() != "2026-11-30" {
		t.Fatalf("november begins on %v and ends on %v", november, last)
	}
	user := engine.Caller{Owner: "ada"}.User("u1").Owner
	used := engine.Consumption{Runs: 1, CPU: 1500 * time.Microsecond, Memory: 1 << 40, Stored: 7, Sent: 9}
	days := []engine.ConsumptionDay{{Day: november, Owner: "ada", Key: "k1", Consumption: used},
		{Day: november, Owner: user, Key: "k1", Consumption: used}, {Day: last, Owner: "ada", Consumption: used},
		{Day: last, Owner: "bob", Key: "k2", Consumption: used}, {Day: december, Owner: "ada", Key: "k1", Consumption: used}}
	months := []engine.ConsumptionMonth{{Month: november, Subject: "owner:ada", Consumption: used},
		{Month: december, Subject: "owner:ada", Consumption: used}}
	var adding sync.WaitGroup
	for range 2 { // at once
		adding.Go(func() {
			if err := db.AddConsumption(ctx, days, months); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	twice := used.Plus(used)
	want := func(what string, q engine.ConsumptionQuery, days ...engine.ConsumptionDay) {
		t.Helper()
		if q.Limit == 0 {
			q.Limit = 100
		}
		got, err := db.ListConsumption(ctx, q)
		if diff := cmp.Diff(days, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", what, err, diff)
		}
	}
	all := []engine.ConsumptionDay{{Day: november, Owner: "ada", Key: "k1", Consumption: twice.Plus(twice)},
		{Day: last, Owner: "ada", Consumption: twice}, {Day: last, Owner: "bob", Key: "k2", Consumption: twice}}
	want("all of a month, users with their accounts", engine.ConsumptionQuery{From: november, To: december}, all...)
	want("the first of them", engine.ConsumptionQuery{From: november, To: december, Limit: 1}, all[0])
	want("an owner", engine.ConsumptionQuery{From: november, To: december, Owner: "ada"}, all[:2]...)
	want("a user", engine.ConsumptionQuery{From: november, To: december, Owner: user},
		engine.ConsumptionDay{Day: november, Owner: user, Key: "k1", Consumption: twice})
	want("an owner, each user by itself", engine.ConsumptionQuery{From: november, To: november + 1, Owner: "ada",
		Users: true}, engine.ConsumptionDay{Day: november, Owner: "ada", Key: "k1", Consumption: twice},
		engine.ConsumptionDay{Day: november, Owner: user, Key: "k1", Consumption: twice})
	want("the next month", engine.ConsumptionQuery{From: december, To: december + 31},
		engine.ConsumptionDay{Day: december, Owner: "ada", Key: "k1", Consumption: twice})

	sum, err := db.ConsumptionOf(ctx, november, "owner:ada")
	none, otherErr := db.ConsumptionOf(ctx, november, "key:k9")
	if sum != twice || none != (engine.Consumption{}) || errors.Join(err, otherErr) != nil {
		t.Errorf("the month has %+v, and that of another %+v: %v, %v", sum, none, err, otherErr)
	}
	if n, err := db.ExpireConsumption(ctx, last, 1); n != 1 || err != nil {
		t.Errorf("expired %d of two: %v", n, err)
	}
	if n, err := db.ExpireConsumption(ctx, last, 10); n != 1 || err != nil {
		t.Errorf("expired %d: %v", n, err)
	}
	want("of the rest", engine.ConsumptionQuery{From: november, To: december}, all[1:]...)
	if sum, err := db.ConsumptionOf(ctx, november, "owner:ada"); sum != twice || err != nil {
		t.Errorf("a month that has not ended then has %+v: %v", sum, err)
	}
	if _, err := db.ExpireConsumption(ctx, december, 10); err != nil {
		t.Fatal(err)
	}
	if sum, err := db.ConsumptionOf(ctx, november, "owner:ada"); sum != (engine.Consumption{}) || err != nil {
		t.Errorf("a month that has ended has %+v: %v", sum, err)
	}
}
