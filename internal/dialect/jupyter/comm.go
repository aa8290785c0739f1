package jupyter

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// The messages of comms, which widgets are made of. They go both ways.
const (
	commOpen    = "comm_open"
	commMessage = "comm_msg"
	commClose   = "comm_close"
)

// commInfo lists the open comms of a kernel.
func (k *kernel) commInfo(ctx context.Context, r *clientRequest) {
	var content struct {
		Target string `json:"target_name"`
	}
	_ = json.Unmarshal(r.content, &content) // none is any
	found, err := k.server.Live.Comms(ctx, k.caller, k.id, content.Target)
	if err != nil && engine.KindOf(err) != engine.ErrConflict {
		r.reply("comm_info_reply", failure("CommError", reasonOf(err)))
		return
	}
	comms := map[string]live.Comm{}
	maps.Copy(comms, found)
	r.reply("comm_info_reply", map[string]any{"status": "ok", "comms": comms})
}

// comm passes a message of a client on to the interpreter, and publishes what comes of it. It has no
// reply. Where there are no comms, as before the first cell, the new comm is closed, as by the original
// if it does not know the target.
func (k *kernel) comm(ctx context.Context, r *clientRequest) {
	out := output{kernel: k, request: r, what: &execution{Silent: true}}
	events, err := k.server.Live.SendComm(ctx, k.caller, k.id, r.id,
		live.CommMessage{Kind: r.kind, Content: r.content, Metadata: orNone(r.metadata), Buffers: r.buffers})
	if err != nil {
		if engine.KindOf(err) != engine.ErrConflict {
			out.stream("stderr", line(reasonOf(err)))
		}
		var content struct {
			ID json.RawMessage `json:"comm_id"`
		}
		if json.Unmarshal(r.content, &content) == nil && content.ID != nil && r.kind == commOpen {
			out.publish(commClose, map[string]any{"comm_id": content.ID, "data": none})
		}
		return
	}
	for e := range events {
		if e.Type != live.DoneEvent {
			out.event(e)
			continue
		}
		if e.Cell.Status == live.StatusLost {
			out.lost(e.Cell.Message)
		} else {
			out.stream("stderr", line(e.Cell.Message))
		}
	}
}

// comm publishes what a widget says.
func (o *output) comm(c *live.CommMessage) {
	m := o.kernel.message(iopub, c.Kind, o.request.header, c.Content)
	m.metadata, m.buffers, m.small = c.Metadata, c.Buffers, nil
	o.kernel.tell(m.limit())
}
