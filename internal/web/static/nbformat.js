// Notebooks as files: nbformat 4.5, which Jupyter reads and writes.

// fileNameOf returns the name of the file of a notebook that is called so.
export function fileNameOf(title) {
  return `${title.trim().replace(/[\/\\\0-\x1f]/g, "-").replace(/^\.+/, "") || "Untitled"}.ipynb`;
}

export const maxNotebook = 64 << 20; // bytes of a file that is opened here

// The languages of notebooks, as Jupyter's kernels for them name themselves.
export const languages = {
  python: {
    kernel: { name: "python3", display_name: "Python 3", language: "python" }, comment: "#", editor: "python",
    info: { name: "python", file_extension: ".py", mimetype: "text/x-python" },
  },
  javascript: {
    kernel: { name: "javascript", display_name: "JavaScript (Node.js)", language: "javascript" }, comment: "//", editor: "js",
    info: { name: "javascript", file_extension: ".js", mimetype: "text/javascript" },
  },
  typescript: {
    kernel: { name: "typescript", display_name: "TypeScript (Node.js)", language: "typescript" }, comment: "//", editor: "ts",
    info: { name: "typescript", file_extension: ".ts", mimetype: "text/typescript" },
  },
  bash: {
    kernel: { name: "bash", display_name: "Bash", language: "bash" }, comment: "#", editor: "bash",
    info: { name: "bash", file_extension: ".sh", mimetype: "text/x-sh" },
  },
  r: {
    kernel: { name: "ir", display_name: "R", language: "R" }, comment: "#", editor: "r",
    info: { name: "R", file_extension: ".r", mimetype: "text/x-r-source" },
  },
};

// unsaved is the name under which the browser keeps a notebook that has no session yet.
export const unsaved = (language) => (language === "python" ? "new" : `new ${language}`);

// languageOf is the language in which a notebook says it is written; undefined: another one than these.
function languageOf({ kernelspec, language_info: info } = {}) {
  const said = String(kernelspec?.language ?? info?.name ?? kernelspec?.name ?? "python").toLowerCase();
  return { python3: "python", ipython: "python", node: "javascript", sh: "bash", shell: "bash" }[said] ?? (languages[said] ? said : undefined);
}

const lines = (text) => (text ? text.split(/(?<=\n)/) : []);
const joined = (text) => (Array.isArray(text) ? text.join("") : String(text ?? ""));
const name = () => [...crypto.getRandomValues(new Uint8Array(6))].map((b) => b.toString(16).padStart(2, "0")).join("");

export function blank(kind = "code", source = "") {
  return { id: name(), kind, source, outputs: [], count: null, folded: false, hidden: false, metadata: {} };
}

// isText reports whether a form of a value is kept as lines.
const isText = (mime) => mime.startsWith("text/") || mime === "image/svg+xml" || mime === "application/javascript";

export function outputTo(o) {
  if (o.type === "stdout" || o.type === "stderr") return { output_type: "stream", name: o.type, text: lines(o.text) };
  if (o.type === "error") return { output_type: "error", ename: o.name ?? "", evalue: o.value ?? "", traceback: o.traceback ?? [] };
  const data = Object.fromEntries(Object.entries(o.data ?? {}).map(([m, v]) => [m, isText(m) && typeof v === "string" ? lines(v) : v]));
  const made = { output_type: o.type === "result" ? "execute_result" : "display_data", data, metadata: o.metadata ?? {} };
  if (o.type === "result") made.execution_count = o.count ?? null;
  return made;
}

function outputFrom(o) {
  if (o.output_type === "stream") return { type: o.name === "stderr" ? "stderr" : "stdout", text: joined(o.text) };
  if (o.output_type === "error") return { type: "error", name: joined(o.ename), value: joined(o.evalue), traceback: (o.traceback ?? []).map(String) };
  const data = Object.fromEntries(Object.entries(o.data ?? {}).map(([m, v]) => [m, isText(m) || m.startsWith("image/") ? joined(v) : v]));
  return { type: o.output_type === "execute_result" ? "result" : "display", data, metadata: o.metadata ?? {}, count: o.execution_count ?? null };
}

// folds returns what Jupyter has in the metadata of a cell for what is folded in it.
function folds({ source_hidden, outputs_hidden, ...rest } = {}, cell) {
  const own = { ...rest, ...(cell.folded ? { source_hidden: true } : {}), ...(cell.hidden ? { outputs_hidden: true } : {}) };
  return Object.keys(own).length ? { jupyter: own } : {};
}

export function toFile(cells, language = "python", metadata = {}) {
  return {
    nbformat: 4, nbformat_minor: 5,
    metadata: { ...metadata, kernelspec: languages[language].kernel, language_info: languages[language].info },
    cells: cells.map((c) => {
      const { jupyter, ...metadata } = c.metadata;
      const cell = { id: c.id, cell_type: c.kind, metadata: { ...metadata, ...folds(jupyter, c) }, source: lines(c.source) };
      return c.kind === "code" ? { ...cell, execution_count: c.count, outputs: c.outputs.map((o) => outputTo({ ...o, count: c.count })) } : cell;
    }),
  };
}

// fromFile reads the cells of a notebook of version 4, its language and its metadata. It throws words for a person.
export function fromFile(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This is not a notebook: it is not JSON.");
  }
  if (!Array.isArray(file?.cells)) throw new Error(file?.worksheets ? "This notebook is of version 3. Jupyter makes one of version 4 of it: jupyter nbconvert --to notebook." : "This is not a notebook: it has no cells.");
  const seen = new Set();
  const language = languageOf(file.metadata);
  const cells = file.cells.map((c) => {
    const kind = ["code", "markdown", "raw"].includes(c?.cell_type) ? c.cell_type : "raw";
    let id = /^[a-zA-Z0-9_-]{1,64}$/.test(c?.id ?? "") ? c.id : name();
    while (seen.has(id)) id = name();
    seen.add(id);
    const metadata = c?.metadata && typeof c.metadata === "object" ? c.metadata : {};
    return {
      id, kind, source: joined(c?.source), metadata, folded: metadata.jupyter?.source_hidden === true, hidden: metadata.jupyter?.outputs_hidden === true,
      count: Number.isInteger(c?.execution_count) ? c.execution_count : null,
      outputs: kind === "code" && Array.isArray(c.outputs) ? c.outputs.map(outputFrom) : [],
    };
  });
  return { cells, language, metadata: file.metadata && typeof file.metadata === "object" ? file.metadata : {} };
}

// toScript is the notebook as a program: text becomes comments.
export function toScript(cells, language) {
  const mark = languages[language].comment;
  return cells.map((c) => (c.kind === "code" ? `${mark} %%\n${c.source.trimEnd()}\n` : `${mark} %% [markdown]\n${c.source.trimEnd().split("\n").map((l) => `${mark} ${l}`.trimEnd()).join("\n")}\n`)).join("\n");
}
