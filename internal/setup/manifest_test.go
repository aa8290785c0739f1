package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/language"
)

func TestLocks(t *testing.T) {
	pin := regexp.MustCompile(`(?m)^([a-z0-9-]+)==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}(?: \\\n|\n|$))+`)
	for _, k := range kinds {
		if k.name == language.OwnPackages {
			continue // it has no lock
		}
		promised := packageNames(embeddedRoots(k.name))
		if len(promised) < 30 {
			t.Fatalf("%s.in promises only %v", k.name, promised)
		}
		for _, minor := range k.minors {
			t.Run(fmt.Sprint(k.name, " 3.", minor), func(t *testing.T) {
				lock, err := embeddedLock(k.name, minor)
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
}

// The versions that models know from Onyx's image.
func TestOnyxPins(t *testing.T) {
	for _, minor := range []int{11, 12} {
		lock, err := embeddedLock(language.OnyxPackages, minor)
		if err != nil {
			t.Fatal(err)
		}
		for _, pin := range []string{"pandas==2.2.2", "numpy==1.26.4", "matplotlib==3.9.1", "pytz==2025.2",
			"matplotlib-inline==0.1.7", "scipy==1.16.2"} {
			if !strings.Contains(string(lock), "\n"+pin+" ") {
				t.Errorf("3.%d: %s is not locked", minor, pin)
			}
		}
	}
}

// The npm lock has a hash for every package, and the address of none.
func TestNodeLock(t *testing.T) {
	text, err := nodeLock.ReadFile("locks/node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if name != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			t.Errorf("%s: hash %q, address %q", name, p.Integrity, p.Resolved)
		}
	}
	for _, name := range []string{"pptxgenjs", "exceljs", "pdf-lib", "lodash", "zod", "sharp", "cheerio"} {
		if lock.Packages["node_modules/"+name].Version == "" {
			t.Errorf("%s is not locked", name)
		}
	}
}

func TestPins(t *testing.T) {
	const lock = "# comment\nalpha==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n" +
		"beta==2.0 ; python_version > \"3\" \\\n    --hash=sha256:22\n"
	const want = "alpha==1.0\nbeta==2.0 ; python_version > \"3\"\n"
	if got := string(pins([]byte(lock))); got != want {
		t.Errorf("pins: %q, want %q", got, want)
	}
}

func TestPipError(t *testing.T) {
	for _, test := range []struct{ name, said, problem, cure string }{
		{
			"offline",
			"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...: Failed to establish a new " +
				"connection: [Errno -3] Temporary failure in name resolution')': /simple/numpy/\n" +
				"ERROR: Could not find a version that satisfies the requirement numpy==2.4.6 (from versions: none)\n" +
				"ERROR: No matching distribution found for numpy==2.4.6",
			"the network or the package index failed at numpy==2.4.6", "it continues",
		},
		{
			"offline in mid-download", "pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.",
			"the network or the package index failed at pandas", "it continues",
		},
		{
			"certificate", "WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: " +
				"CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain'))'",
			"a certificate that this machine does not trust, at pandas", "PIP_CERT",
		},
		{"full", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "is full",
			"it continues"},
		{"altered", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
			"pandas came with other bytes", "do not install it"},
		{"no wheel", "ERROR: No matching distribution found for numpy==2.4.6 (from -r lock.txt (line 3))",
			"has no numpy==2.4.6 that fits", "the cure"},
		{"conflict", "x\nERROR: Cannot install a and b because these package versions have conflicting dependencies.\n" +
			"ERROR: ResolutionImpossible: for help", "pip could not go on at pandas", "the cure"},
		{
			"conflict with ours",
			"ERROR: Cannot install pandas==1.5.3 because these package versions have conflicting dependencies.\n\n" +
				"The conflict is caused by:\n    The user requested pandas==1.5.3\n" +
				"    The user requested (constraint) pandas==3.1.1\n\nTo fix this you could try to:\n1. loosen",
			"yours: pandas==1.5.3; this set has: pandas==3.1.1", "the cure",
		},
		{
			"conflict of a dependency",
			"The conflict is caused by:\n    old-tool 1.2 depends on numpy<2\n" +
				"    The user requested (constraint) numpy==2.4.6\n\nAdditionally",
			"yours: old-tool 1.2, which needs numpy<2; this set has: numpy==2.4.6", "the cure",
		},
		{
			"conflict among theirs", "The conflict is caused by:\n    The user requested a==1\n    b 2 depends on a>=2\n",
			"cannot be had together: a==1; b 2, which needs a>=2", "the cure",
		},
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

// SetsWith knows a package by each of its spellings, and no other.
func TestSetsWith(t *testing.T) {
	for name, want := range map[string]string{"pandas": "current onyx librechat", "Pillow": "current onyx librechat",
		"pdfminer.six": "current onyx librechat", "geopandas": "librechat", "nonexistent_foo": "", "": ""} {
		if got := strings.Join(SetsWith(name), " "); got != want {
			t.Errorf("%q is in %q, want %q", name, got, want)
		}
	}
}
