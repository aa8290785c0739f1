//go:build !race

package provider_test

const raced = false
