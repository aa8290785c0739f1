//go:build !race

package native

const slowness = 1
