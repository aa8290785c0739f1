// Modules that are delivered for a loader which does not exist here: each takes what it imports
// from us.
export const modules = [];
globalThis.define = (_, make) => modules.push(make);
