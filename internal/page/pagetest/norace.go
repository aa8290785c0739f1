//go:build !race

package pagetest

import "time"

const (
	renderMemory = 64 << 20
	// renderCeiling bounds the CPU time of one rendering, which a busy machine does not stretch.
	renderCeiling = 5 * time.Second
)
