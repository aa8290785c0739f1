const _fs = require("fs");
let _tried = 0;
const _say = (kind, what) => _fs.writeSync(1, `H:${process.env.H_NONCE}:${kind}:${String(what).replace(/\n/g, " ").slice(0, 200)}\n`);
const tried = (what) => { _tried++; _say("tried", what); };
const breach = (what) => _say("breach", what);
const refused = (what, attempt) => {
  let result;
  try { result = attempt(); } catch (e) { tried(`${what}: ${e.message}`); return; }
  tried(what); breach(`${what} gave ${result}`);
};
const done = () => _say("done", _tried);
