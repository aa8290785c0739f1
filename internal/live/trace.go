package live

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/airlock-run/airlock/internal/engine"
)

// Cells are in the memory of one node. So that a client that was told of a cell learns that it is lost with its node,
// the id of a cell shows that a node of this cluster has given it out, and under which place of the session: nothing
// is written for that. The bits of a UUID's version and variant, in bytes 6 and 8, stay.
const (
	idGeneration = 7 // the byte with the low bits of the generation
	idMark       = 9 // where the mark begins
)

// newCellID returns the id of a new cell.
func (at *session) newCellID() engine.ID {
	id := engine.NewID()
	if len(at.service.config.Secret) > 0 {
		id[idGeneration] = byte(at.record.Place.Generation)
		copy(id[idMark:], at.markOf(id))
	}
	return id
}

func (at *session) markOf(id engine.ID) []byte {
	mac := hmac.New(sha256.New, at.service.config.Secret)
	mac.Write([]byte("cell "))
	mac.Write(at.id[:])
	mac.Write(id[:idMark])
	return mac.Sum(nil)
}

// formerCell returns a cell of a former place of the session, of which nothing is left; nil: it was none.
func (at *session) formerCell(id engine.ID) *cell {
	if len(at.service.config.Secret) == 0 || id[idGeneration] == byte(at.record.Place.Generation) ||
		!hmac.Equal(id[idMark:], at.markOf(id)[:len(id)-idMark]) {
		return nil
	}
	c := &cell{
		Cell: Cell{ID: id, Session: at.id, Status: StatusLost, CreatedAt: at.record.CreatedAt,
			FinishedAt: at.record.CreatedAt, Message: "The node that had it has ended, and what is known of it: files " +
				"that it had stored by then are there."},
		log: newLog(at.settings.Limits.Output), done: make(chan struct{}),
	}
	c.log.end(c.Cell)
	close(c.done)
	return c
}
