// Asks for the next program, as a Node does that waits for one.
// cell: anyhow
const fs = require("fs"), child = require("child_process"), { Worker, isMainThread } = require("worker_threads");
const ask = () => {
  for (const question of [0, 1, 2, 1e6]) refused(`question ${question}`, () => fs.ftruncateSync(0x6e6f6465, question));
  refused("a description", () => fs.readFileSync(60));
};
ask();
const node = child.spawnSync(process.execPath, ["-r", "/opt/airlock/node.cjs", "-e", "console.log('at once')"], { timeout: 10000 });
tried("another Node");
if (String(node.stdout) !== "at once\n") breach(`it waited: ${node.error} ${node.stdout} ${node.stderr}`);
new Worker(`const fs = require("fs"); let code = 0; for (const q of [0, 1]) try { fs.ftruncateSync(0x6e6f6465, q); code = 1 } catch {} process.exit(code)`, { eval: true })
  .on("exit", (code) => { tried("a worker"); if (code) breach("a worker was answered"); done(); });
