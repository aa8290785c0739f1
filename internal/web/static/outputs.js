// What cells put out, by the richest form that can be shown. Text becomes text nodes,
// pictures become images; whatever is a document of its own is shown in a frame of
// another origin (decision 0115).
import { withData } from "./chart.js";
import { Console } from "./console.js";
import { calm } from "./failure.js";
import { ask, loadScript, parts } from "./page.js";
import { fromData, fromFrame } from "./table.js";

const box = document.getElementById("notebook");
const frames = new Map(); // window of a frame -> what it is to show
const dark = matchMedia("(prefers-color-scheme: dark)");

// Charts are drawn in the colours of the page: anew, if those change.
dark.addEventListener("change", () => {
  for (const frame of document.querySelectorAll(".out-frame:is([src$='/plotly'], [src$='/vega'])")) frame.src += "";
});

addEventListener("message", (e) => {
  const known = frames.get(e.source);
  if (!known || e.origin !== "null") return;
  if (e.data?.ready === true) e.source.postMessage({ content: known.content, dark: dark.matches }, "*");
  else if (Number.isFinite(e.data?.height)) known.element.style.height = `${Math.min(Math.max(e.data.height, 24), 4000)}px`;
  else if (typeof e.data?.problem === "string") known.failed(e.data.problem.slice(0, 500));
  else if (e.data) known.heard?.(e.data);
});

// framed shows something in a frame. If it goes on talking with the page, begin is told how to
// post to it, at each load, heard what it says, and failed why nothing is shown.
export function framed(kind, content, title, { begin, heard, failed } = {}) {
  const holder = document.createElement("div");
  const frame = document.createElement("iframe");
  frame.className = "out-frame";
  frame.title = title;
  frame.setAttribute("sandbox", "allow-scripts");
  frame.referrerPolicy = "no-referrer";
  frame.src = `${box.dataset.frames}${kind}`;
  frame.style.height = { html: "40px", widget: "60px" }[kind] ?? "420px";
  frame.addEventListener("load", () => {
    // What was shown here before a move in the document is gone with its window.
    for (const [win, f] of frames) if (f.element === frame || !f.element.isConnected) frames.delete(win);
    const at = frame.contentWindow;
    frames.set(at, { element: frame, content, heard, failed: failed ?? ((words) => frame.replaceWith(plain(words))) });
    begin?.((message) => at.postMessage(message, "*"));
    frame.contentWindow.postMessage({ content, dark: dark.matches }, "*");
  });
  holder.append(frame);
  return holder;
}

// note is a remark of the page's about an output.
export function note(words) {
  return Object.assign(document.createElement("p"), { className: "note", textContent: words });
}

export function plain(text) {
  const element = document.createElement("div");
  element.className = "out-text";
  new Console(element).write("stdout", text);
  return element;
}

function image(mime) {
  return (data) => {
    const img = document.createElement("img");
    img.className = "out-image";
    img.alt = "Picture that the cell made";
    const text = Array.isArray(data) ? data.join("") : String(data);
    img.src = mime === "image/svg+xml" ? `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}` : `data:${mime};base64,${text.replace(/\s/g, "")}`;
    return img;
  };
}

function tree(value, name = "") {
  if (value === null || typeof value !== "object") {
    const line = document.createElement("div");
    line.className = "json-leaf";
    line.textContent = `${name ? `${name}: ` : ""}${JSON.stringify(value)}`;
    return line;
  }
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const keys = Object.keys(value);
  summary.textContent = `${name ? `${name}: ` : ""}${Array.isArray(value) ? `[${keys.length}]` : `{${keys.length}}`}`;
  details.append(summary);
  // Only what is opened is made.
  details.addEventListener("toggle", () => {
    for (const key of keys.slice(0, 1000)) details.append(tree(value[key], key));
    if (keys.length > 1000) details.append(plain(`… ${keys.length - 1000} more`));
  }, { once: true });
  return details;
}

function media(kind, mime) {
  return (data) => {
    const element = document.createElement(kind);
    element.controls = true;
    element.src = `data:${mime};base64,${String(data).replace(/\s/g, "")}`;
    return element;
  };
}

// latex shows mathematics as MathML, which browsers set by themselves.
export async function latex(text, element, display) {
  try {
    (await loadScript(box.dataset.katex)).render(text, element, display);
  } catch {
    element.textContent = text;
  }
}

// kept is a link that saves what is not shown here, or not all of it.
function kept(content, name, words) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  link.download = name;
  link.textContent = words;
  return link;
}

// html is shown without its scripts, which its frame says; with them it can be saved.
function html(text) {
  const element = document.createElement("div");
  element.append(framed("html", text, "HTML"));
  if (/<script\b/i.test(text)) {
    const note = document.createElement("p");
    note.className = "note";
    note.append(kept(text, "output.html", "Download this HTML"), " to open it with its scripts.");
    element.append(note);
  }
  return element;
}

// pdf shows the pages of a document as pictures: a program in the sandbox reads it.
function pdf(data) {
  const bytes = Uint8Array.from(atob(String(data).replace(/\s/g, "")), (c) => c.charCodeAt(0));
  const element = document.createElement("div");
  element.className = "out-pdf";
  element.append(kept(bytes, "output.pdf", "Download this PDF"));
  ask(`${box.dataset.files}look?name=output.pdf`, { method: "POST", body: bytes, accept: "text/html" })
    .then((pages) => element.prepend(...parts(pages)), (e) => element.prepend(plain(e.words ?? String(e))));
  return element;
}

const math = (text) => {
  const element = document.createElement("div");
  element.className = "out-math";
  const source = String(text).trim().replace(/^\$\$?|\$\$?$/g, "").replace(/^\\\[|\\\]$/g, "");
  latex(source, element, true);
  return element;
};

const vega = (data) => withData(framed("vega", data, "Interactive chart"), "vega", data);

// The forms of a value, the richest first.
const forms = [
  ["application/vnd.airlock.table+json", (d) => fromData(d).element],
  ["application/vnd.plotly.v1+json", (d) => withData(framed("plotly", d, "Interactive plot"), "plotly", d)],
  ...["6", "5", "4"].map((v) => [`application/vnd.vegalite.v${v}+json`, vega]),
  ...["6", "5"].map((v) => [`application/vnd.vega.v${v}+json`, vega]),
  ["text/html", (d) => fromFrame(String(d))?.element ?? html(String(d))],
  ...["image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp"].map((m) => [m, image(m)]),
  ["text/latex", math],
  ["text/markdown", (d) => plain(String(d))],
  ...["audio/wav", "audio/mpeg", "audio/ogg"].map((m) => [m, media("audio", m)]),
  ...["video/mp4", "video/webm"].map((m) => [m, media("video", m)]),
  ["application/pdf", pdf],
  ["application/json", (d) => tree(d)],
  ["text/plain", (d) => plain(String(d))],
];

// addForm adds a form of values, richer than all others.
export function addForm(mime, show) {
  forms.unshift([mime, show]);
}

function rich(output, outputs) {
  for (const [mime, show] of forms) {
    if (output.data?.[mime] === undefined) continue;
    try {
      const element = show(output.data[mime], output, outputs);
      element.dataset.mime = mime;
      return element;
    } catch {
      // It is not what it says: the next form may be.
    }
  }
  return plain(`[${Object.keys(output.data ?? {}).join(", ") || "nothing"}: this form cannot be shown]`);
}

const visible = (text) => text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").length;

const UP = /\x1b\[(\d*)A/;
const MOST_UP = 80;

// overwritten adds text to what was printed. Of a line that carriage returns began anew only that is kept which later
// text does not cover: a bar of progress is one line, in the file too. So are several below each other, between which
// the cursor goes up and down.
function overwritten(before, added) {
  if (!added.includes("\r") && !before.endsWith("\r") && !UP.test(added) && !before.endsWith("\x1b[A")) return before + added;
  let at = before.length;
  for (let n = UP.test(before.slice(-4)) || UP.test(added) ? MOST_UP : 1; n > 0 && at >= 0; n--) {
    at = at > 0 ? before.lastIndexOf("\n", at - 1) : -1; // a line above all others may be empty
  }
  at++;
  const lines = [];
  let row = 0;
  (before.slice(at) + added).split(/(\n|\x1b\[\d*A)/).forEach((piece, i) => {
    if (i % 2 === 0) lines[row] = lines[row] === undefined ? piece : `${lines[row]}\r${piece}`;
    else if (piece === "\n") row++;
    else row = Math.max(row - (parseInt(piece.slice(2), 10) || 1), 0);
  });
  return before.slice(0, at) + lines.map((line) => {
    if (!line.includes("\r")) return line;
    const kept = [];
    for (const piece of line.split("\r")) {
      while (kept.length && visible(piece) >= visible(kept.at(-1))) kept.pop();
      kept.push(piece);
      // The last says where the cursor is. What is left of earlier ones, without colours, is one text.
      if (kept.length > 2 && !line.includes("\x1b")) kept.splice(0, 2, kept[1] + kept[0].slice(kept[1].length));
    }
    return kept.join("\r");
  }).join("\n") + "\x1b[A".repeat(lines.length - 1 - row);
}

// Outputs is what stands below one cell.
export class Outputs {
  constructor(element) {
    this.element = element;
    this.reset([]);
  }

  reset(list) {
    this.list = [];
    this.element.replaceChildren();
    this.console = null;
    this.named = new Map();
    for (const o of list) this.add(o);
  }

  add(output) {
    if (output.type === "stdout" || output.type === "stderr") {
      if (this.list.at(-1)?.type !== output.type) this.list.push({ type: output.type, text: "" });
      const last = this.list.at(-1);
      last.text = overwritten(last.text, output.text);
      if (!this.console) {
        const element = document.createElement("div");
        element.className = "console out-console";
        element.tabIndex = 0;
        element.setAttribute("role", "group");
        element.setAttribute("aria-label", "Printed");
        this.element.append(element);
        this.console = new Console(element);
      }
      this.console.write(output.type, output.text);
      return;
    }
    if (output.update) {
      const there = this.named.get(output.display_id);
      if (!there) return;
      const fresh = rich(output, this);
      there.element.replaceWith(fresh);
      there.element = fresh;
      Object.assign(there.output, { data: output.data, metadata: output.metadata });
      return;
    }
    this.console = null;
    this.list.push(output);
    const element = output.type === "error" ? this.error(output) : rich(output, this);
    element.classList.add("out");
    this.element.append(element);
    if (output.display_id) this.named.set(output.display_id, { element, output });
  }

  // ended says that nothing more is printed.
  ended() {
    const last = this.console;
    last?.drained().then(() => calm(last.element));
  }

  error(output) {
    const element = document.createElement("div");
    element.className = "console out-console out-error";
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", "Error");
    const text = new Console(element);
    text.write("stderr", output.traceback?.length ? output.traceback.join("\n") : `${output.name}: ${output.value}`);
    text.drained().then(() => calm(element));
    return element;
  }
}
