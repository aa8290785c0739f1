// A grid of any number of rows and columns: only the cells in sight are in the document. It sorts, filters, searches,
// copies and saves what its source has (rows.js). What is in it becomes text nodes and nothing else.
import { announce, loadScript, named } from "./page.js";
import { isNumber } from "./rows.js";

const ROW = 26; // pixels, as in grid.css
const WAITING = "Waiting for the interpreter. If a cell runs, it answers after that.";
const text = (n) => n.toLocaleString("en");

// The drawing of the table, and the look, are loaded with the first grid.
let loading;
function load() {
  loading ??= Promise.all([loadScript(new URL("./viewer-grid.js", import.meta.url).href), new Promise((done) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("./grid.css", import.meta.url).href });
    link.addEventListener("load", done);
    link.addEventListener("error", done);
    document.head.append(link);
  })]).catch((e) => { loading = null; throw e; });
  return loading;
}

function make(tag, properties = {}, ...children) {
  const { data, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, data ?? {});
  element.append(...children);
  return element;
}

// put sets an attribute if it is another: a frame of a scroll asks for hundreds.
function put(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

let count = 0;

export class Grid {
  // rerun runs anew what made the rows, where that can be; name is that of a file they are saved as.
  constructor(source, { caption = "Table", height = 420, name = "table.csv", left } = {}) {
    this.id = `grid-${++count}`;
    this.caption = caption;
    this.height = height;
    this.name = name;
    this.left = left; // the rows that stay here when the interpreter is gone
    this.active = { field: source.index, row: 0 }; // row -1: the head
    this.anchor = null; // where a selection began
    this.headers = new Map();
    this.element = make("div", { className: "grid", role: "group", ariaLabel: caption });
    this.makeBar();
    this.body = make("div", { className: "grid-body" });
    this.note = make("p", { className: "grid-note", hidden: true });
    this.note.setAttribute("role", "status");
    this.panel = make("div", { className: "grid-panel", popover: "auto" });
    this.panel.setAttribute("role", "dialog");
    this.element.append(this.bar, this.note, this.body, this.panel);
    this.use(source);
    // The table is made, and drawn anew, when there is a width for it.
    load().then(() => new ResizeObserver(() => this.resized()).observe(this.body), (e) => this.say(`The table cannot be shown: ${e.message}`));
  }

  use(source) {
    this.source = source;
    source.changed = () => this.draw();
    source.failed = (e) => this.fail(e);
    source.slow = (is) => { if (is) this.say(WAITING); else if (this.note.textContent === WAITING) this.say(""); };
    this.words();
  }

  makeBar() {
    this.bar = make("div", { className: "grid-bar" });
    this.find = make("input", { type: "search", placeholder: "Search all rows", spellcheck: false, autocomplete: "off" });
    this.find.setAttribute("aria-label", `Search all rows of ${this.caption}`);
    this.find.addEventListener("input", () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.search(), 200); });
    this.find.addEventListener("keydown", (e) => { if (e.key === "Enter") { clearTimeout(this.typing); this.search(); } e.stopPropagation(); });
    this.count = make("small", { className: "grid-count" });
    this.count.setAttribute("role", "status");
    this.chips = make("span", { className: "grid-chips" });
    this.copying = make("button", { className: "quiet", type: "button", textContent: "Copy", title: "Copies the selected cells (Ctrl+C)" });
    this.copying.addEventListener("click", () => this.copy());
    this.saving = make("button", { className: "quiet", type: "button", textContent: "Download CSV" });
    this.saving.addEventListener("click", () => this.save());
    this.bar.append(this.find, this.count, this.chips, make("span", { className: "push" }), this.copying, this.saving);
  }

  // words says how many rows are found, and how many there are.
  words() {
    const { rows, total, columns, all } = this.source;
    const here = all?.length ?? total;
    let words = `${text(total)} ${total === 1 ? "row" : "rows"}`;
    if (rows !== here) words = `${text(rows)} of ${words}`;
    if (columns !== undefined) words += ` × ${text(columns)} ${columns === 1 ? "column" : "columns"}`;
    if (this.source.drawn < columns) words += ` (${text(this.source.drawn)} are shown)`;
    if (here < total) words += `; ${text(here)} of them are here and searched`;
    this.count.textContent = words;
    if (this.source.modified) this.say("The program has changed this data frame since it was displayed.");
    this.find.hidden = total <= 10 && !this.source.view.search;
    this.copying.disabled = this.saving.disabled = rows === 0;
    this.chips.replaceChildren(...this.source.view.filters.map((f, n) => {
      const label = `${this.title(f.column)} ${{ missing: "is missing", present: "is not missing" }[f.op] ?? `${f.op === "!=" ? "≠" : f.op === "<=" ? "≤" : f.op === ">=" ? "≥" : f.op} ${f.value}`}`;
      const chip = make("button", { className: "grid-chip", type: "button", textContent: `${label} ✕`, title: "Remove this filter" });
      chip.setAttribute("aria-label", `Remove the filter ${label}`);
      chip.addEventListener("click", () => this.look({ filters: this.source.view.filters.filter((_, m) => m !== n) }));
      return chip;
    }));
  }

  say(words, ...more) {
    this.note.replaceChildren(make("span", { textContent: words }), ...more);
    this.note.hidden = !words;
  }

  title(i) { return named(this.source.field(i)?.name || (i < this.source.index ? "index" : String(i - this.source.index))); }

  // look changes the view: its order, its filters, its search.
  async look(change) {
    const view = { ...this.source.view, ...change };
    this.element.setAttribute("aria-busy", "true");
    const begun = performance.now();
    try {
      await this.source.look(view);
      this.say("");
      this.words();
      this.active.row = Math.min(this.active.row, this.source.rows - 1);
      this.anchor = null;
      if (this.table) this.table.scrollTop = 0;
      this.fit();
      await this.draw();
      this.element.dataset.took = String(performance.now() - begun);
      return true;
    } catch (e) {
      if (e.name !== "AbortError") await this.fail(e, view);
      return false;
    } finally {
      this.element.removeAttribute("aria-busy");
    }
  }

  search() { if (this.find.value !== this.source.view.search) this.look({ search: this.find.value }); }

  // fail says why there are no more rows. Where the interpreter is gone, those that came with the output stay.
  async fail(e, view = this.source.view) {
    if (!(e.status === 404 || e.status === 409) || !this.left) return this.say(e.words ?? String(e));
    this.use(this.left());
    const again = make("button", { type: "button", textContent: "Run the cell again" });
    again.addEventListener("click", () => this.element.dispatchEvent(new CustomEvent("airlock:run", { bubbles: true })));
    const partial = this.source.partial;
    this.fit();
    if (view) await this.look(view);
    this.say(`${e.hint || e.words} ${partial ? `Here are its first ${text(this.source.all.length)} rows.` : ""} `, ...(this.element.closest(".cell") ? [again] : []));
    return undefined;
  }

  sort(column, descending) {
    this.look({ sort: descending === null ? [] : [{ column, descending }] });
  }

  // turn sorts by a column: up, then down, then not.
  turn(column) {
    const [now] = this.source.view.sort;
    this.sort(column, now?.column !== column ? false : now.descending ? null : true);
  }

  // The table.

  makeTable() {
    const table = this.table = document.createElement("regular-table");
    table.setDataListener((...where) => this.data(...where));
    table.addStyleListener(() => this.dress());
    this.body.append(table);
    table.removeAttribute("tabindex");
    this.inner = table.querySelector("table");
    this.inner.id = this.id;
    this.inner.tabIndex = 0;
    this.inner.setAttribute("role", "grid");
    this.inner.setAttribute("aria-label", this.caption);
    this.inner.setAttribute("aria-multiselectable", "true");
    this.inner.addEventListener("keydown", (e) => this.press(e));
    this.inner.addEventListener("focus", () => this.dress());
    this.inner.addEventListener("blur", () => this.dress());
    this.inner.addEventListener("mousedown", (e) => this.point(e));
    this.inner.addEventListener("dblclick", (e) => { if (!e.target.closest("thead")) this.whole(); });
    this.fit();
  }

  resized() {
    const wide = this.body.clientWidth;
    if (!wide || !this.body.isConnected || wide === this.wide) return;
    this.wide = wide;
    if (!this.table) this.makeTable();
    this.draw();
  }

  // levels is how many names a column has. Of some columns it is not known yet.
  levels() { return this.source.fields.reduce((most, f) => Math.max(most, f.names?.length ?? 1), 1); }
  typed() { return this.source.fields.some((f) => f.dtype); }
  heads() { return this.levels() + (this.typed() ? 1 : 0); }

  // fit gives the table the height that its rows need, up to a height.
  fit() {
    if (!this.table) return;
    const bar = this.table.scrollWidth > this.table.clientWidth ? Math.max(this.table.offsetHeight - this.table.clientHeight, 0) : 0;
    this.table.style.setProperty("--head", `${this.heads() * ROW}px`);
    this.table.style.height = `${Math.min(this.height, (this.source.rows + this.heads()) * ROW + bar + 1)}px`;
  }

  async draw() {
    if (!this.table?.isConnected) return;
    this.words();
    await this.table.draw();
    this.fit();
    this.element.dataset.ready = "true";
  }

  // data gives the cells in sight what stands in them; those that are not here yet come later.
  data(x0, y0, x1, y1) {
    const { source } = this, levels = this.levels(), index = source.index;
    const made = { num_rows: source.rows, num_columns: source.drawn, row_height: ROW, num_row_headers: index, num_column_headers: this.heads(),
      merge_headers: "column", column_header_merge_depth: levels - 1, data: [], column_headers: [], row_headers: [], metadata: [] };
    if (x1 <= x0 && y1 <= y0) return made;
    x1 = Math.min(x1, source.drawn);
    y1 = Math.min(y1, source.rows);
    if (y1 > y0) source.need([x0 + index, Math.max(x1, x0 + 1) + index], [y0, y1]);
    for (let x = x0; x < x1; x++) {
      const values = [], raw = [];
      for (let y = y0; y < y1; y++) {
        const value = source.value(x + index, y);
        raw.push(value);
        values.push(source.text(x + index, value));
      }
      made.data.push(values);
      made.metadata.push(raw);
      made.column_headers.push(this.headings(x + index, levels));
    }
    if (index) for (let y = y0; y < y1; y++) made.row_headers.push(Array.from({ length: index }, (_, i) => source.text(i, source.value(i, y))));
    if (!made.data.length && y1 > y0) made.data = [];
    return made;
  }

  // headings are the texts above a column; those above groups of columns are the same text.
  headings(i, levels) {
    const field = this.source.field(i);
    const typed = this.typed();
    if (!field) return Array(levels + typed).fill("");
    let made = this.headers.get(i);
    if (!made || made.field !== field) {
      const names = field.names ?? [field.name];
      const label = make("span", { className: "grid-name", textContent: named(names.at(-1)), title: named(names.at(-1)) });
      const menu = make("button", { className: "grid-menu", type: "button", tabIndex: -1, textContent: "⋮" });
      menu.setAttribute("aria-label", `Sort, filter, statistics of ${this.title(i)}`);
      made = { field, head: make("span", { className: "grid-head" }, label, menu), type: make("span", { className: "grid-type", textContent: field.dtype ?? field.type ?? "" }), names };
      this.headers.set(i, made);
    }
    return [...Array(levels - made.names.length).fill(""), ...made.names.slice(0, -1).map((n) => named(n) || " "), made.head, ...(typed ? [made.type] : [])];
  }

  fieldOf(cell) {
    const meta = this.table.getMeta(cell);
    if (!meta) return null;
    if (meta.type === "row_header" || meta.type === "corner") return meta.row_header_x ?? meta.virtual_x ?? null;
    return meta.x === undefined ? null : meta.x + this.source.index;
  }

  // dress gives the cells in sight their classes and what readers of the screen need.
  dress() {
    const { source, inner, active } = this, levels = this.heads(), names = this.levels() - 1;
    put(inner, "aria-rowcount", String(source.rows + levels));
    put(inner, "aria-colcount", String(source.index + source.columns));
    const box = this.selected();
    const has = document.activeElement === inner;
    let at = "";
    const [order] = source.view.sort;
    const mark = (cell, field, row) => {
      const on = field === active.field && row === active.row;
      cell.classList.toggle("grid-active", on);
      const inside = row >= 0 && field >= box.columns[0] && field < box.columns[1] && row >= box.rows[0] && row < box.rows[1];
      cell.classList.toggle("grid-selected", inside && this.anchor !== null);
      if (row >= 0) put(cell, "aria-selected", String(inside));
      if (on) { at = `${this.id}-active`; cell.id = at; } else if (cell.id) cell.removeAttribute("id");
    };
    for (const [n, tr] of [...inner.tHead.rows].entries()) {
      put(tr, "aria-rowindex", String(n + 1));
      for (const th of tr.cells) {
        const field = this.fieldOf(th), name = n === names;
        put(th, "scope", "col");
        if (field === null) continue;
        if (field < source.index) { // a corner, which the table leaves empty
          const span = th.firstElementChild;
          const words = name ? named(source.field(field)?.name ?? "") : n > names && source.field(field)?.name ? source.field(field).dtype ?? "" : "";
          if (span && span.textContent !== (words || "index")) span.textContent = words || "index";
          if (span) span.className = !words ? "unseen" : n > names ? "grid-type" : "grid-name";
        }
        put(th, "aria-colindex", String(field + 1));
        th.classList.toggle("number", isNumber(source.field(field)) && n >= names);
        th.classList.toggle("grid-group", n < names);
        th.classList.toggle("grid-filtered", name && source.view.filters.some((f) => f.column === field));
        if (name && order?.column === field) th.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
        if (name) mark(th, field, -1);
      }
    }
    for (const tr of inner.tBodies[0].rows) {
      let row = null;
      for (const cell of tr.cells) {
        const meta = this.table.getMeta(cell), field = this.fieldOf(cell);
        if (!meta || field === null) continue;
        if (row === null) { row = meta.y; put(tr, "aria-rowindex", String(row + 1 + levels)); tr.classList.toggle("odd", row % 2 === 1); }
        const header = field < source.index;
        const value = header ? source.value(field, row) : meta.user;
        cell.classList.toggle("number", isNumber(source.field(field)));
        cell.classList.toggle("missing", value === null);
        cell.classList.toggle("pending", value === undefined);
        if (header) put(cell, "scope", "row");
        put(cell, "aria-colindex", String(field + 1));
        mark(cell, field, row);
      }
    }
    if (at && has) inner.setAttribute("aria-activedescendant", at);
    else inner.removeAttribute("aria-activedescendant");
  }

  // selected is the range of cells between where a selection began and where it is.
  selected() {
    const { active } = this, from = this.anchor ?? active;
    const row = Math.max(0, active.row);
    return {
      columns: [Math.min(from.field, active.field), Math.max(from.field, active.field) + 1],
      rows: [Math.min(Math.max(0, from.row), row), Math.max(Math.max(0, from.row), row) + 1],
    };
  }

  // Keys and the mouse.

  async move(field, row, selecting) {
    if (selecting) this.anchor ??= { ...this.active };
    else this.anchor = null;
    this.active = { field: Math.max(0, Math.min(field, this.source.width - 1)), row: Math.max(-1, Math.min(row, this.source.rows - 1)) };
    await this.show();
  }

  // visible is how many rows fit below the head.
  visible() { return Math.max(1, Math.floor(this.table.clientHeight / ROW - this.heads())); }

  // show scrolls to the active cell.
  async show() {
    const { table, active, source } = this, fit = table.clientHeight / ROW - this.heads();
    const room = table.scrollHeight - table.clientHeight, most = Math.max(source.rows - fit, 0);
    const top = most ? (table.scrollTop / Math.max(room, 1)) * most : 0;
    let to = top;
    if (active.row >= 0 && active.row < top) to = active.row;
    else if (active.row + 1 > top + fit) to = active.row + 1 - fit;
    if (to !== top && most) table.scrollTop = active.row + 1 >= source.rows ? room : (to / most) * room;
    if (active.field >= source.index) {
      const cell = [...this.inner.querySelectorAll("thead th")].find((th) => this.fieldOf(th) === active.field && th.classList.contains("grid-active") || this.fieldOf(th) === active.field);
      const box = table.getBoundingClientRect(), at = cell?.getBoundingClientRect();
      const left = box.left + [...this.inner.rows[0]?.cells ?? []].filter((th) => this.fieldOf(th) < source.index).reduce((w, th) => w + th.offsetWidth, 0);
      if (!at) await table.scrollToCell(Math.max(0, active.field - source.index - (active.field - source.index > 0 ? 1 : 0)), Math.round(top)).then(() => { if (most) table.scrollTop = (to / most) * room; });
      else if (at.right > box.left + table.clientWidth) table.scrollLeft += Math.min(at.right - box.left - table.clientWidth, at.left - left) + 1;
      else if (at.left < left) table.scrollLeft -= left - at.left;
      if (active.field === source.width - 1) table.scrollLeft = table.scrollWidth;
    }
    this.dress();
    await table.draw({ cache: true, invalid_viewport: false });
    this.dress();
  }

  press(e) {
    const { field, row } = this.active, control = e.ctrlKey || e.metaKey, page = this.visible(), last = this.source.rows - 1, end = this.source.width - 1;
    const to = {
      ArrowDown: () => [field, control ? last : row + 1], ArrowUp: () => [field, control ? 0 : row - 1],
      ArrowRight: () => [control ? end : field + 1, row], ArrowLeft: () => [control ? 0 : field - 1, row],
      PageDown: () => [field, row + page], PageUp: () => [field, Math.max(0, row - page)],
      Home: () => [0, control ? 0 : row], End: () => [end, control ? last : row],
    }[e.key];
    if (to && !e.altKey) this.move(...to(), e.shiftKey && row >= 0);
    else if (control && e.key.toLowerCase() === "c" && !getSelection().toString()) this.copy();
    else if (control && e.key.toLowerCase() === "a") { this.anchor = { field: 0, row: 0 }; this.active = { field: end, row: last }; this.dress(); }
    else if (e.key === "Enter" && row < 0 || e.key === "F10" && e.shiftKey || e.key === "ContextMenu") this.open(field);
    else if (e.key === " " && row < 0) this.turn(field);
    else if (e.key === "Enter") this.whole();
    else if (e.key === "Escape" && this.anchor) { this.anchor = null; this.dress(); }
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  point(e) {
    if (e.button !== 0 || e.target.closest(".rt-column-resize")) return;
    const cell = e.target.closest("td, th");
    const field = cell && this.fieldOf(cell);
    if (cell == null || field === null) return;
    if (cell.closest("thead")) {
      if (cell.classList.contains("grid-group")) return;
      this.active = { field, row: -1 };
      this.anchor = null;
      // A finger finds the name, and the panel has the orders.
      if (e.target.closest(".grid-menu") || matchMedia("(pointer: coarse)").matches) { e.preventDefault(); this.open(field, cell); } else this.turn(field);
      return;
    }
    const row = this.table.getMeta(cell).y;
    if (e.shiftKey) { e.preventDefault(); this.anchor ??= { ...this.active }; } else this.anchor = null;
    this.active = { field, row };
    this.dress();
    if (e.pointerType === "touch") return;
    const over = (m) => {
      const other = m.target.closest?.("td, tbody th"), to = other && this.inner.contains(other) && this.fieldOf(other);
      if (!other || to === null || to === false || !(m.buttons & 1)) return;
      const at = this.table.getMeta(other).y;
      if (to === this.active.field && at === this.active.row) return;
      this.anchor ??= { ...this.active };
      this.active = { field: to, row: at };
      getSelection().removeAllRanges();
      this.dress();
    };
    document.addEventListener("mousemove", over);
    document.addEventListener("mouseup", () => document.removeEventListener("mousemove", over), { once: true });
  }

  // What can be done with rows.

  async copy() {
    const { rows, columns } = this.selected();
    try {
      // The clipboard takes a promise, so that the permission of the click lasts until the text is there.
      const words = this.source.copied(rows, columns);
      if (navigator.clipboard && window.ClipboardItem) {
        await navigator.clipboard.write([new ClipboardItem({ "text/plain": words.then((t) => new Blob([t], { type: "text/plain" })) })]);
      } else {
        const area = make("textarea", { value: await words });
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
        this.inner.focus();
      }
      await words;
      this.tell(`${text((rows[1] - rows[0]) * (columns[1] - columns[0]))} ${(rows[1] - rows[0]) * (columns[1] - columns[0]) === 1 ? "cell" : "cells"} copied.`);
    } catch (e) {
      this.fail(e);
    }
  }

  // tell says something for a while.
  tell(words) {
    announce(words);
    this.say(words);
    clearTimeout(this.told);
    this.told = setTimeout(() => { if (this.note.textContent === words) this.say(""); }, 4000);
  }

  async save() {
    this.saving.disabled = true;
    try {
      const parts = await this.source.csv((n) => this.say(`${text(n)} of ${text(this.source.rows)} rows …`));
      const link = make("a", { href: URL.createObjectURL(new Blob(parts, { type: "text/csv" })), download: this.name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      this.tell(`${text(this.source.rows)} rows are in ${this.name}.`);
    } catch (e) {
      this.fail(e);
    }
    this.saving.disabled = false;
  }

  // whole shows all of a value.
  async whole() {
    const { field, row } = this.active;
    if (row < 0) return;
    try {
      const value = await this.source.copied([row, row + 1], [field, field + 1]);
      const plain = /^".*"$/s.test(value) && /[\t\n"]/.test(value.slice(1, -1)) ? value.slice(1, -1).replaceAll('""', '"') : value;
      this.pop(this.title(field), make("pre", { className: "grid-value", tabIndex: 0, textContent: plain }));
    } catch (e) {
      this.fail(e);
    }
  }

  pop(title, ...children) {
    this.panel.setAttribute("aria-label", title);
    const close = make("button", { className: "quiet", type: "button", textContent: "✕" });
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => { this.panel.hidePopover(); this.inner.focus(); });
    this.panel.replaceChildren(make("div", { className: "grid-panel-head" }, make("strong", { textContent: title }), close), ...children);
    if (!this.panel.matches(":popover-open")) this.panel.showPopover();
    const cell = this.inner.querySelector(".grid-active"), at = (cell ?? this.element).getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: high } = this.panel;
    this.panel.style.left = `${Math.max(8, Math.min(at.left, document.body.getBoundingClientRect().right - wide - 8))}px`;
    this.panel.style.top = `${Math.max(8, Math.min(at.bottom + 2, innerHeight - high - 8))}px`;
    close.focus();
  }

  // open shows what can be done with a column, and what is in it.
  async open(field) {
    const { source } = this, kind = source.field(field) ?? {};
    this.dress();
    const [order] = source.view.sort;
    const act = (words, descending) => {
      const on = order?.column === field && order.descending === descending;
      const b = make("button", { type: "button", textContent: words });
      b.setAttribute("aria-pressed", String(on));
      b.addEventListener("click", () => { this.panel.hidePopover(); this.sort(field, on ? null : descending); this.inner.focus(); });
      return b;
    };
    const numeric = isNumber(kind) || kind.type === "datetime" || kind.type === "duration";
    const ops = [...(numeric ? ["=", "!=", "<", "<=", ">", ">="] : kind.type === "boolean" ? ["="] : ["contains", "excludes", "=", "!="]), "missing", "present"];
    const op = make("select", {}, ...ops.map((o) => make("option", { value: o, textContent: { "!=": "≠", "<=": "≤", ">=": "≥", missing: "is missing", present: "is not missing", excludes: "does not contain" }[o] ?? o })));
    op.setAttribute("aria-label", "How values compare");
    const value = make("input", { type: "text", placeholder: kind.type === "datetime" ? "2024-01-31" : "Value", spellcheck: false, autocomplete: "off" });
    value.setAttribute("aria-label", "Value to compare with");
    op.addEventListener("change", () => { value.hidden = op.value === "missing" || op.value === "present"; });
    const filter = async (how, what) => {
      this.panel.hidePopover();
      await this.look({ filters: [...this.source.view.filters.filter((f) => f.column !== field || f.op !== how), { column: field, op: how, value: what }] });
      this.inner.focus();
    };
    const form = make("form", { className: "grid-filter" }, op, value, make("button", { textContent: "Filter" }));
    form.addEventListener("submit", (e) => { e.preventDefault(); filter(op.value, value.value); });
    const found = make("div", { className: "grid-stats", ariaLive: "polite" }, make("p", { className: "note", textContent: "Counting …" }));
    this.pop(this.title(field), make("p", { className: "note", textContent: kind.dtype ?? kind.type ?? "" }),
      make("div", { className: "grid-orders", role: "group", ariaLabel: "Order" }, act("↑ Ascending", false), act("↓ Descending", true)), form, found);
    try {
      const s = await source.statistics(field);
      found.replaceChildren(...this.statistics(field, s, filter));
    } catch (e) {
      found.replaceChildren(make("p", { className: "note", textContent: e.words ?? String(e) }));
    }
    this.panel.style.top = `${Math.max(8, Math.min(parseFloat(this.panel.style.top), innerHeight - this.panel.offsetHeight - 8))}px`;
  }

  statistics(field, s, filter) {
    const number = (v) => (typeof v !== "number" ? String(v) : v !== 0 && Math.abs(v) < 1e-4 ? v.toPrecision(6) : v.toLocaleString("en", { maximumSignificantDigits: Math.abs(v) < 1e6 ? 7 : 15, useGrouping: "min2" }));
    const facts = make("dl", { className: "grid-facts" });
    const share = (n) => (n && s.count ? ` (${n / s.count < 0.001 ? "< 0.1" : (100 * n / s.count).toFixed(n / s.count < 0.1 ? 1 : 0)} %)` : "");
    for (const [name, v] of [["values", text(s.count)], ["missing", text(s.missing) + share(s.missing)], ["distinct", text(s.unique)], ...s.facts.map(([n, v]) => [n, number(v)])]) {
      facts.append(make("dt", { textContent: name }), make("dd", { textContent: v }));
    }
    const made = [facts];
    const most = Math.max(1, ...s.bars.map(([, n]) => n));
    if (s.histogram) {
      const bars = make("div", { className: "grid-bars", role: "img", ariaLabel: "Distribution of the values" });
      for (const [from, n] of s.bars) {
        const bar = make("span", { title: `from ${number(from)}: ${text(n)}` });
        bar.style.height = `${Math.max(n ? 4 : 0, (100 * n) / most)}%`;
        bars.append(bar);
      }
      made.unshift(bars);
    } else if (s.bars.length) {
      const list = make("ul", { className: "grid-top" });
      for (const [v, n] of s.bars) {
        const b = make("button", { className: "quiet", type: "button", title: "Show these rows only" }, make("span", { textContent: named(String(v)) || "“”" }), make("small", { textContent: text(n) }));
        b.addEventListener("click", () => filter("=", String(v)));
        b.style.setProperty("--share", `${(100 * n) / most}%`);
        list.append(make("li", {}, b));
      }
      made.push(list);
    }
    return made;
  }
}
