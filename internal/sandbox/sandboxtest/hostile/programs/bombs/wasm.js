// Grows the memory of compiled code.
// ends: anyhow
// memory: 256
tried("grow");
const memories = [];
try {
  for (let i = 0; i < 40; i++) { const m = new WebAssembly.Memory({ initial: 512, maximum: 65536 }); new Uint8Array(m.buffer).fill(1); memories.push(m); }
  breach("1280 MiB on 256");
} catch (e) { tried(e.message); }
