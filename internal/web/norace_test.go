//go:build !race

package web

const renderMemory = 64 << 20
