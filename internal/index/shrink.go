package index

import (
	"context"
	"fmt"
)

// An index that has shrunk gives room back to the disk. SQLite keeps the pages of deleted rows for
// rows to come; beyond a quarter of the file each deletion returns some of them. A file of an
// earlier version cannot do that before it is written anew: at the start if it is small, as are the
// files that are read as a whole then, else by backup and restore.
const (
	sparePart   = 4    // one of so many pages may be spare
	sparePages  = 1024 // and so many in any case: 4 MiB
	shrinkPages = 1024 // that one deletion returns
)

const incremental = 2 // of PRAGMA auto_vacuum

// letShrink makes a file of an earlier version one that can shrink.
func (l *local) letShrink(ctx context.Context, c *conn) {
	var mode int
	if err := c.row(ctx, []any{&mode}, "PRAGMA auto_vacuum"); err != nil || mode == incremental {
		return
	}
	_, err := c.conn.ExecContext(ctx, "PRAGMA auto_vacuum = incremental; VACUUM")
	if err != nil { // such as a full disk: the file is as it was
		l.log.WarnContext(ctx, "the index cannot return room to the disk: the next start tries again", "error", err)
	}
}

// shrink returns some spare pages to the disk. If it fails, the next one may succeed.
func (l *local) shrink(ctx context.Context) {
	select {
	case writer := <-l.writer:
		defer func() { l.writer <- writer }()
		ctx = context.WithoutCancel(ctx)
		var spare, pages int
		if writer.row(ctx, []any{&spare}, "PRAGMA freelist_count") != nil ||
			writer.row(ctx, []any{&pages}, "PRAGMA page_count") != nil || spare <= max(sparePages, pages/sparePart) {
			return
		}
		rows, err := writer.conn.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
		if err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() { // each step returns a page
		}
		_ = rows.Err()
	case <-ctx.Done():
	case <-l.closed:
	}
}
