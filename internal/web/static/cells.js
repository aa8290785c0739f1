// The list of cells: which there are, in which order, and which one is selected.
import { announce } from "./page.js";
import { blank } from "./nbformat.js";
import { View, viewOf } from "./cell.js";

const CELL = "application/x-airlock-cell"; // of what is dragged
const mostRemoved = 50;

export class Cells {
  constructor(notebook, element) {
    this.notebook = notebook;
    this.element = element;
    this.list = []; // {id, kind, source, outputs, count, folded, hidden, metadata, view}
    this.selected = null;
    this.removed = []; // {cell, at}, the last one last
    this.undo = document.getElementById("undo");
    this.undo.querySelector("button").addEventListener("click", () => this.restore());
    element.addEventListener("focusin", (e) => this.mark(viewOf(e.target)?.cell));
    element.addEventListener("pointerdown", (e) => {
      const view = viewOf(e.target);
      if (view && (e.target === view.element || e.target.closest(".cell-head") && !e.target.closest("button"))) {
        e.preventDefault();
        this.select(view.cell);
      }
    });
    this.dropping();
  }

  at(cell) { return this.list.indexOf(cell); }

  add(cell, at = this.list.length) {
    cell.view = new View(this.notebook, cell);
    this.list.splice(at, 0, cell);
    this.element.insertBefore(cell.view.element, this.element.children[at] ?? null);
    this.notebook.outline.soon();
    return cell;
  }

  // insert adds a cell above (0) or below (1) another one, and goes into it.
  insert(cell, below, kind) {
    if (this.notebook.readOnly) return;
    const made = this.add(blank(kind), this.at(cell) + below);
    this.notebook.changed();
    made.view.make();
    made.view.write();
  }

  fill(all) {
    this.list.length = 0;
    this.removed.length = 0;
    this.selected = null;
    const place = document.createDocumentFragment();
    for (const cell of all.length ? all : [blank()]) {
      cell.view = new View(this.notebook, cell);
      this.list.push(cell);
      place.append(cell.view.element);
    }
    this.element.replaceChildren(place);
    this.notebook.outline.soon();
  }

  remove(cell) {
    const { notebook } = this;
    if (notebook.readOnly) return;
    if (cell === notebook.runner.running) {
      notebook.say("This cell runs: stop it, then delete it.", "warning");
      return;
    }
    const at = this.at(cell);
    notebook.runner.forget(cell);
    this.list.splice(at, 1);
    cell.outputs = cell.view.outputs?.list ?? cell.outputs;
    this.removed.push({ cell, at });
    if (this.removed.length > mostRemoved) this.removed.shift();
    cell.view.element.remove();
    if (!this.list.length) this.add(blank());
    this.select(this.list[Math.min(at, this.list.length - 1)]);
    this.undo.querySelector("span").textContent = `Cell ${at + 1} was deleted.`;
    this.undo.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { if (!this.undo.contains(document.activeElement)) this.undo.hidden = true; }, 12_000);
    notebook.outline.soon();
    notebook.changed();
  }

  // restore brings the cell back that was deleted last.
  restore() {
    if (this.notebook.readOnly || !this.removed.length) return;
    const { cell, at } = this.removed.pop();
    if (this.list.length === 1 && this.list[0].kind === "code" && !this.list[0].source && !this.list[0].outputs.length) {
      this.list.pop().view.element.remove(); // the one that took the place of the last
    }
    this.add(cell, Math.min(at, this.list.length)).view.appear();
    this.undo.hidden = !this.removed.length;
    if (this.removed.length) this.undo.querySelector("span").textContent = `Cell ${this.removed.at(-1).at + 1} was deleted.`;
    this.select(cell);
    announce("The cell is back.");
    this.notebook.changed();
  }

  move(cell, by) { this.place(cell, this.at(cell) + by); }

  // place moves a cell to another number.
  place(cell, to) {
    const at = this.at(cell);
    if (this.notebook.readOnly || to < 0 || to >= this.list.length || to === at) return;
    this.list.splice(at, 1);
    this.list.splice(to, 0, cell);
    this.element.insertBefore(cell.view.element, this.element.children[to > at ? to + 1 : to] ?? null);
    cell.view.element.scrollIntoView({ block: "nearest" });
    announce(`The cell is now number ${to + 1} of ${this.list.length}.`);
    this.notebook.outline.soon();
    this.notebook.changed();
  }

  // mark makes a cell the selected one, whatever has the focus.
  mark(cell) {
    if (!cell || cell === this.selected && cell.view.element.matches(".selected")) return;
    if (this.selected) {
      this.selected.view.element.classList.remove("selected");
      this.selected.view.element.tabIndex = -1;
    }
    this.selected = cell;
    cell.view.element.classList.add("selected");
    cell.view.element.tabIndex = 0;
  }

  // select goes to a cell itself: keys are commands there.
  select(cell) {
    if (!cell) return;
    cell.view.make();
    cell.view.element.focus({ preventScroll: true });
    cell.view.element.scrollIntoView({ block: "nearest" });
    this.mark(cell);
  }

  // step selects the cell above (-1) or below (1).
  step(by) { this.select(this.list[this.at(this.selected) + by]); }

  // draggable makes a handle of a cell, by which it is dragged.
  draggable(handle, cell) {
    handle.draggable = true;
    handle.addEventListener("dragstart", (e) => {
      if (this.notebook.readOnly) { e.preventDefault(); return; }
      this.dragged = cell;
      e.dataTransfer.setData(CELL, cell.id);
      e.dataTransfer.effectAllowed = "move";
      e.dataTransfer.setDragImage(cell.view.element, 8, 8);
      cell.view.element.classList.add("dragged");
    });
    handle.addEventListener("dragend", () => this.dropped());
  }

  dropped() {
    this.dragged?.view.element.classList.remove("dragged");
    this.dragged = null;
    this.line?.remove();
  }

  // dropping shows where a dragged cell would be put, and puts it there.
  dropping() {
    this.line = document.createElement("div");
    this.line.className = "drop-line";
    this.line.setAttribute("role", "presentation");
    const before = (y) => this.list.findIndex((c) => { const { top, height } = c.view.element.getBoundingClientRect(); return y < top + height / 2; });
    this.element.addEventListener("dragover", (e) => {
      if (!this.dragged) return;
      e.preventDefault();
      const to = before(e.clientY);
      const top = to < 0 ? this.element.scrollHeight : this.list[to].view.element.offsetTop - 8;
      this.line.style.top = `${top}px`;
      if (!this.line.isConnected) this.element.after(this.line);
    });
    this.element.addEventListener("drop", (e) => {
      if (!this.dragged) return;
      e.preventDefault();
      const cell = this.dragged, at = this.at(cell), to = before(e.clientY);
      this.dropped();
      this.place(cell, to < 0 ? this.list.length - 1 : to > at ? to - 1 : to);
      this.select(cell);
    });
  }
}
