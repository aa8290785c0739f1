// A notebook as one HTML file to be read: no scripts, nothing from elsewhere. A document
// that a cell has put out is in a frame that may do nothing.
import { calm } from "./failure.js";
import { latex } from "./outputs.js";

// The policy holds in the frames too, wherever the file is opened.
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; form-action 'none'; base-uri 'none'";

const looks = `:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.55 system-ui, sans-serif; }
section { margin: 1.2rem 0; } pre { margin: .4rem 0; padding: .7rem .9rem; overflow: auto; font: .87rem/1.5 ui-monospace, monospace; border-radius: 6px; }
pre.code { background: color-mix(in srgb, currentColor 7%, transparent); } pre.err { border-left: 3px solid #c0392b; }
img, video { max-width: 100%; background: #fff; } iframe { width: 100%; height: 20rem; resize: vertical; border: 1px solid #8886; border-radius: 6px; background: #fff; color-scheme: light; }
table { border-collapse: collapse; } td, th { border: 1px solid #8886; padding: .2rem .6rem; } small, summary { opacity: .7; } .hint { margin: .5rem 0 0; font: 1rem/1.5 system-ui, sans-serif; white-space: normal; }`;

const text = (value) => String(Array.isArray(value) ? value.join("") : value ?? "");
// Colours of a terminal are for a terminal.
const uncoloured = (value) => text(value).replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");

function element(doc, name, fields = {}, ...content) {
  const made = doc.createElement(name);
  for (const [key, value] of Object.entries(fields)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

// table is a data frame by its texts alone.
function table(doc, frame) {
  const made = doc.createElement("table");
  const head = frame.tHead?.rows.length ?? 0;
  const size = /^[\d,]+ rows × [\d,]+ columns$/m.exec(frame.ownerDocument.body.textContent)?.[0]; // of which some are here
  for (const row of [...frame.rows].slice(0, head + 1000)) {
    const to = made.insertRow();
    for (const cell of row.cells) to.append(element(doc, cell.tagName === "TH" ? "th" : "td", {}, cell.textContent));
  }
  if (frame.rows.length - head > 1000) made.append(element(doc, "caption", {}, `The first 1,000 of ${(frame.rows.length - head).toLocaleString("en")} rows.`));
  else if (size) made.append(element(doc, "caption", {}, size));
  return made;
}

// rendered is what the service makes of Markdown, which has no scripts and no pictures from elsewhere.
async function rendered(doc, source, markdown) {
  return [...new DOMParser().parseFromString(await markdown(source), "text/html").body.childNodes].map((n) => doc.importNode(n, true));
}

const images = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// shown is a value in the richest form that a file without scripts can have.
async function shown(doc, data, markdown) {
  for (const mime of images) {
    if (data[mime] !== undefined) return element(doc, "img", { alt: "Picture that the cell made", src: `data:${mime};base64,${text(data[mime]).replace(/\s/g, "")}` });
  }
  if (data["image/svg+xml"] !== undefined) return element(doc, "img", { alt: "Picture that the cell made", src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text(data["image/svg+xml"]))}` });
  for (const [kind, mimes] of [["audio", ["audio/wav", "audio/mpeg", "audio/ogg"]], ["video", ["video/mp4", "video/webm"]]]) {
    const mime = mimes.find((m) => data[m] !== undefined);
    if (mime) return element(doc, kind, { controls: "", src: `data:${mime};base64,${text(data[mime]).replace(/\s/g, "")}` });
  }
  if (data["text/html"] !== undefined) {
    const frame = new DOMParser().parseFromString(text(data["text/html"]), "text/html").querySelector("table.dataframe");
    if (frame) return table(doc, frame);
    return element(doc, "iframe", { sandbox: "", title: "HTML that the cell made", srcdoc: `<meta http-equiv="Content-Security-Policy" content="${policy}">${text(data["text/html"])}` });
  }
  if (data["text/markdown"] !== undefined) return element(doc, "div", {}, ...await rendered(doc, text(data["text/markdown"]), markdown));
  if (data["text/latex"] !== undefined) {
    const math = document.createElement("div");
    await latex(text(data["text/latex"]).trim().replace(/^\$\$?|\$\$?$/g, ""), math, true);
    return doc.importNode(math, true);
  }
  const interactive = Object.keys(data).find((m) => /plotly|vega/.test(m));
  const words = data["application/json"] !== undefined ? JSON.stringify(data["application/json"], null, 2) : text(data["text/markdown"] ?? data["text/plain"]);
  const box = element(doc, "pre", {}, uncoloured(words));
  if (interactive) box.prepend("[An interactive plot, which the .ipynb has]\n");
  return box;
}

export async function toHTML(title, cells, markdown) {
  const doc = document.implementation.createHTMLDocument(title);
  doc.documentElement.lang = "en";
  doc.head.prepend(element(doc, "meta", { charset: "utf-8" }), element(doc, "meta", { "http-equiv": "Content-Security-Policy", content: policy }),
    element(doc, "meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  const main = element(doc, "main", {}, element(doc, "h1", {}, title));
  doc.body.append(main);
  for (const cell of cells) {
    const section = doc.createElement("section");
    main.append(section);
    if (cell.kind === "markdown") {
      section.append(...await rendered(doc, cell.source, markdown));
      continue;
    }
    section.append(element(doc, "pre", { class: "code" }, cell.source));
    for (const o of cell.outputs) {
      if (o.type === "stdout" || o.type === "stderr") section.append(element(doc, "pre", { class: o.type === "stderr" ? "err" : "out" }, uncoloured(o.text)));
      else if (o.type === "error") section.append(element(doc, "pre", { class: "err" }, uncoloured(o.traceback?.length ? o.traceback.join("\n") : `${o.name}: ${o.value}`)));
      else section.append(await shown(doc, o.data ?? {}, markdown));
    }
    section.querySelectorAll(".err").forEach(calm);
  }
  // The policy of the page that makes the file holds for its document too, and would complain of a style in it.
  return `<!doctype html>\n${doc.documentElement.outerHTML.replace("</head>", () => `<style>${looks}</style></head>`)}\n`;
}
