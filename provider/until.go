package provider

import "time"

// Until is when the session dies unless it is used before; zero: there is
// none, or its time is not known.
func (t *Tracker) Until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session.ID == "" {
		return time.Time{}
	}
	end, idle := t.session.Expires, t.idle()
	if idle > 0 && !t.used.IsZero() {
		if last := t.used.Add(idle); end.IsZero() || last.Before(end) {
			end = last
		}
	}
	return end
}
