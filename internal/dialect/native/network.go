package native

import (
	"github.com/airlock-run/airlock/internal/engine"
)

// readNetwork reads what a run or a session asks for of the network; nil if it does
// not say.
func readNetwork(o *object) *engine.Network {
	body := o.object("network")
	if body.members == nil {
		return nil
	}
	return &engine.Network{
		Allow: body.texts("allow"), Deny: body.texts("deny"), MaxBytes: body.count("max_bytes", 1<<50),
	}
}

// contactBody is one connection that a program asked for.
type contactBody struct {
	Run      engine.ID    `json:"run"`
	Owner    engine.Owner `json:"owner"`
	At       string       `json:"at"`
	Host     string       `json:"host"`
	Port     int          `json:"port"`
	Address  string       `json:"address,omitempty"`
	Sent     int64        `json:"sent"`
	Received int64        `json:"received"`
	Took     int64        `json:"took_ms"`
	Verdict  string       `json:"verdict"`
	Reason   string       `json:"reason,omitempty"`
	More     int          `json:"more,omitempty"`
}

func contactOf(c engine.Contact) contactBody {
	return contactBody{
		Run: c.Run, Owner: c.Owner, At: timeOf(c.At), Host: c.Host, Port: int(c.Port), Address: c.Address, Sent: c.Sent,
		Received: c.Received, Took: c.Took.Milliseconds(), Verdict: c.Verdict, Reason: c.Reason, More: c.More,
	}
}

// listContacts answers with lines of the audit log, newest first.
func (q *request) listContacts() (any, error) {
	ask := engine.ContactQuery{Owner: engine.Owner(q.URL.Query().Get("owner"))}
	if run := q.URL.Query().Get("run"); run != "" {
		var err error
		if ask.Run, err = engine.ParseID(run); err != nil {
			return nil, invalid("run is not an id")
		}
	}
	contacts, err := q.engine.Contacts(q.Context(), q.caller, ask)
	if err != nil {
		return nil, err
	}
	return map[string]any{"contacts": each(contacts, contactOf)}, nil
}
