// Starts threads and processes until nothing is left.
// ends: badly
// timeout: 2s
const { Worker } = require("worker_threads");
const { spawn } = require("child_process");
tried("start");
process.on("uncaughtException", () => {});
const more = () => {
  try { new Worker("for (;;) {}", { eval: true }).on("error", () => {}); } catch {}
  try { spawn("sleep", ["100"], { detached: true }).on("error", () => {}); } catch {}
  setImmediate(more);
};
more();
