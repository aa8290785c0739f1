package engine

// Turns is the queue of a Service by itself, for what simulates one.
type Turns struct{ queue *queue }

// NewTurns returns an empty queue.
func NewTurns(most, mostPerOwner int) *Turns { return &Turns{newQueue(1, most, mostPerOwner)} }

// Resize is Service.SetSlots.
func (t *Turns) Resize(slots int) { t.queue.resize(max(slots, 1)) }

// Enter has a run wait for its turn, which has come once ready is closed. It calls leave
// when it has ended. ErrBusy: there is no place.
func (t *Turns) Enter(owner Owner) (ready <-chan struct{}, leave func(), err error) {
	ticket, err := t.queue.reserve(owner, NewID())
	if err != nil {
		return nil, nil, err
	}
	t.queue.join(ticket)
	return ticket.ready, func() { t.queue.leave(ticket) }, nil
}
