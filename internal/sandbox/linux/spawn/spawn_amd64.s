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
	MOVL 4(R13), BP
	ARGUMENT(0, DI)
	ARGUMENT(1, SI)
	ARGUMENT(2, DX)
	ARGUMENT(3, R10)
	ARGUMENT(4, R8)
	ARGUMENT(5, R9)
	MOVL (R13), AX
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
TEXT ·initProcess(SB), NOSPLIT|NOFRAME, $0-0
	MOVL $4, DI            // PR_SET_DUMPABLE
	XORL SI, SI            // its memory and files are not the program's to read
	MOVL $157, AX          // prctl
	SYSCALL
	SUBQ $16, SP
	MOVL $5, (SP)          // report.kind: pid 2 ended
	MOVL $0, 4(SP)

collect:
	MOVQ $-1, DI
	LEAQ 8(SP), SI         // report.value
	XORL DX, DX
	XORL R10, R10
	MOVL $61, AX           // wait4(-1, &value, 0, NULL)
	SYSCALL
	CMPQ AX, $2
	JEQ  ended
	CMPQ AX, $0
	JGT  collect
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
