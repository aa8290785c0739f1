package blob

import "testing"

// TestAbuse holds the part of the list of abuses that is about stored bytes,
// by its numbers.
func TestAbuse(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"A30 same bytes at once":          testUploads,
		"A60 upload cut off":              testCancelInMidUpload,
		"A61 put against delete":          testPutAgainstDelete,
		"A64 A65 disk and inodes full":    testFullDisk,
		"A66 A67 n-th call, power cut":    testFaults,
		"A70 truncated or removed blob":   testDamagedBlobIsReplaced,
		"A70 links in the store's folder": testLinksStayInside,
	} {
		t.Run(name, test)
	}
}
