// The table of contents: the headings of the text cells.

const place = document.getElementById("contents");
const list = document.getElementById("contents-list");

// headings returns the headings of a text, but for what is in blocks of code.
function headings(text) {
  const found = [];
  let fence = "";
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && (!fence || mark.startsWith(fence))) fence = fence ? "" : mark;
    const heading = !fence && /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (heading && heading[2]) found.push({ level: heading[1].length, title: heading[2].replace(/[*_`]|\[([^\]]*)\]\([^)]*\)/g, "$1") });
  }
  return found;
}

export class Outline {
  constructor(notebook) {
    this.notebook = notebook;
  }

  // soon looks at the headings again, once for all changes of a moment.
  soon() {
    this.timer ||= setTimeout(() => { this.timer = 0; this.look(); }, 200);
  }

  look() {
    const all = this.notebook.cells.list.filter((c) => c.kind === "markdown")
      .flatMap((cell) => headings(cell.source).map((heading, nth) => ({ ...heading, cell, nth }))).slice(0, 500);
    this.level();
    const key = JSON.stringify(all.map(({ level, title, cell, nth }) => [level, title, cell.id, nth]));
    if (key === this.key) return;
    this.key = key;
    const least = Math.min(...all.map((h) => h.level));
    place.hidden = !all.length;
    list.replaceChildren(...all.map(({ level, title, cell, nth }) => {
      const item = document.createElement("li");
      item.style.setProperty("--depth", level - least);
      const go = Object.assign(document.createElement("button"), { type: "button", className: "link", textContent: title });
      go.addEventListener("click", () => this.show(cell, nth));
      item.append(go);
      return item;
    }));
  }

  // level has no heading leave out a level, for those who hear the page: texts are written apart.
  level() {
    let last = 2;
    for (const heading of this.notebook.cells.element.querySelectorAll(".cell-text :is(h3, h4, h5, h6)")) {
      const level = Number(heading.tagName[1]);
      last = Math.min(level, last + 1);
      if (last !== level) heading.ariaLevel = String(last);
      else heading.removeAttribute("aria-level");
    }
  }

  async show(cell, nth) {
    const { cells } = this.notebook;
    cells.select(cell);
    await cell.view.appear();
    (cell.view.shown.querySelectorAll("h1, h2, h3, h4, h5, h6")[nth] ?? cell.view.element).scrollIntoView({ block: "start" });
  }
}
