package anthropic

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// containers records the expiry of containers. The answer for an expired container is a
// 404, or a bare 500 "api_error" (anthropic-sdk-python issues), which other failures have
// too.
type containers struct {
	mu    sync.Mutex
	known map[string]*container
}

type container struct {
	expires time.Time
	faults  int // bare 500s in a row
}

// seen records a container of a reply.
func (c *containers) seen(id string, expires, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]*container{}
	}
	for other, k := range c.known {
		if k.expires.Before(now.Add(-24 * time.Hour)) {
			delete(c.known, other)
		}
	}
	c.known[id] = &container{expires: expires}
}

// explain turns an error into ContainerExpired if the container's expiry has passed or is
// unknown, or if it is the second bare 500.
func (c *containers) explain(id string, err error, now time.Time) error {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || id == "" || e.Code != "api_error" && e.Kind != provider.FileNotFound {
		return err
	}
	if message := strings.ToLower(e.Message); e.Kind == provider.FileNotFound &&
		(strings.Contains(message, "file") || strings.Contains(message, "model")) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[id]
	if k != nil {
		k.faults++
	}
	if e.Code == "api_error" && k != nil && k.faults < 2 && now.Before(k.expires) {
		return err
	}
	expired := *e
	expired.Kind = provider.ContainerExpired
	return &expired
}
