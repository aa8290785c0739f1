package live

import "github.com/airlock-run/airlock/internal/engine"

// Prepare has a session's interpreter get ready for a cell that may come, once for each
// cell.
func (s *Service) Prepare(caller engine.Caller, id engine.ID) {
	s.mu.Lock()
	at := s.sessions[id]
	s.mu.Unlock()
	if at == nil || at.caller.Owner != caller.Owner {
		return
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	it := at.interpreter
	if it == nil || it.ready || !it.began || it.ending != "" || at.current != nil || len(at.orders) > 0 ||
		at.settings.Language != "python" || it.controls.Prepare == nil {
		return
	}
	it.ready = true
	it.controls.Prepare()
}
