// How Node waits for its program. It has been started as for that program, with
// the same command and in the same folder, by somebody who answers the question
// whether it is to wait (see node.cjs). Everything up to the last question is
// done while there is time; what is said here goes into a pipe of our own, which
// is in the place of stdin, stdout and stderr until the program's own come.
"use strict";
const { spawnSync } = require("child_process");
const { Console } = require("console");
const fs = require("fs");
const net = require("net");
require("tty"); // a first console.log asks for it
delete require.cache[__filename]; // a program has not asked for this

const HANDED = 60; // the file that describes the program
const COMPILED = 61; // the pipe that tells how a compiler ended that waited

exports.wait = function (ask) {
  const ids = asyncIds();
  const next = ids?.read();
  if (ids) prewarm();
  if (ids && process.argv[1]?.endsWith(".mjs")) prewarmModules();
  if (!ask(1)) process.reallyExit(1);

  const handed = JSON.parse(fs.readFileSync(HANDED, "utf8"));
  fs.closeSync(HANDED);
  ids?.write(next);
  const { uptime } = process;
  const waited = uptime() - started;
  process.uptime = { uptime: () => uptime() - waited }.uptime;

  for (const [name, value] of handed.Env ?? []) process.env[name] = value;
  process.argv.push(...(handed.Args ?? []));
  if (handed.Compile && !(handed.Compiled && isCompiled())) compile(handed.Compile);
};

// Whether the compiler that waited has compiled the program. If it said nothing it was
// killed, and another one is to try.
function isCompiled() {
  const verdict = Buffer.alloc(1);
  const said = fs.readSync(COMPILED, verdict) > 0;
  fs.closeSync(COMPILED);
  if (said && verdict[0] !== 0) process.reallyExit(1);
  return said;
}

const started = process.uptime();

// Does what most programs do, so that the functions for it are there.
function prewarm() {
  const socket = new net.Socket({ fd: 1, readable: false, writable: true });
  const console = new Console({ stdout: socket, stderr: socket, colorMode: false }); // any other touches the real ones
  console.log(1);
  console.log("%s", { a: [1, "b", null, { c: new Map([[1, new Set([2])]]) }] }, new Date(0), () => {});
  console.error(new Error("none").stack);
  console.table([{ a: 1 }]);
  clearImmediate(setImmediate(() => {}));
  socket.unref();
  socket._handle.close(); // destroying the socket would touch the real stderr
  process._tickCallback?.(); // what that left to be done is done, and not in the program's time
}

// Does what happens to a module of the new kind before its first line. That waits for no
// file, so it is done when this returns, and no program can ask for it. Node reads such a
// module in threads, which it starts for the first file, and waits until all of them run.
function prewarmModules() {
  import("data:text/javascript,import%20'fs'").catch(() => {});
  fs.promises.readFile("/none").catch(() => {});
  process._tickCallback?.();
}

// The number of the next asynchronous resource. A program can see it, when it
// prints a timer for instance, and is not to notice what was before. Where this
// Node does not tell, nothing is done before.
function asyncIds() {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { async_id_fields: fields, constants } = process.binding("async_wrap");
    const counter = constants.kAsyncIdCounter;
    if (!Number.isInteger(counter) || !(fields[counter] >= 1)) return undefined;
    return { read: () => fields[counter], write: (value) => (fields[counter] = value) };
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Ends as the shell would that compiles before it executes Node.
function compile(script) {
  const { status, signal, error } = spawnSync("/bin/sh", ["-c", script], { stdio: "inherit" });
  if (error) {
    fs.writeSync(2, `cannot compile: ${error.message}\n`);
    process.reallyExit(1);
  }
  if (signal) process.kill(process.pid, signal);
  if (status !== 0) process.reallyExit(1);
}
