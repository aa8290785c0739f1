#include "textflag.h"

// func spawn()
//
// How a zygote makes sandboxes, as machine code that needs nothing but the
// zygote's request buffer, in which requests lie as request.go describes it. A
// zygote copies these instructions into a page of its own and calls them there,
// as C would:
//
//	DI  address of the buffer
//	SI  flags of clone for pid 1
//	DX  socket from which requests are received; -1: one lies in the buffer
//
// With one request it returns twice, like fork: the pid in the zygote (or a
// negative errno), and 0 in pid 2, as a rule when a program has come. Otherwise
// it returns in each pid 2, and in the zygote never: what that one writes while
// it serves, it and its children would all have to copy. Pid 1 does not return:
// its last step executes init, below.
//
// With CLONE_VM and CLONE_VFORK pid 1 shares the zygote's memory and stack,
// while that one blocks, until it executes init: only pid 2 costs a copy
// of the zygote. Pid 1 therefore never pops what it did not push.

// ARGUMENT loads argument i of the step at R13, whose kinds are in BP.
#define ARGUMENT(i, register) \
	MOVQ  (16+8*i)(R13), register; \
	TESTL $(1<<(2*i)), BP;         \
	JEQ   2(PC);                   \
	ADDQ  R12, register;           \
	TESTL $(2<<(2*i)), BP;         \
	JEQ   2(PC);                   \
	MOVLQSX (register), register

// CALL_OF_STEP loads the number and the arguments of the call of the step at R13.
#define CALL_OF_STEP \
	MOVL 4(R13), BP;  \
	ARGUMENT(0, DI);  \
	ARGUMENT(1, SI);  \
	ARGUMENT(2, DX);  \
	ARGUMENT(3, R10); \
	ARGUMENT(4, R8);  \
	ARGUMENT(5, R9);  \
	MOVL (R13), AX

#define REPORT 900

// The struct msghdr with which requests are received and answered, what is
// behind them, and the lengths of what comes and goes with open files.
#define SERVE 262656
#define SERVE_RIGHTS 262696
#define REPLY 262784
#define REPLY_RIGHTS 262824
#define REPLY_PID 262856
#define PIDFD 262880

TEXT ·spawn(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ BX
	PUSHQ BP
	PUSHQ R12
	PUSHQ R13
	PUSHQ R14
	PUSHQ R15
	SUBQ  $40, SP          // 16 bytes aligned: 0 a report, 16 where main begins, 24 pid 2's list, 28 flags, 32 socket
	MOVQ  DI, R12
	MOVL  SI, 28(SP)
	MOVL  DX, 32(SP)
	MOVL  $0, 24(SP)
	CMPL  32(SP), $0
	JLT   make

receive:
	MOVQ $0, -16(R12)      // the length of what comes with the files, which lie at 0
	MOVQ $144, SERVE_RIGHTS(R12)
	MOVL 32(SP), DI
	LEAQ SERVE(R12), SI
	XORL DX, DX
	MOVL $47, AX           // recvmsg
	SYSCALL
	CMPQ AX, $-4           // EINTR
	JEQ  receive
	TESTQ AX, AX
	JLE  leave             // the executor is gone

make:
	MOVL 28(SP), DI
	XORL SI, SI            // the same stack
	LEAQ PIDFD(R12), DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX           // clone
	SYSCALL
	TESTQ AX, AX
	JNE   made             // the zygote

	LEAQ 320(R12), R13     // the steps of setup; those of init and main follow
	MOVL 256(R12), R14     // how many
	MOVL $2, R15           // what an error is reported as

walk:
	XORL BX, BX

step:
	CMPL BX, R14
	JGE  walked
	CALL_OF_STEP
	SYSCALL
	CMPQ AX, $-4095
	JCC  failed
	MOVL 8(R13), CX        // where the result goes
	TESTL CX, CX
	JEQ  next
	MOVL AX, (R12)(CX*1)

next:
	ADDQ $64, R13
	INCL BX
	JMP  step

failed:
	TESTL R15, R15
	JEQ  next              // nobody depends on it
	NEGL AX

tell:
	MOVL R15, (SP)
	MOVL BX, 4(SP)
	MOVL AX, 8(SP)
	MOVL $REPORT, DI
	MOVQ SP, SI
	MOVL $12, DX
	MOVL $1, AX            // write
	SYSCALL

leave:
	MOVL $1, DI
	MOVL $231, AX          // exit_group
	SYSCALL
	JMP  leave

walked:
	CMPL R15, $2
	JEQ  fork
	CMPL R15, $3
	JEQ  leave             // init was executed, or this is an end
	MOVL 24(SP), AX        // pid 2 has four lists: its own state, memory, main, wait
	INCL AX
	MOVL AX, 24(SP)
	CMPL AX, $1
	JEQ  touch
	CMPL AX, $2
	JEQ  main
	CMPL AX, $3
	JEQ  wait
	XORL AX, AX            // a program has come
	JMP  return

fork:
	MOVQ 160(R12), AX      // libc's _Fork, which knows what libc keeps of a process
	CALL AX
	TESTL AX, AX
	JEQ  own
	JGT  init
	MOVQ 168(R12), AX      // __errno_location
	CALL AX
	MOVL (AX), AX
	MOVL R14, BX
	JMP  tell

init:
	MOVL 260(R12), R14
	MOVL $3, R15
	JMP  walk

own:
	MOVL 260(R12), AX      // the steps of main are behind those of init
	SHLQ $6, AX
	ADDQ R13, AX
	MOVQ AX, 16(SP)
	MOVQ 176(R12), R13
	MOVL 184(R12), R14
	MOVL $6, R15
	JMP  walk

touch:
	MOVL  272(R12), AX
	TESTL AX, AX
	JEQ   walked           // somebody waits: a program touches what it needs
	MOVQ  224(R12), R13
	MOVL  232(R12), R14
	XORL  R15, R15
	JMP   walk

main:
	MOVQ 16(SP), R13
	MOVL 264(R12), R14
	MOVL $4, R15
	JMP  walk

wait:
	XORL AX, AX
	CMPL 272(R12), $1
	JGT  return            // there is more to prepare
	MOVL 236(R12), CX
	TESTL CX, CX
	JNE  return            // packages want something done first
	MOVL 268(R12), R14     // behind those of main
	MOVL $7, R15
	JMP  walk

made:
	CMPL 32(SP), $0
	JLT  return
	MOVL AX, R14
	MOVL AX, REPLY_PID(R12)
	MOVQ $24, REPLY_RIGHTS(R12) // with the pidfd, if there is one
	TESTL AX, AX
	JGT  reply
	MOVQ $0, REPLY_RIGHTS(R12)

reply:
	MOVL 32(SP), DI
	LEAQ REPLY(R12), SI
	XORL DX, DX
	MOVL $46, AX           // sendmsg; that nobody is there to hear it shows above
	SYSCALL
	TESTL R14, R14
	JLE  files
	MOVL PIDFD(R12), DI
	MOVL $3, AX            // close
	SYSCALL

files:
	MOVQ -16(R12), R13
	SUBQ $16, R13

close:
	SUBQ $4, R13
	JLT  receive
	MOVL (R12)(R13*1), DI
	MOVL $3, AX            // close
	SYSCALL
	JMP  close

return:
	ADDQ $40, SP
	POPQ R15
	POPQ R14
	POPQ R13
	POPQ R12
	POPQ BP
	POPQ BX
	RET

	// The end, for whoever copies it.
	BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC

// func initProcess()
//
// All that a sandbox's pid 1 executes: it collects whatever ends, and when pid
// 2 has ended it says how and ends too. It takes no signals: they are all
// blocked.
//
// With a socket it also starts processes, as newcomer.go describes. Its memory
// for that, with R12 in the middle:
//
//	-4096  the numbers of two open files to poll: the socket, and a signalfd
//	-4080  the signals of that one: SIGCHLD
//	-4064  struct msghdr and iovec with which a request is received
//	-3968  struct msghdr and iovec with which one is answered, and the pidfd
//	-3840  an answer, and room for struct rusage
//	-3600  struct signalfd_siginfo
//	  -16  the open files and the request, as request.go describes them
//	1<<18  the numbers of the processes that it has started
#define POLLED -4096
#define SIGNALS -4080
#define RECEIVED -4064
#define ANSWERED -3968
#define ANSWERED_RIGHTS -3896
#define ANSWER -3840
#define SIGNALFD -3600
#define CHILDREN 262144
#define MOST_CHILDREN 4096
#define NEWCOMERS 903
#define MEMORY 0x10000000

TEXT ·initProcess(SB), NOSPLIT|NOFRAME, $0-0
	MOVL $4, DI            // PR_SET_DUMPABLE
	XORL SI, SI            // its memory and files are not the program's to read
	MOVL $157, AX          // prctl
	SYSCALL
	XORL R12, R12          // it starts none
	MOVL $NEWCOMERS, DI
	MOVL $2, SI            // F_SETFD
	MOVL $1, DX            // FD_CLOEXEC
	MOVL $72, AX           // fcntl
	SYSCALL
	TESTQ AX, AX
	JNE  begin             // there is no socket
	MOVL $REPORT, DI
	MOVL $72, AX
	SYSCALL
	MOVL $MEMORY, DI
	MOVL $0x80000, SI
	MOVL $3, DX            // PROT_READ|PROT_WRITE
	MOVL $0x32, R10        // MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS
	MOVQ $-1, R8
	XORL R9, R9
	MOVL $9, AX            // mmap
	SYSCALL
	CMPQ AX, $MEMORY
	JNE  begin
	MOVL $(MEMORY+4096), R12
	MOVL $2, BX            // no file that it receives takes a number where a process places one

reserve:
	MOVL $REPORT, DI
	MOVL BX, SI
	MOVL $0x80000, DX      // O_CLOEXEC
	MOVL $292, AX          // dup3
	SYSCALL
	DECL BX
	JGE  reserve
	MOVL $64, BX           // what it ignores, its children would ignore, too

reset:
	MOVL BX, DI
	LEAQ SIGNALFD(R12), SI // still zero: SIG_DFL
	XORL DX, DX
	MOVL $8, R10
	MOVL $13, AX           // rt_sigaction
	SYSCALL
	DECL BX
	JNE  reset
	XORL R15, R15          // the number of processes that it has started
	MOVQ $0x10000, SIGNALS(R12)
	MOVQ $-1, DI
	LEAQ SIGNALS(R12), SI
	MOVL $8, DX
	MOVL $0x80800, R10     // SFD_CLOEXEC|SFD_NONBLOCK
	MOVL $289, AX          // signalfd4
	SYSCALL
	MOVL AX, (POLLED+8)(R12)
	MOVL $1, (POLLED+12)(R12) // POLLIN
	MOVL $NEWCOMERS, POLLED(R12)
	MOVL $1, (POLLED+4)(R12)
	LEAQ (RECEIVED+56)(R12), AX
	MOVQ AX, (RECEIVED+16)(R12)
	MOVQ $1, (RECEIVED+24)(R12)
	LEAQ -16(R12), AX
	MOVQ AX, (RECEIVED+32)(R12)
	LEAQ 256(R12), AX
	MOVQ AX, (RECEIVED+56)(R12)
	MOVQ $(CHILDREN-256), (RECEIVED+64)(R12)
	LEAQ (ANSWERED+56)(R12), AX
	MOVQ AX, (ANSWERED+16)(R12)
	MOVQ $1, (ANSWERED+24)(R12)
	LEAQ ANSWERED_RIGHTS(R12), AX
	MOVQ AX, (ANSWERED+32)(R12)
	LEAQ ANSWER(R12), AX
	MOVQ AX, (ANSWERED+56)(R12)
	MOVQ $48, (ANSWERED+64)(R12)
	MOVQ $20, ANSWERED_RIGHTS(R12)  // struct cmsghdr: the length,
	MOVQ $0x100000001, AX           // SOL_SOCKET and SCM_RIGHTS
	MOVQ AX, (ANSWERED_RIGHTS+8)(R12)

begin:
	SUBQ $16, SP
	MOVL $5, (SP)          // report.kind: pid 2 ended
	MOVL $0, 4(SP)

collect:
	MOVQ $-1, DI
	LEAQ 8(SP), SI         // report.value
	XORL DX, DX
	XORL R10, R10
	TESTQ R12, R12
	JEQ  wait
	MOVL $1, DX            // WNOHANG
	LEAQ (ANSWER+16)(R12), R10

wait:
	MOVL $61, AX           // wait4(-1, &value, options, rusage)
	SYSCALL
	CMPQ AX, $2
	JEQ  ended
	CMPQ AX, $0
	JGT  collected
	JEQ  poll
	CMPQ AX, $-4           // EINTR
	JEQ  collect
	MOVL $1, DI
	JMP  end

ended:
	MOVL $REPORT, DI
	MOVQ SP, SI
	MOVL $12, DX
	MOVL $1, AX            // write(pipe, report, 12)
	SYSCALL
	XORL DI, DI

end:
	MOVL $231, AX          // exit_group
	SYSCALL
	JMP  end

collected:
	TESTQ R12, R12
	JEQ  collect
	LEAQ CHILDREN(R12), R13
	XORL BX, BX

search:
	CMPL BX, R15
	JGE  collect           // somebody else has started it
	CMPL (R13)(BX*4), AX
	JEQ  found
	INCL BX
	JMP  search

found:
	DECL R15
	MOVL (R13)(R15*4), CX
	MOVL CX, (R13)(BX*4)
	MOVL $1, ANSWER(R12)   // it has ended
	MOVL AX, (ANSWER+4)(R12)
	MOVL 8(SP), CX
	MOVL CX, (ANSWER+8)(R12)
	MOVQ $0, (ANSWERED+40)(R12)
	MOVL $NEWCOMERS, DI
	LEAQ ANSWERED(R12), SI
	MOVL $0x4000, DX       // MSG_NOSIGNAL
	MOVL $46, AX           // sendmsg; if nobody is there to hear it, the sandbox ends
	SYSCALL
	JMP  collect

poll:
	LEAQ POLLED(R12), DI
	MOVL $2, SI
	MOVQ $-1, DX
	MOVL $7, AX            // poll
	SYSCALL
	CMPW (POLLED+14)(R12), $0
	JEQ  request
	MOVL (POLLED+8)(R12), DI
	LEAQ SIGNALFD(R12), SI
	MOVL $128, DX
	XORL AX, AX            // read
	SYSCALL

request:
	CMPW (POLLED+6)(R12), $0
	JEQ  collect
	MOVQ $0, -16(R12)
	MOVQ $144, (RECEIVED+40)(R12)
	MOVL $NEWCOMERS, DI
	LEAQ RECEIVED(R12), SI
	MOVL $0x40000040, DX   // MSG_CMSG_CLOEXEC|MSG_DONTWAIT
	MOVL $47, AX           // recvmsg
	SYSCALL
	CMPQ AX, $0
	JGT  asked
	CMPQ AX, $-11          // EAGAIN
	JEQ  collect
	MOVL $-1, POLLED(R12)  // the executor is gone
	JMP  collect

asked:
	MOVL 256(R12), R14     // how many steps a process has
	TESTL R14, R14
	JNE  start
	MOVLQSX 260(R12), DI   // a group of processes, and the signal
	MOVL 264(R12), SI
	MOVL $62, AX           // kill
	SYSCALL
	JMP  collect

start:
	MOVL $0, ANSWER(R12)
	MOVQ $0, (ANSWERED+40)(R12)
	MOVQ $-11, AX          // EAGAIN
	CMPL R15, $MOST_CHILDREN
	JGE  answer
	MOVL $0x1011, DI       // CLONE_PIDFD|SIGCHLD
	XORL SI, SI
	LEAQ (ANSWERED_RIGHTS+16)(R12), DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX           // clone
	SYSCALL
	CMPQ AX, $0
	JEQ  child
	JLT  answer
	LEAQ CHILDREN(R12), R13
	MOVL AX, (R13)(R15*4)
	INCL R15
	MOVQ $24, (ANSWERED+40)(R12)

answer:
	MOVL AX, (ANSWER+4)(R12)
	MOVL $NEWCOMERS, DI
	LEAQ ANSWERED(R12), SI
	MOVL $0x4000, DX
	MOVL $46, AX           // sendmsg
	SYSCALL
	CMPQ (ANSWERED+40)(R12), $0
	JEQ  shut
	MOVL (ANSWERED_RIGHTS+16)(R12), DI
	MOVL $3, AX            // close
	SYSCALL

shut:
	MOVQ -16(R12), R13
	SUBQ $16, R13

another:
	SUBQ $4, R13
	JLT  collect
	MOVL (R12)(R13*1), DI
	MOVL $3, AX
	SYSCALL
	JMP  another

child:
	LEAQ 320(R12), R13
	XORL BX, BX

step:
	CMPL BX, R14
	JGE  failed
	CALL_OF_STEP
	SYSCALL
	CMPQ AX, $-4095
	JCC  unable

next:
	ADDQ $64, R13
	INCL BX
	JMP  step

unable:
	NEGL AX
	CMPL 12(R13), $0       // the next step replaces it
	JEQ  failed
	CMPL AX, $2            // ENOENT
	JEQ  next
	CMPL AX, $13           // EACCES
	JEQ  next
	CMPL AX, $20           // ENOTDIR
	JEQ  next

failed:
	MOVL $4, (SP)          // report.kind: a step of main failed
	MOVL BX, 4(SP)
	MOVL AX, 8(SP)
	MOVL (R12), DI         // the first file is its own pipe for reports
	MOVQ SP, SI
	MOVL $12, DX
	MOVL $1, AX            // write
	SYSCALL
	MOVL $1, DI
	JMP  end

	BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC

// func awaitCommand()
//
// All that a process executes that waits for a command: it asks for one, as
// command.go says, goes to its folder and executes it. The command lies in a
// file, with pointers for the place where the file is mapped:
//
//	 0  folder   8  file   16  arguments   24  environment   32  the number of the pipe for reports
#define COMMAND 0x10000000

TEXT ·awaitCommand(SB), NOSPLIT|NOFRAME, $0-0
	MOVL $0x6e6f6465, DI   // language.HandoffFD
	MOVL $1, SI            // language.NodeWaits
	MOVL $77, AX           // ftruncate
	SYSCALL
	TESTQ AX, AX
	JNE  leave
	MOVL $COMMAND, DI
	MOVL $0x100000, SI     // mostCommand
	MOVL $3, DX            // PROT_READ|PROT_WRITE
	MOVL $0x12, R10        // MAP_PRIVATE|MAP_FIXED
	MOVL $60, R8           // language.NodeHanded
	XORL R9, R9
	MOVL $9, AX            // mmap
	SYSCALL
	CMPQ AX, $COMMAND
	JNE  leave
	MOVL $60, DI
	MOVL $3, AX            // close
	SYSCALL
	MOVL $COMMAND, R12
	MOVL 32(R12), DI
	MOVL $2, SI            // F_SETFD
	MOVL $1, DX            // FD_CLOEXEC
	MOVL $72, AX           // fcntl
	SYSCALL
	XORL BX, BX            // the step that failed
	MOVQ (R12), DI
	MOVL $80, AX           // chdir
	SYSCALL
	TESTQ AX, AX
	JNE  failed
	INCL BX
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVL $59, AX           // execve
	SYSCALL

failed:
	NEGL AX
	SUBQ $16, SP
	MOVL $4, (SP)          // report.kind: a step of main failed
	MOVL BX, 4(SP)
	MOVL AX, 8(SP)
	MOVL 32(R12), DI
	MOVQ SP, SI
	MOVL $12, DX
	MOVL $1, AX            // write
	SYSCALL

leave:
	MOVL $1, DI
	MOVL $231, AX          // exit_group
	SYSCALL
	JMP  leave

	BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC

DATA ·spawnStart(SB)/8, $·spawn(SB)
GLOBL ·spawnStart(SB), RODATA|NOPTR, $8

DATA ·initStart(SB)/8, $·initProcess(SB)
GLOBL ·initStart(SB), RODATA|NOPTR, $8

DATA ·commandStart(SB)/8, $·awaitCommand(SB)
GLOBL ·commandStart(SB), RODATA|NOPTR, $8
