// Looks for the secret in the environment, in memory and in files.
// kernel: shared
// control: host
const fs = require("fs");
const canary = "airlock-" + "canary-";
const seen = [JSON.stringify(process.env), fs.readFileSync("/proc/self/environ", "latin1"), JSON.stringify(process.report ? process.report.getReport().environmentVariables : "")];
tried(`${seen.length} environments`);
if (seen.join().includes(canary)) breach("the environment holds the secret");
for (const path of [process.env.H_FILE, process.env.H_SHM, "/proc/self/root" + process.env.H_FILE, "/etc/shadow", "/proc/1/environ", "/root/.npmrc"]) refused(path, () => fs.readFileSync(path));
const fresh = Buffer.allocUnsafeSlow(64 << 20);
tried("fresh memory");
if (fresh.includes(canary)) breach("memory holds the secret");
done();
