// Leaves detached processes, and a loop that never empties.
// cell: anyhow
// ends: timeout
// timeout: 1s
const { spawn } = require("child_process");
for (let i = 0; i < 5; i++) spawn("sleep", ["300"], { detached: true, stdio: "ignore" }).unref();
process.on("SIGTERM", () => {});
process.on("exit", () => { for (;;); });
tried("leave");
setInterval(() => {}, 1000);
