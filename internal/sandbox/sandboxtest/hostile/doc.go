// Package hostile is a suite of programs that attack the sandbox they run in:
// they try to get out, to read what is not theirs, to reach a network, to
// bring the machine down, to outlive their run, to lie about its end, and to
// leave something for the next program.
//
// Each program is a file under programs, in a folder that names what it is
// after. Its head says how it must end and on which weakened sandbox it must
// succeed. What it prints is signed with a number that is drawn anew for each
// run, and it signs every step that it tried: a program that never came to its
// attack has not been withstood. What a program says is only half of the
// verdict. The other half is looked at from outside: files, sockets and
// processes of the host that were laid out as bait, what is left behind, and
// what the next program finds.
package hostile
