package page

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestSignInLeadsNowhereElse(t *testing.T) {
	for next, want := range map[string]string{
		"/runs?q=a": "/runs?q=a", "": "/", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/",
		"runs": "/", "/../../evil": "/evil", "javascript:alert(1)": "/",
	} {
		if got := OwnPath(next); got != want {
			t.Errorf("next=%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestSignInEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSignInStore(time.Now, func() engine.Epoch { return 0 })
		cookie := v.enter("ada", &signIn{key: "the key"})
		time.Sleep(SignInTime - time.Minute)
		if _, ok := v.find(cookie); !ok {
			t.Error("it ended too soon")
		}
		time.Sleep(SignInTime - time.Minute) // since that use
		if _, ok := v.find(cookie); !ok {
			t.Error("a use did not count")
		}
		time.Sleep(SignInTime + time.Minute)
		if _, ok := v.find(cookie); ok {
			t.Error("it does not end")
		}
	})
}

// Ten thousand sign-ins with one key end none of another's.
func TestManySignIns(t *testing.T) {
	v := newSignInStore(time.Now, func() engine.Epoch { return 0 })
	cookie := v.enter("bob", &signIn{key: "the key of bob"})
	for range 10_000 {
		v.enter("ada", &signIn{key: "the key of ada"})
	}
	if n := v.signIns.Len(); n != maxSignIns+1 {
		t.Errorf("%d visitors are remembered, want %d of ada and 1 of bob", n, maxSignIns)
	}
	if _, ok := v.find(cookie); !ok {
		t.Error("the visitor with another key was signed out")
	}
}
