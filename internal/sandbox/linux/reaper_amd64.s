#include "textflag.h"

// func reaper()
//
// The life of a forked sandbox's pid 1, as machine code that needs nothing but
// its own two pages: it gives all other memory back, collects whatever ends,
// and when pid 2 has ended it says how and ends too. A zygote copies these
// instructions into a page of its own and calls them there, as C would:
//
//	DI  the pipe for reports
//	SI  address of the code's page
//	DX  address of a page to write to, with the report in it but for its value
//	CX  where the memory ends that may be given back
//
// It has no stack, and therefore takes no signals: they are all blocked.
TEXT ·reaper(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ DI, R12
	MOVQ DX, R13
	MOVQ CX, R8            // a system call overwrites CX
	XORL DI, DI
	MOVL $11, AX           // munmap(0, code)
	SYSCALL
	MOVQ R13, DI
	ADDQ $4096, DI
	MOVQ R8, SI
	SUBQ DI, SI
	MOVL $11, AX           // munmap(end, top - end)
	SYSCALL

collect:
	MOVQ $-1, DI
	LEAQ 8(R13), SI        // report.value
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
	JMP  leave

ended:
	MOVQ R12, DI
	MOVQ R13, SI
	MOVL $12, DX
	MOVL $1, AX            // write(pipe, report, 12)
	SYSCALL
	XORL DI, DI

leave:
	MOVL $231, AX          // exit_group
	SYSCALL
	JMP  leave

	// The end, for whoever copies it.
	BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC; BYTE $0xCC

DATA ·reaperStart(SB)/8, $·reaper(SB)
GLOBL ·reaperStart(SB), RODATA|NOPTR, $8
