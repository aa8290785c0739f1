package index

import (
	"context"
	"testing"
	"time"
)

// Finding the number of a run takes as long among many runs as among few. An earlier
// query searched all smaller numbers, and recording a run waited meanwhile.
func TestLargeNextDoc(t *testing.T) {
	db := openAt(t, newPath(t))
	took := func() time.Duration {
		best := time.Hour
		for range 5 {
			began := time.Now()
			if err := db.read(t.Context(), "test", "", func(c *conn) error {
				for range 50 {
					if doc, err := nextDoc(t.Context(), c, start); err != nil || doc != start.UnixMicro()*docsInstant {
						t.Fatal(doc, err)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	add := func(count int) {
		if err := db.write(t.Context(), "test", "", func(ctx context.Context, c *conn) error {
			_, err := c.exec(ctx, `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
				INSERT INTO runs (id, owner, origin, language, status, created_us, finished_us, doc)
				SELECT randomblob(16), 'ada', 'native', 'python', 'succeeded', n, n, n FROM numbers`, count)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	few := took()
	add(30_000)
	if many := took(); many > 20*few {
		t.Errorf("50 numbers took %v among 30,010 runs, %v among 10", many, few)
	}
}
