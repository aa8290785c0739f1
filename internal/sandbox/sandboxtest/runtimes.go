package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Runtimes returns the folder that setup created for the tests, with all packages. An executor
// that keeps interpreters warm imports NumPy, pandas and Matplotlib at its start, which takes
// seconds of a processor. LiveRuntimes is for tests whose programs import no packages.
func Runtimes() string { return os.Getenv("AIRLOCK_TEST_DATA") + "/runtimes" }

// Binary returns the release binary that make test has built, for executors of tests under the race
// detector that are about what uses them: theirs is another one, whose tests have it. Empty: the test binary.
func Binary() string { return os.Getenv("AIRLOCK_TEST_EXECUTOR") }

// LiveRuntimes creates runtimes in dir with which live interpreters start, without
// packages for programs. If setup installed none, they are empty.
func LiveRuntimes(dir string) (string, error) {
	links, err := filepath.Glob(Runtimes() + "/python/live-3.*")
	if err != nil {
		return "", err
	}
	python := filepath.Join(dir, "runtimes", "python")
	if err := os.MkdirAll(python, 0o755); err != nil {
		return "", err
	}
	for _, link := range links {
		folder, err := filepath.EvalSymlinks(link)
		if err != nil {
			return "", err
		}
		if err := os.Symlink(folder, filepath.Join(python, filepath.Base(link))); err != nil {
			return "", err
		}
	}
	return filepath.Dir(python), nil
}

// LiveRuntimesOf calls LiveRuntimes for one test.
func LiveRuntimesOf(t testing.TB) string {
	t.Helper()
	folder, err := LiveRuntimes(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
