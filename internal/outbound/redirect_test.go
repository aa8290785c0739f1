package outbound_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/outbound"
)

// A request stays with the server that it was made for.
func TestGuard(t *testing.T) {
	heard := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard = r.URL.Path }))
	defer other.Close()
	mux := http.NewServeMux()
	here := httptest.NewServer(mux)
	defer here.Close()
	mux.Handle("/away", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/near", http.RedirectHandler("/there", http.StatusPermanentRedirect))
	rounds := 0
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		if rounds++; rounds < 20 {
			http.Redirect(w, r, "/round", http.StatusFound)
		}
	})
	mux.HandleFunc("/there", func(http.ResponseWriter, *http.Request) {})
	client := outbound.Guard(http.Client{})
	defer client.CloseIdleConnections()
	for path, want := range map[string]bool{"/away": false, "/near": true, "/round": false, "/there": true} {
		resp, err := client.Post(here.URL+path, "text/plain", strings.NewReader("body"))
		if err == nil {
			resp.Body.Close()
		}
		_, refused := errors.AsType[*outbound.RedirectError](err)
		if (err == nil) != want || refused != (path == "/away") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if heard != "" {
		t.Error("the other server got the request")
	}
}

func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"https://a.example/x", "https://a.example/y", true},
		{"https://a.example", "https://A.example:443/y", true},
		{"http://a.example:80", "http://a.example", true},
		{"https://a.example", "http://a.example", false},
		{"http://a.example", "https://a.example", false},
		{"https://a.example", "https://a.example:8443", false},
		{"https://a.example", "https://b.a.example", false},
		{"https://a.example", "https://a.example.evil", false},
		{"http://[::1]:80", "http://[::1]", true},
	} {
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		err = outbound.SameOrigin(&http.Request{URL: to}, []*http.Request{{URL: from}})
		if (err == nil) != c.want {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

// Every HTTP client of the program has a rule about redirects.
func TestEveryClientHasARule(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bench", "e2e", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		guarded := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isName(n.Fun, "Guard") {
					guarded[n.Args[0]] = true
				}
			case *ast.CompositeLit:
				if !isName(n.Type, "Client") || !isPackage(n.Type, "http") {
					break
				}
				found++
				if !guarded[n] && !slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					pair, ok := e.(*ast.KeyValueExpr)
					return ok && isName(pair.Key, "CheckRedirect")
				}) {
					t.Errorf("%s: this client sends requests wherever it is redirected: use outbound.Guard", set.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("found %d clients: %v", found, err)
	}
}

func isName(e ast.Expr, name string) bool {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name == name
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func isPackage(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && isName(s.X, name)
}
