"""What a zygote does so that its children have little to do: it gets into the
habit of running programs, tidies up, and learns which memory one uses.
"""

import ctypes
import gc
import mmap
import os
import struct
import sys

POPULATE_READ, POPULATE_WRITE = 22, 23  # of madvise
HABIT = 20  # an interpreter adapts code that ran some 10 times
WORDS = 624  # of the state of a Mersenne Twister, 4 bytes each


def specialize(run):
    """Runs an internal program until the interpreter has adapted its code to it,
    which it writes into the code itself: our children need not, each for itself."""
    kept = [os.dup(number) for number in range(3)]
    for number in (1, 2):
        os.dup2(0, number, inheritable=True)
    try:
        for _ in range(HABIT):
            run()
    finally:  # an error is to be read
        for number, fd in enumerate(kept):
            os.dup2(fd, number, inheritable=True)
            os.close(fd)
    os.chdir("/")


def random_state():
    """Where the numbers lie of which random makes others, all of which it takes
    for used up; None if that is not to be found out."""
    words = range(1, WORDS + 1)
    generator = sys.modules["random"]._inst
    generator.setstate((3, (*words, WORDS), None))
    start = id(generator) + object.__basicsize__
    if list(struct.unpack(f"={WORDS + 1}I", ctypes.string_at(start, 4 * (WORDS + 1)))) != [WORDS, *words]:
        return None
    return start + 4


def numpy_state():
    """The same for the old generator of numpy, which says where it is."""
    start = sys.modules["numpy.random"].mtrand._rand._bit_generator.ctypes.state_address
    ctypes.c_int.from_address(start + 4 * WORDS).value = WORDS
    return start


def compact_heap(libc):
    """Fills the gaps that imports have left in the memory for small objects, and
    gives back what is free elsewhere. What a child makes then lies together, on
    few pages, and not one here and one there."""
    gc.collect()
    libc.malloc_trim(0)
    report = os.memfd_create("memory")
    kept = os.dup(2)
    os.dup2(report, 2)
    sys._debugmallocstats()
    os.dup2(kept, 2)
    os.close(kept)
    with open(report, "rb+") as file:
        file.seek(0)
        lines = file.read().decode().splitlines()
    gaps = {}
    for line in lines:
        fields = line.split()
        if len(fields) == 5 and all(field.isdigit() for field in fields):
            gaps[int(fields[1])] = int(fields[4])
    make = {16: lambda: object(), 32: lambda: complex(1, 1)}
    empty = sys.getsizeof(b"")
    return [make.get(size, lambda: bytes(size - empty))() for size, count in gaps.items() for _ in range(count)]


def working_set():
    """The parts of this process's memory that are nobody else's, and those of
    files that it has looked at since it was forked."""
    size, present, alone = mmap.PAGESIZE, 1 << 63, 1 << 56  # alone: mapped by one process
    parts = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for line in maps.readlines():
            span, mode, _, _, inode, *_ = line.split()
            if mode[1] == "w" and mode[3] == "p":
                advice, wanted = POPULATE_WRITE, present | alone
            elif mode[1] == "-" and inode != "0":
                advice, wanted = POPULATE_READ, present
            else:
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            pages.seek(first // size * 8)
            for number, (entry,) in enumerate(struct.iter_unpack("=Q", pages.read((last - first) // size * 8))):
                start = first + number * size
                if entry & wanted != wanted:
                    continue
                if parts and parts[-1][2] == advice and sum(parts[-1][:2]) == start:
                    parts[-1][1] += size
                else:
                    parts.append([start, size, advice])
    return parts
