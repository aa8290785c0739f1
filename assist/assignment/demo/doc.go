// Package demo is the API of a project, in memory: the reference for servers, and what
// `airlock serve --demo-project` serves to try things out. It can be told to fail, for tests of
// clients.
package demo
