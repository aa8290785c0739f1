package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script. In each, airlock is the
// real binary, run as the person, with a data directory of its own.
func TestScripts(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		work := folder(t, who.credential)
		bin := folder(t, nil)
		wrapper := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", binary)
		if who.credential != nil {
			wrapper = fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups %s \"$@\"\n", who.credential.Uid,
				who.credential.Gid, binary)
		}
		for name, script := range map[string]string{
			"airlock": wrapper,
			"code":    "#!/bin/sh\n\"$@\"\necho $?\n", // runs a command and prints its exit code
		} {
			writeProgram(t, filepath.Join(bin, name), script)
		}
		testscript.Run(t, testscript.Params{
			Dir:                 "testdata/script",
			WorkdirRoot:         work,
			RequireExplicitExec: true,
			Condition: func(condition string) (bool, error) {
				if condition != "packages" {
					return false, fmt.Errorf("unknown condition %q", condition)
				}
				if err := packagesMissing(); err != nil {
					if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
						return false, err
					}
					t.Log("a part of the script is left out:", err)
					return false, nil
				}
				return true, nil
			},
			Setup: func(env *testscript.Env) error {
				env.Setenv("PATH", bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
				env.Setenv("HOME", env.WorkDir)
				env.Setenv("TMPDIR", "/tmp")
				env.Setenv("AIRLOCK_DATA", dataWithPackages(t, who))
				env.Setenv("AIRLOCK_CONFIG", "none")
				for _, name := range []string{"examples", "testdata"} { // the repository may be closed to others
					if err := os.CopyFS(filepath.Join(env.WorkDir, name), os.DirFS(filepath.Join("..", name))); err != nil {
						return err
					}
				}
				if err := os.Chmod(env.WorkDir, 0o711); err != nil {
					return err
				}
				give(t, env.WorkDir, who.credential)
				return nil
			},
		})
	})
}
