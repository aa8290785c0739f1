// Package assignmenttest has what the tests of reports to a project need: the
// project's API as a reference server that can be told to fail, and a store in
// memory. `airlock serve --demo-project` serves the same API, to try things
// out without a project of one's own.
package assignmenttest
