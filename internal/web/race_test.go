//go:build race

package web

// The race detector makes pools drop items at random. A lexer then allocates 33 KB for a
// token that a pool provides otherwise.
const renderMemory = 128 << 20
