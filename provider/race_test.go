//go:build race

package provider_test

// raced says that the race detector makes copying bytes many times as slow.
const raced = true
