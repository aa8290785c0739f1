// What can be done with cells: by keys while a cell itself is selected, and by the menu of a cell.
import { viewOf } from "./cell.js";

const menu = document.getElementById("cell-menu");
const mac = /Mac|iPhone|iPad/.test(navigator.platform);
const ALT = mac ? "⌥" : "Alt+";

// Keys are those of Jupyter. Two letters are one key twice. A command without title is in no menu; one without
// keys has no shortcut.
const commands = [
  { name: "write", keys: ["Enter"], help: "write in the cell", act: ({ cell }) => cell.view.write() },
  { name: "above-all", title: "Run all above", act: ({ nb, cell }) => nb.runner.run(nb.cells.list.slice(0, nb.cells.at(cell))) },
  { name: "from-here", title: "Run from here on", act: ({ nb, cell }) => nb.runner.run(nb.cells.list.slice(nb.cells.at(cell))) },
  { name: "above", keys: ["a"], title: "Add a cell above", act: ({ nb, cell }) => nb.cells.insert(cell, 0, "code") },
  { name: "below", keys: ["b"], title: "Add a cell below", act: ({ nb, cell }) => nb.cells.insert(cell, 1, "code") },
  { name: "up", keys: ["Alt+ArrowUp"], title: "Move up", act: ({ nb, cell }) => { nb.cells.move(cell, -1); nb.cells.select(cell); } },
  { name: "down", keys: ["Alt+ArrowDown"], title: "Move down", act: ({ nb, cell }) => { nb.cells.move(cell, 1); nb.cells.select(cell); } },
  { name: "text", keys: ["m"], title: "Make it text", when: (cell) => cell.kind === "code", act: ({ cell }) => cell.view.turn("markdown") },
  { name: "code", keys: ["y"], title: "Make it code", when: (cell) => cell.kind !== "code", act: ({ cell }) => cell.view.turn("code") },
  { name: "fold", title: "Fold the code", when: (cell) => cell.kind === "code" && !cell.folded, act: ({ nb, cell }) => { cell.folded = true; cell.view.fold(); nb.changed(); } },
  { name: "unfold", title: "Show the code", when: (cell) => cell.folded, act: ({ nb, cell }) => { cell.folded = false; cell.view.fold(); nb.changed(); } },
  {
    name: "output", keys: ["o"], title: "Fold or show the output", when: (cell) => cell.kind === "code",
    act: ({ nb, cell }) => { cell.hidden = !cell.hidden; cell.view.fold(); nb.changed(); },
  },
  { name: "clear", title: "Clear the output", when: (cell) => cell.kind === "code", act: ({ nb, cell }) => { if (cell !== nb.runner.running) { cell.view.clear(); nb.changed(); } } },
  { name: "delete", keys: ["dd"], title: "Delete", danger: true, act: ({ nb, cell }) => nb.cells.remove(cell) },
  { name: "undo", keys: ["z"], help: "bring back a cell that was deleted", act: ({ nb }) => nb.cells.restore() },
  { name: "next", keys: ["j", "ArrowDown"], help: "select the cell below", act: ({ nb }) => nb.cells.step(1) },
  { name: "previous", keys: ["k", "ArrowUp"], help: "select the cell above", act: ({ nb }) => nb.cells.step(-1) },
  { name: "stop", keys: ["ii"], help: "stop what runs", act: ({ nb }) => nb.runner.interrupt() },
  { name: "keys", keys: ["?"], help: "show these keys", act: ({ commands: c }) => c.openSheet() },
];

// Keys that are not commands of a selected cell.
const others = [
  ["Shift+Enter", "run the cell, and go to the next"],
  ["Ctrl+Enter", "run the cell"],
  ["Esc", "from writing to the cell itself, where the keys below are commands"],
  ["Tab", "take a completion; after a name, ask for one"],
  ["Shift+Tab", "show what is known of the name at the cursor"],
];

const shownKeys = { ArrowDown: "↓", ArrowUp: "↑", "Alt+ArrowUp": `${ALT}↑`, "Alt+ArrowDown": `${ALT}↓` };
const say = (key) => shownKeys[key] ?? (/^([a-z])\1$/.test(key) ? `${key[0]} ${key[0]}` : key);

function kbd(key) {
  return Object.assign(document.createElement("kbd"), { textContent: say(key) });
}

export class Commands {
  constructor(notebook, side) {
    this.notebook = notebook;
    this.side = side;
    this.last = { key: "", at: 0 };
    document.addEventListener("keydown", (e) => this.press(e));
    menu.addEventListener("keydown", (e) => this.walk(e));
  }

  do(name, cell = this.notebook.cells.selected) {
    const one = commands.find((c) => c.name === name);
    if (!cell || this.notebook.readOnly && !["next", "previous", "keys"].includes(name)) return;
    one.act({ nb: this.notebook, cell, commands: this });
  }

  // press takes a key: a command if a cell itself has the focus, and Esc to go there.
  press(e) {
    const view = viewOf(e.target);
    if (!view || e.defaultPrevented || e.isComposing) return;
    if (e.key === "Escape" && e.target.closest(".cell-source, .cell-help, .cell-out, .cell-tools, .cell-head, .cell-between") && !e.target.closest("input")) {
      e.preventDefault();
      this.notebook.cells.select(view.cell);
      return;
    }
    if (e.target !== view.element && !e.target.matches(".cell-text") || e.ctrlKey || e.metaKey || e.shiftKey && e.key !== "?") return;
    const key = `${e.altKey ? "Alt+" : ""}${e.key}`;
    const now = performance.now();
    const twice = this.last.key === key && now - this.last.at < 1000 ? key + key : "";
    const found = commands.find((c) => c.keys?.some((k) => k === key || k === twice) && (!c.when || c.when(view.cell)));
    this.last = found ? { key: "", at: 0 } : { key, at: now };
    if (!found) return;
    e.preventDefault();
    this.do(found.name, view.cell);
  }

  // openMenu opens the menu of a cell at a button.
  openMenu(cell, at) {
    menu.replaceChildren(...commands.filter((c) => c.title && (!c.when || c.when(cell))).map((c) => {
      const item = document.createElement("button");
      item.type = "button";
      item.className = c.danger ? "quiet danger" : "quiet";
      item.setAttribute("role", "menuitem");
      item.tabIndex = -1;
      item.dataset.command = c.name;
      item.append(Object.assign(document.createElement("span"), { textContent: c.title }));
      if (c.keys) item.append(kbd(c.keys[0]));
      item.addEventListener("click", () => {
        menu.hidePopover();
        this.do(c.name, cell);
      });
      return item;
    }));
    this.notebook.cells.mark(cell);
    this.opener = at;
    menu.showPopover();
    const box = at.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8));
    const below = box.bottom + 4;
    menu.style.left = `${left}px`;
    menu.style.top = `${Math.max(8, below + menu.offsetHeight > innerHeight ? box.top - menu.offsetHeight - 4 : below)}px`;
    menu.firstElementChild.focus();
  }

  // walk moves through the menu by keys.
  walk(e) {
    const items = [...menu.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % items.length, ArrowUp: (at + items.length - 1) % items.length, Home: 0, End: items.length - 1 }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      items[to].focus();
    } else if (e.key === "Escape" || e.key === "Tab") {
      e.preventDefault();
      menu.hidePopover();
      this.opener?.focus();
    }
  }

  // openSheet shows all keys.
  openSheet() {
    const table = document.createElement("table");
    table.className = "keys";
    table.ariaLabel = "Keyboard shortcuts";
    const rows = [...others.map(([key, words]) => [[key], words]), ...commands.filter((c) => c.keys).map((c) => [c.keys, c.help ?? c.title.toLowerCase()])];
    for (const [keys, words] of rows) {
      const row = table.insertRow();
      const head = Object.assign(document.createElement("th"), { scope: "row" });
      head.append(...keys.flatMap((key, i) => (i ? [" ", kbd(key)] : [kbd(key)])));
      row.append(head);
      row.insertCell().textContent = words;
    }
    this.side.open("Keyboard shortcuts", table);
  }
}
