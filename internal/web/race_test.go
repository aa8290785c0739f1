//go:build race

package web

// The race detector has pools drop what they hold now and then: a lexer then
// allocates 33 KB for a token, which it takes from a pool otherwise.
const renderMemory = 128 << 20
