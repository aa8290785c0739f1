package engine

import (
	"encoding/json"
	"testing"
	"time"
)

// The index keeps the fingerprints of requests across versions: a repeat of one must
// have the same.
func TestFingerprint(t *testing.T) {
	full := RunRequest{
		Language: "python", Code: "x", Args: []string{"a"}, Stdin: []byte("s"), Packages: "p", DropCode: true,
		Profile: Profile{
			Origin: OriginOnyx, Client: "c", Scope: "s", Limits: Limits{Timeout: time.Second, Memory: 1},
			Program: ProgramForm{Root: "r", Home: "h", Entry: "e", Inline: true, InStdin: true, Globals: []string{"os"},
				Shown: Shown{Language: "js", Code: "y"}},
			Output: OutputForm{EchoLast: true, Merge: true, Whole: true},
			Files: FileRules{TTL: time.Minute, Plots: true, Folders: true, Discard: true, Private: "q",
				PrivateInStdin: true},
			Calls: Calls{Pauses: time.Hour},
			Live:  &Interpreter{Fresh: true, Apart: true},
		},
	}
	for want, r := range map[string]RunRequest{
		"0c76269d04e5d5791b1ff3a51d2e3a59894207917253a8468794f202bbf57a04": full,
		"5606f52fa1b656079f0050ef67c3825c2ae4c5d589c272526be465c4bdf1d357": {},
	} {
		got, err := fingerprint(r)
		if err != nil || got.String() != want {
			text, _ := json.Marshal(r)
			t.Errorf("%s, %v, want %s; it is of %s", got, err, want, text)
		}
	}
}
