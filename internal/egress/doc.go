// Package egress carries the connections of programs that have a network grant. It is
// a separate process for all sandboxes of a service. The process has its own user, no
// privileges, an empty file system, a list of allowed system calls, and no tenant data
// except the bytes that pass through.
//
// A sandbox's network namespace has only loopback. The executor makes a listening socket
// in it; the service hands that socket to this process, with the grant (engine.Grant). So
// a program finds an HTTP and SOCKS5 proxy on its own loopback, and this process accepts
// outside of the sandbox. All input is hostile.
//
// A connection is allowed by name. Then this process resolves the name, refuses addresses
// that are not public, connects to the address that it has checked, and compares the
// server name in TLS or HTTP with the allowed one. Every connection is one engine.Contact,
// also refused ones.
package egress
