// What a program in Node finds before its first line. A file may use both
// `import` and `require`, whatever it is called and whichever Node this is;
// and a program that was compiled believes that it is its source.
"use strict";
const fs = require("fs");
const Module = require("module");
const path = require("path");
const { isMainThread } = require("worker_threads");
const { pathToFileURL } = require("url");

const COMPILED = "/tmp/.build/main.mjs";

// Nobody here can act on advice about package.json.
const { emitWarning } = process;
process.emitWarning = function (warning, ...rest) {
  const code = typeof rest[0] === "object" && rest[0] !== null ? rest[0].code : rest[1];
  if (code !== "MODULE_TYPELESS_PACKAGE_JSON") emitWarning.call(process, warning, ...rest);
};

// This may be a Node without a program yet, and then waits here until it has one.
const DOOR = 0x6e6f6465; // a file that cannot be open
const ask = (question) => {
  try {
    fs.ftruncateSync(DOOR, question);
    return true;
  } catch {
    return false; // nobody answers: the program is there
  }
};
if (isMainThread && ask(0)) require("./waiting.cjs").wait(ask);

if (isMainThread && process.argv[1]) {
  const compiled = process.argv[1] === COMPILED;
  const entry = compiled ? fs.readlinkSync(path.join(path.dirname(COMPILED), "entry")) : process.argv[1];

  // A module of the new kind has no require, no __filename and no __dirname of
  // its own, and then finds these.
  const globals = { require: Module.createRequire(entry), __filename: entry, __dirname: path.dirname(entry) };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
  }

  if (compiled) {
    const { runMain } = Module;
    Module.runMain = function () {
      process.argv[1] = entry;
      return runMain.call(Module, COMPILED);
    };
  } else if (!tellsModules() && entry.endsWith(".js") && isModule(entry)) {
    const url = pathToFileURL(entry).href;
    const hook = `export async function load(url, context, next) {
      return next(url, url === ${JSON.stringify(url)} ? { ...context, format: "module" } : context);
    }`;
    Module.register("data:text/javascript," + encodeURIComponent(hook));
    Module.runMain = () => import(url);
  }
}

// Whether this Node itself finds out which kind of module a file is.
function tellsModules() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 7) || (major === 20 && minor >= 19);
}

// Whether a file is a module of the new kind, found as newer versions of Node
// do: by what an older reading of it stumbles over.
function isModule(file) {
  const source = fs.readFileSync(file, "utf8").replace(/^\uFEFF|^#!.*/, "");
  try {
    require("vm").compileFunction(source, ["exports", "require", "module", "__filename", "__dirname"], { filename: file });
  } catch (error) {
    return /Cannot use import statement outside a module|Unexpected token 'export'|Cannot use 'import\.meta' outside a module|await is only valid/.test(error.message);
  }
  return false;
}
