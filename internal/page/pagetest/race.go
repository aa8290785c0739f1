//go:build race

package pagetest

import "time"

// The race detector makes pools drop items at random. A lexer then allocates 33 KB for a
// token that a pool provides otherwise.
const renderMemory = 128 << 20

// Each access to memory takes several times as long.
const renderCeiling = 60 * time.Second
