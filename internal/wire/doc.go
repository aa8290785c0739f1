// Package wire has what several edges read and write in the same way, below every protocol:
// bodies, answers, refusals and the statuses of errors; event streams; the parts of a form;
// downloads; requests to ports of a sandbox. What an answer says is the protocol's.
package wire
