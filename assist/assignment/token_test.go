package assignment_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
)

// An API that repeats the token in an error does not get it into the store.
func TestTokenIsNotKept(t *testing.T) {
	const token = "a-token-of-no-known-form"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"not good: %s"}}`, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	r := newRig(t)
	r.sender = assignment.NewSender(r.store, assignment.SenderOptions{
		HTTP: server.Client(), Token: func(string) string { return token }})
	all := read(t, progress("A1", 10, "begun"))
	for i := range all.Posts {
		all.Posts[i].API = server.URL
	}
	if _, err := r.outbox.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	r.drain()
	problem := r.lane("A1").Posts[0].Problem
	if strings.Contains(problem, token) {
		t.Errorf("%q", problem)
	}
}
