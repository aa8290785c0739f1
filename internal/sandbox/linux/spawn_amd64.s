#include "textflag.h"

// func spawn()
//
// How a zygote makes a sandbox, as machine code that needs nothing but the
// zygote's room, in which a request lies as spawn.go describes it. A zygote
// copies these instructions into a page of its own and calls them there, as C
// would:
//
//	DI  address of the room
//	SI  flags of clone for pid 1
//
// It returns twice, like fork: the pid in the zygote (or a negative errno), and
// 0 in pid 2. Pid 1 does not return: its last step executes init, below.
//
// With CLONE_VM and CLONE_VFORK pid 1 shares the zygote's memory and stack,
// while that one stands still, until it executes init: only pid 2 costs a copy
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

TEXT ·spawn(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ BX
	PUSHQ BP
	PUSHQ R12
	PUSHQ R13
	PUSHQ R14
	PUSHQ R15
	SUBQ  $24, SP          // a report, and where the steps of main begin; 16 bytes aligned
	MOVQ  DI, R12

	MOVQ SI, DI
	XORL SI, SI            // the same stack
	LEAQ 144(R12), DX      // the pidfd
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX           // clone
	SYSCALL
	TESTQ AX, AX
	JNE   return           // the zygote

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
	CMPL R15, $0
	JEQ  main
	XORL AX, AX            // pid 2 is on its own from here
	JMP  return

fork:
	MOVQ 160(R12), AX      // libc's _Fork, which knows what libc keeps of a process
	CALL AX
	TESTL AX, AX
	JEQ  touch
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

touch:
	MOVL 260(R12), AX      // the steps of main are behind those of init
	SHLQ $6, AX
	ADDQ R13, AX
	MOVQ AX, 16(SP)
	MOVQ 176(R12), R13     // the memory that a program will use
	MOVL 184(R12), R14
	XORL R15, R15
	JMP  walk

main:
	MOVQ 16(SP), R13
	MOVL 264(R12), R14
	MOVL $4, R15
	JMP  walk

return:
	ADDQ $24, SP
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

DATA ·spawnStart(SB)/8, $·spawn(SB)
GLOBL ·spawnStart(SB), RODATA|NOPTR, $8

DATA ·initStart(SB)/8, $·initProcess(SB)
GLOBL ·initStart(SB), RODATA|NOPTR, $8
