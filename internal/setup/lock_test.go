package setup

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLocks(t *testing.T) {
	promised := packageNames(requirementsIn)
	if len(promised) < 30 {
		t.Fatalf("requirements.in promises only %v", promised)
	}
	pin := regexp.MustCompile(`(?m)^([a-z0-9-]+)==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}(?: \\\n|\n|$))+`)
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		t.Run(fmt.Sprint("3.", minor), func(t *testing.T) {
			lock, err := embeddedLock(minor)
			if err != nil {
				t.Fatal(err)
			}
			names := packageNames(string(lock))
			for _, name := range promised {
				if !slices.Contains(names, name) {
					t.Errorf("%s is not locked", name)
				}
			}
			if pinned := len(pin.FindAllString(string(lock), -1)); pinned != len(names) {
				t.Errorf("%d of %d packages have a version and hashes", pinned, len(names))
			}
			if strings.Contains(string(lock), "://") {
				t.Error("it names a host")
			}
		})
	}
}

func TestPins(t *testing.T) {
	const lock = "# comment\nalpha==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\nbeta==2.0 ; python_version > \"3\" \\\n    --hash=sha256:22\n"
	const want = "alpha==1.0\nbeta==2.0 ; python_version > \"3\"\n"
	if got := string(pins([]byte(lock))); got != want {
		t.Errorf("pins: %q, want %q", got, want)
	}
}

func TestPipError(t *testing.T) {
	for _, test := range []struct{ name, said, problem, cure string }{
		{
			"offline",
			"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/numpy/\n" +
				"ERROR: Could not find a version that satisfies the requirement numpy==2.4.6 (from versions: none)\nERROR: No matching distribution found for numpy==2.4.6",
			"the network or the package index failed at numpy==2.4.6", "it continues",
		},
		{
			"offline in mid-download", "pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.",
			"the network or the package index failed at pandas", "it continues",
		},
		{
			"certificate", "WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain'))'",
			"a certificate that this machine does not trust, at pandas", "PIP_CERT",
		},
		{"full", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "is full", "it continues"},
		{"altered", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "pandas came with other bytes", "do not install it"},
		{"no wheel", "ERROR: No matching distribution found for numpy==2.4.6 (from -r lock.txt (line 3))", "has no numpy==2.4.6 that fits", "the cure"},
		{"conflict", "x\nERROR: Cannot install a and b because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help", "pip could not go on at pandas", "the cure"},
		{"anything", "Killed", "pip could not go on at pandas", "the cure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err, ok := errors.AsType[*Error](pipError("/data", "pandas", "the cure", test.said))
			if !ok || !strings.Contains(err.Problem, test.problem) || !strings.Contains(err.Cure, test.cure) {
				t.Errorf("got %v", err)
			}
		})
	}
}
