package reply

// EventType says what an Event tells.
type EventType string

// The events of a Parser.
const (
	// EventOpened: an item with a known path begins. Its content is still to
	// come and its verdict is not known; Parser.Open shows what there is.
	EventOpened EventType = "opened"
	// EventItem: an item is complete.
	EventItem EventType = "item"
	// EventRevised: text further on changed what an item is: superseded by a
	// later one, ambiguous after all, a thought.
	EventRevised EventType = "revised"
)

// Event tells of the progress of a Parser. Events depend on the reply alone,
// not on how it was cut into chunks.
type Event struct {
	Type EventType
	// Item is the item as it is now; it may be revised until Close.
	Item Item
}
