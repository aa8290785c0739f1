// Package e2e drives the real binary as a person and a program would: from the
// command line and over HTTP. It has tests only.
//
// Each test runs as every kind of user that this machine allows: as root, and
// as an ordinary user with user namespaces. The Python packages come from
// runtimes/ in $AIRLOCK_TEST_DATA, a data directory that `airlock setup` made.
// What a test needs and does not find makes it skip with a reason; with
// AIRLOCK_NO_SKIP=1, as in CI, that is a failure. The binary is the one that
// $AIRLOCK_TEST_BINARY names, or is built.
package e2e
