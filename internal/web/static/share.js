// A shared notebook: cells and what they put out, to be read.
import { ask, parts } from "./page.js";
import { fromFile } from "./nbformat.js";
import { latex, Outputs } from "./outputs.js";

const box = document.getElementById("notebook");
const list = document.getElementById("cells");

// Mathematics in text that Markdown has been through.
function set(element) {
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walk.nextNode()) if (walk.currentNode.data.includes("$") && !walk.currentNode.parentElement.closest("code")) nodes.push(walk.currentNode);
  for (const node of nodes) {
    node.replaceWith(...node.data.split(/(\$\$[^$]+\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$(?!\d))/).map((piece, i) => {
      if (i % 2 === 0) return piece;
      const span = document.createElement("span");
      latex(piece.replace(/^\$\$?|\$\$?$/g, ""), span, piece.startsWith("$$"));
      return span;
    }));
  }
}

function show(cell, html) {
  const element = document.createElement("div");
  element.className = `cell ${cell.kind}`;
  element.setAttribute("role", "listitem");
  list.append(element);
  if (cell.kind === "markdown" && html) {
    const text = document.createElement("div");
    text.className = "cell-text";
    text.append(...parts(`<div>${html}</div>`));
    set(text);
    element.append(text);
    return;
  }
  const code = document.createElement("pre");
  code.className = "cell-code";
  code.tabIndex = 0;
  code.setAttribute("role", "region");
  code.setAttribute("aria-label", cell.kind === "code" ? "Code" : "Text");
  code.textContent = cell.source;
  const out = document.createElement("div");
  out.className = "cell-out";
  element.append(code, out);
  new Outputs(out).reset(cell.outputs);
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
