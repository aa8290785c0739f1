// Package egress carries the connections of programs that have a network grant. It is
// a process of its own, for all sandboxes of a service: with a user of its own, no
// privileges, an empty file system, a list of system calls, and nothing of any tenant
// but what passes through.
//
// A sandbox's network namespace has loopback and nothing else. The executor makes a
// listening socket in it; the service hands that socket to this process, with the
// grant (engine.Grant). So a program finds an HTTP and SOCKS5 proxy on its own
// loopback, and whoever accepts is outside. What comes in is hostile: a program speaks
// to the proxy as it likes.
//
// A connection is allowed by name. Then this process resolves the name, refuses
// addresses that are not public, connects to the very address that it has checked, and
// compares the server name that TLS or HTTP asks for with the one that was allowed.
// Every connection is one engine.Contact, refused ones too.
package egress
