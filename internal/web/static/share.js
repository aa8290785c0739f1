// A shared notebook: cells and what they put out, to be read.
import { ask, parts } from "./page.js";
import { fromFile } from "./nbformat.js";
import { drawText } from "./math.js";
import { addForm, Outputs } from "./outputs.js";

const box = document.getElementById("notebook");
const list = document.getElementById("cells");

const made = (tag, name, text) => {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
};

// A file that a run made: what it is called, a look into it, and the file itself.
addForm("application/vnd.airlock.file+json", (file, output) => {
  const element = made("figure", "shared-file");
  const head = made("figcaption", "file-head");
  head.append(made("strong", "file-name", file.name), made("small", "", file.size));
  element.append(head);
  const content = file.content ?? output.data[file.type];
  if (content === undefined) {
    element.append(made("p", "note", "This file is too large to be shared."));
    return element;
  }
  const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const link = made("a", "button quiet", "Download");
  link.href = URL.createObjectURL(new Blob([bytes], { type: file.type ?? "application/octet-stream" }));
  link.download = file.name;
  link.setAttribute("aria-label", `Download ${file.name}`);
  head.append(link);
  if (file.type) {
    const picture = made("img", "out-image");
    picture.src = link.href;
    picture.alt = file.name;
    element.append(picture);
  } else if (file.columns) {
    element.append(tableOf(file));
    if (file.count > file.rows.length) element.append(made("p", "note", `The first ${file.rows.length} of ${file.count.toLocaleString("en")} rows. Download the file to see all.`));
  } else if (file.text) {
    const text = made("pre", "text", file.text);
    text.tabIndex = 0;
    element.append(text);
    if (file.cut) element.append(made("p", "note", "Only the beginning is shown. Download the file to see all of it."));
  }
  return element;
});

function tableOf({ name, columns, rows }) {
  const box = made("div", "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `Table ${name}`);
  const table = made("table");
  const head = table.createTHead().insertRow();
  for (const c of columns) {
    const th = made("th", "", c || "–");
    th.scope = "col";
    head.append(th);
  }
  const body = table.createTBody();
  for (const r of rows) {
    const row = body.insertRow();
    for (const value of r) row.insertCell().textContent = value;
  }
  box.append(table);
  return box;
}

function show(cell, html) {
  const element = document.createElement("div");
  element.className = `cell ${cell.kind}`;
  element.setAttribute("role", "listitem");
  list.append(element);
  const head = document.createElement("div");
  head.className = "cell-head";
  head.append(Object.assign(document.createElement("span"), { className: "cell-count", textContent: cell.kind === "code" && cell.count ? `[${cell.count}]` : "" }));
  const body = document.createElement("div");
  body.className = "cell-body";
  element.append(head, body);
  if (cell.outputs.some((o) => o.type === "error")) element.dataset.state = "error";
  if (cell.kind === "markdown" && html) {
    const text = document.createElement("div");
    text.className = "cell-text";
    text.append(...parts(`<div>${html}</div>`));
    drawText(text);
    body.append(text);
    return;
  }
  const code = document.createElement("pre");
  code.className = "cell-code";
  code.tabIndex = 0;
  code.setAttribute("role", "region");
  code.setAttribute("aria-label", cell.kind === "code" ? "Code" : "Text");
  if (cell.kind === "code" && html) code.append(...parts(`<code>${html}</code>`));
  else code.textContent = cell.source;
  const out = document.createElement("div");
  out.className = "cell-out";
  body.append(code, out);
  const outputs = new Outputs(out);
  outputs.reset(cell.outputs);
  outputs.ended();
}

try {
  const file = await ask(`${box.dataset.link}/notebook`);
  const { cells } = fromFile(JSON.stringify(file));
  cells.forEach((cell, i) => show(cell, file.cells[i].airlock_html));
  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", () => {
    for (const c of file.cells) delete c.airlock_html;
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/x-ipynb+json" }));
    a.download = `${document.querySelector("h1").textContent}.ipynb`;
    a.click();
  });
} catch (e) {
  const notice = document.getElementById("notice");
  notice.textContent = e.words ?? e.message;
  notice.hidden = false;
}
box.dataset.ready = "true";
