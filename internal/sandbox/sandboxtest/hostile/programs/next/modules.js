// Writes into every folder from which modules are loaded, and changes the runtime's own.
// next: must see the same
// own: wrote to /(node_modules|usr/local/)
const fs = require("fs"), Module = require("module"), path = require("path");
for (const folder of [...Module.globalPaths, ...require.resolve.paths("x"), "/usr/lib/node_modules", "/usr/share/nodejs", "/usr/bin", "/opt/airlock"]) {
  try { fs.mkdirSync(folder, { recursive: true }); fs.writeFileSync(path.join(folder, "fs.js"), "poison"); } catch (e) { tried(`${folder}: ${e.message}`); continue; }
  tried(folder);
  if (!/^\/(workspace|tmp|mnt\/data)/.test(folder)) breach("wrote to " + folder);
}
fs.readFileSync = () => "poison";
Object.prototype.poison = 1;
done();
