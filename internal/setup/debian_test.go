package setup

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/language"
)

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  string // first languages of the answer, or part of the error
		fails bool
	}{
		{names: []string{"bash"}, want: "bash"},
		{names: []string{"py", " Python3", "bash"}, want: "python bash"},
		{names: nil, want: "python bash"},
		{names: []string{"all"}, want: "python bash"},
		{names: []string{"bash", "cobol"}, want: "cobol", fails: true},
	} {
		got, err := choose(test.names)
		var names []string
		for _, l := range got {
			names = append(names, l.Name)
		}
		said := strings.Join(names, " ")
		if err != nil {
			said = err.Error()
		}
		if (err != nil) != test.fails || !strings.Contains(said, test.want) {
			t.Errorf("choose(%v) = %s", test.names, said)
		}
	}
}

// debian is a host where only coreutils is installed.
func debian(t *testing.T) (*installer, *journal) {
	script(t, "dpkg-query",
		"printf 'installed coreutils\\nconfig-files jq\\n'; echo 'no package found matching bash' >&2; exit 1\n")
	return bench(t, lockOf(""), "")
}

func bashOnly(t *testing.T) []language.Language {
	t.Helper()
	languages, err := choose([]string{"bash"})
	if err != nil {
		t.Fatal(err)
	}
	return languages
}

func TestMissingPackagesWithoutRoot(t *testing.T) {
	in, _ := debian(t)
	script(t, "sudo", "exit 1\n")
	script(t, "apt-get", "echo must not be called >&2; exit 99\n")
	err := in.debianPackages(t.Context(), bashOnly(t), nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install bash jq") {
		t.Errorf("got %v", err)
	}
}

func TestMissingPackagesAreInstalled(t *testing.T) {
	for _, who := range []string{"root", "sudo"} {
		t.Run(who, func(t *testing.T) {
			in, j := debian(t)
			log := filepath.Join(t.TempDir(), "log")
			script(t, "sudo", `shift; exec "$@"`)
			script(t, "apt-get", `echo "$DEBIAN_FRONTEND $@" >> `+log+
				"; echo '1 upgraded, 1 newly installed, 0 to remove'; echo 'Setting up jq (1.6)'\n")
			if who == "root" {
				in.uid = 0
				script(t, "sudo", "exit 1\n")
			}
			if err := in.debianPackages(t.Context(), bashOnly(t), nil); err != nil {
				t.Fatal(err)
			}
			calls, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			const want = "noninteractive -o DPkg::Lock::Timeout=120 update -q\n" +
				"noninteractive -o DPkg::Lock::Timeout=120 install -q -y --no-install-recommends bash jq\n"
			if string(calls) != want {
				t.Errorf("apt-get was called\n%swant\n%s", calls, want)
			}
			if !j.has("now 1/2 jq (1.6)") || !j.has("done installed bash, jq") {
				t.Errorf("said:\n%s", j)
			}
		})
	}
}

func TestAptThatFails(t *testing.T) {
	in, _ := debian(t)
	in.uid = 0
	script(t, "apt-get", "echo 'E: Could not get lock' >&2; exit 100\n")
	err := in.debianPackages(t.Context(), bashOnly(t), nil)
	if err == nil || !strings.Contains(err.Error(), "E: Could not get lock") ||
		!strings.Contains(err.Error(), "apt-get update && apt-get install bash jq") {
		t.Errorf("got %v", err)
	}
}

func TestNotDebian(t *testing.T) {
	in, j := bench(t, lockOf(""), "")
	t.Setenv("PATH", t.TempDir())
	if err := in.debianPackages(t.Context(), bashOnly(t), nil); err != nil || !j.has("not a Debian system") {
		t.Errorf("%v\n%s", err, j)
	}
	ruby := language.Language{Name: "ruby", Title: "Ruby", Version: []string{"/usr/bin/not-ruby", "--version"}}
	if err := in.debianPackages(t.Context(), []language.Language{ruby}, nil); err == nil ||
		!strings.Contains(err.Error(), "Ruby is missing") {
		t.Errorf("got %v", err)
	}
}

func TestDataDirectoryRefusesOtherPeoplesFiles(t *testing.T) {
	in, _ := bench(t, lockOf(""), "")
	in.data = t.TempDir()
	thesis := filepath.Join(in.data, "thesis.tex")
	if err := os.WriteFile(thesis, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := in.dataDirectory(t.Context()); err == nil || !strings.Contains(err.Error(), "holds other things") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(in.data, "files")); err == nil {
		t.Error("it was changed all the same")
	}
}

func TestDataDirectoryOfAnOrdinaryUser(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	in, _ := bench(t, lockOf(""), "")
	for path, want := range map[string]os.FileMode{"": 0o700, "files": 0o700, "runtimes": 0o755,
		"runtimes/python": 0o755} {
		if info, err := os.Stat(filepath.Join(in.data, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func TestServiceCannotReplaceTheRuntimes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files to another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	in, _ := bench(t, lockOf(""), "")
	blob := filepath.Join(in.data, "files", "ab")
	if err := os.WriteFile(blob, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := in.layOut(nobody); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(in.data)
	if err != nil || info.Mode()&os.ModeSticky == 0 || info.Mode().Perm() != 0o771 || ownedBy(in.data, 65534) {
		t.Errorf("the data directory is %v, %v", info.Mode(), err)
	}
	if !ownedBy(blob, 65534) || !ownedBy(filepath.Join(in.data, "files"), 65534) {
		t.Error("the service does not own its files")
	}
	if !ownedBy(filepath.Join(in.data, "runtimes"), 0) {
		t.Error("the service owns the runtimes")
	}
}

// Without root, and without fonts and locales, setup goes on.
func TestComfortPackagesWithoutRoot(t *testing.T) {
	in, j := bench(t, lockOf(""), "")
	script(t, "dpkg-query", `printf 'installed %s\n' bash coreutils jq python3-pip; exit 1`)
	script(t, "sudo", "exit 1\n")
	if err := in.debianPackages(t.Context(), bashOnly(t), kinds[:1]); err != nil {
		t.Fatal(err)
	}
	if !j.has("warn programs run without these: these Debian packages are missing: fonts-dejavu fonts-noto-cjk ") {
		t.Errorf("said:\n%s", j)
	}
}

func TestDebianPackages(t *testing.T) {
	got, err := DebianPackages([]string{"bash"}, nil, []string{"office"})
	for _, want := range []string{"bash", "fonts-noto-cjk", "locales", "libreoffice-calc-nogui"} {
		if err != nil || !slices.Contains(got, want) {
			t.Errorf("%v, %v, want %s in it", got, err, want)
		}
	}
	if _, err := DebianPackages(nil, nil, []string{"games"}); err == nil || !strings.Contains(err.Error(), "office") {
		t.Errorf("an extra that does not exist: %v", err)
	}
}
