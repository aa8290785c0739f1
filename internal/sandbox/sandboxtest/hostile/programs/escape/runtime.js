// Reaches below its runtime: bindings, native code, other processes.
// kernel: shared
const fs = require("fs"), child = require("child_process");
const run = (...command) => { const r = child.spawnSync(command[0], command.slice(1), { timeout: 5000 }); if (r.error || r.status !== 0) throw r.error || new Error(String(r.stderr)); return r.stdout; };
refused("su", () => run("su", "-c", "id"));
refused("unshare", () => run("unshare", "-Ur", "id"));
refused("mount", () => run("mount", "-t", "tmpfs", "x", "/tmp"));
refused("setuid", () => process.setuid(0));
refused("setgroups", () => process.setgroups([0]));
refused("init's files", () => fs.readdirSync("/proc/1/fd"));
refused("write /usr", () => fs.writeFileSync("/usr/bin/x", ""));
refused("write settings", () => fs.writeFileSync("/proc/sys/kernel/hostname", "x"));
refused("native code of the host", () => process.dlopen({ exports: {} }, process.env.H_FILE));
refused("the victim", () => process.kill(Number(process.env.H_PID), 0));
for (let fd = 3; fd < 300; fd++) {
  let target;
  try { target = fs.readlinkSync(`/proc/self/fd/${fd}`); } catch { continue; }
  tried(`file ${fd}: ${target}`);
  if (!/^(anon_inode:|pipe:|\/dev\/null|\/proc\/|socket:|\/workspace|\/usr)/.test(target)) breach(`file ${fd} is ${target}`);
}
done();
