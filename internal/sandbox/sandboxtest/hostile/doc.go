// Package hostile is a suite of programs that attack their sandbox: they try to escape,
// to read data of others, to reach a network, to crash the machine, to outlive their
// run, to forge its outcome, and to leave state for the next program.
//
// Each program is a file under programs, in a folder named after its target. Its head
// states how it must end and on which weakened sandbox it must succeed. Its output is
// signed with a random number of the run, and it signs every step that it tried: a
// program that did not reach its attack does not pass. The program's own claims are
// only half of the verdict. The suite also checks from outside: files, sockets and
// processes of the host that serve as bait, leftovers, and the environment of the next
// program.
package hostile
