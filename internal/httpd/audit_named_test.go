package httpd

import (
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// The log of a request names the session and the run, and no other word of its path.
func TestNamed(t *testing.T) {
	id := engine.NewID()
	for path, want := range map[string]string{
		"/api/v1/sessions/" + id.String() + "/cells": "session",
		"/api/v1/runs/" + id.String():                "run",
	} {
		if got := named(path); len(got) != 2 || got[0] != want || got[1] != id {
			t.Errorf("%s: %v", path, got)
		}
	}
	for _, path := range []string{"", "/", "/api/v1/runs", "/api/v1/runs/secret", "/api/v1/files/" + id.String()} {
		if got := named(path); got != nil {
			t.Errorf("%s: %v", path, got)
		}
	}
}
