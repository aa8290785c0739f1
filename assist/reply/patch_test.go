package reply

import (
	"regexp"
	"strings"
	"testing"
)

// mail is what git format-patch writes, without its ends.
const mail = `From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Date: Sat, 28 Nov 2026 10:00:00 +0000
Subject: [PATCH] change both

---
 a.txt | 2 +-
 b.txt | 1 +
 2 files changed, 2 insertions(+), 1 deletion(-)

diff --git a/a.txt b/a.txt
index 0123456..89abcde 100644
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
-one
+eins
 two
diff --git a/b.txt b/b.txt
index 0123456..89abcde 100644
--- a/b.txt
+++ b/b.txt
@@ -1,2 +1,3 @@
 x
+y
 z
-- 
2.39.5

`

// TestPatches applies patches as programs write them, in a fence and outside of any.
func TestPatches(t *testing.T) {
	files := map[string]string{"a.txt": "one\ntwo\n", "b.txt": "x\nz\n"}
	want := map[string]string{"a.txt": "eins\ntwo\n", "b.txt": "x\ny\nz\n"}
	head, _, _ := strings.Cut(mail, "diff --git a/a")
	first, second, _ := strings.Cut(mail, "diff --git a/b")
	timeOf := regexp.MustCompile(` 2026.*`)
	git := mail[strings.Index(mail, "diff --git"):strings.Index(mail, "-- \n")]
	timed := "--- a.txt 2026-11-28 10:00:00.000000000 +0000\n+++ a.txt 2026-11-28 10:00:01.000000000 +0000\n" +
		"@@ -1,2 +1,2 @@\n-one\n+eins\n two\n"
	for name, c := range map[string]struct {
		text  string
		paths int
	}{
		"git diff":                {git, 2},
		"git format-patch":        {mail, 2},
		"two mails":               {first + "-- \n2.39.5\n\n" + head + "diff --git a/b" + second, 2},
		"a time behind a blank":   {timed, 1},
		"a path without a prefix": {timeOf.ReplaceAllString(timed, ""), 1},
		"git diff -U0 that adds":  {"--- a/b.txt\n+++ b/b.txt\n@@ -1,0 +2 @@\n+y\n", 1},
	} {
		for _, form := range []string{"Here:\n\n%\nDone.\n", "```diff\n%```\n"} {
			got := map[string]string{}
			for _, it := range Parse([]byte(strings.Replace(form, "%", c.text, 1))).Items {
				if it.Verdict != VerdictOK {
					t.Errorf("%s as %q: %s is %s: %s", name, form, it.Path, it.Verdict, it.Reason)
					continue
				}
				r, err := Apply(it, []byte(files[it.Path]))
				if err != nil {
					t.Errorf("%s as %q: %s: %v", name, form, it.Path, err)
					continue
				}
				got[it.Path] = string(r.Content)
			}
			if len(got) != c.paths {
				t.Errorf("%s as %q: %d files were changed, want %d", name, form, len(got), c.paths)
			}
			for path, content := range got {
				if content != want[path] {
					t.Errorf("%s as %q: %s is %q, want %q", name, form, path, content, want[path])
				}
			}
		}
	}
}
