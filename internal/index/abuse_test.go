package index

import "testing"

// TestAbuse holds the part of the list of abuses that is about the index, by
// its numbers.
func TestAbuse(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"A24 A48 quotas":           TestQuota,
		"A59 A61 killed":           testKill,
		"killed in a snapshot":     testKillInSnapshot,
		"A64 disk full":            testFullDisk,
		"A70 damage":               testDamage,
		"A70 no file":              testNoFile,
		"A70 a first start cut":    testUnfinishedDraft,
		"A71 a second process":     testLock,
		"A71 lock after a failure": testLockAfterFailure,
	} {
		t.Run(name, test)
	}
}
