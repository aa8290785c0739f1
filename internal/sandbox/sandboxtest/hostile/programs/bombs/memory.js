// Takes memory outside of the heap, where the runtime does not count it.
// ends: badly
// memory: 256
// timeout: 10s
tried("take");
const taken = [];
for (;;) { const b = Buffer.alloc(16 << 20, 1); taken.push(b); }
