package pytool

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Availability tells whether a model may be offered the tool.
type Availability struct {
	Available bool
	Connected bool   // the service has answered
	Reason    string // why it is not available
	Cure      string // what the operator can do about it
	Version   string // of the service, where it is known
}

// healthTime is how long an answer is cached.
const healthTime = 30 * time.Second

// healthCache asks at most once in healthTime. Concurrent callers wait for the same answer.
type healthCache struct {
	mu    sync.Mutex
	last  Health
	until time.Time
}

func (c *healthCache) get(ctx context.Context, now func() time.Time, ask func(context.Context) Health) Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now().Before(c.until) {
		return c.last
	}
	health := ask(ctx)
	if ctx.Err() == nil { // else the answer is not the service's
		c.last, c.until = health, now().Add(healthTime)
	}
	return health
}

// Available returns whether the tool can be used: a service is set, the tool is switched on,
// and the service is healthy. It is cheap enough for every turn.
func (t *Tool) Available(ctx context.Context) Availability {
	if t.runner == nil {
		return Availability{
			Reason: "No code interpreter is set: " + EnvBaseURL + " is empty.",
			Cure: "Set " + EnvBaseURL +
				" to the address of a service, such as http://localhost:8000/onyx, and start this application again.",
		}
	}
	if t.enabled != nil && !t.enabled(ctx) {
		return Availability{
			Reason: "The code interpreter is switched off.",
			Cure:   "Switch it on in the administration of this application.",
		}
	}
	health := t.health.get(ctx, t.now, t.runner.Health)
	at := Availability{Available: health.OK(), Connected: health.Connected, Version: health.Version}
	switch {
	case at.Available:
	case !health.Connected:
		at.Reason = health.Error + "."
		at.Cure = "Start the service, and check that " + t.place() + " can be reached from here."
	default:
		at.Reason = fmt.Sprintf("The code interpreter is not well: %s.", health.Error)
		at.Cure = cmp.Or(health.Cure, "Look at the log of the service at "+t.place()+
			"; on its host, `airlock doctor` says what is missing.")
	}
	return at
}

func (t *Tool) place() string {
	if t.cfg.BaseURL == "" {
		return "the service"
	}
	return EnvBaseURL + " (" + t.cfg.BaseURL + ")"
}
