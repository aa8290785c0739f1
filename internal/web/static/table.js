// A table of any length: only the rows in sight are in the document. Columns sort by a
// click, and a field finds rows. What is in it becomes text nodes and nothing else.

const ROW = 28; // pixels

const number = (text) => (text.trim() === "" ? NaN : Number(text.replaceAll(",", "")));

export class Table {
  constructor(columns, rows, { height = 420, caption = "Table" } = {}) {
    this.columns = columns;
    this.rows = rows;
    this.shown = rows;
    // A column is one of numbers if the first that are there are.
    this.numeric = columns.map((_, i) => {
      const some = rows.slice(0, 50).map((r) => r[i]).filter((v) => v !== "" && v !== "NaN");
      return some.length > 0 && some.every((v) => !Number.isNaN(number(v)));
    });
    this.element = document.createElement("div");
    this.element.className = "grid";
    const bar = document.createElement("div");
    bar.className = "grid-bar";
    const find = document.createElement("input");
    find.type = "search";
    find.placeholder = "Find rows";
    find.setAttribute("aria-label", `Find rows in ${caption}`);
    find.addEventListener("input", () => this.filter(find.value));
    this.count = document.createElement("small");
    this.count.setAttribute("role", "status");
    bar.append(find, this.count);
    this.box = document.createElement("div");
    this.box.className = "grid-box";
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "region");
    this.box.setAttribute("aria-label", caption);
    this.box.style.maxHeight = `${height}px`;
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    columns.forEach((name, i) => {
      const th = document.createElement("th");
      th.scope = "col";
      const sort = document.createElement("button");
      sort.className = "quiet";
      sort.textContent = name || "#";
      sort.addEventListener("click", () => this.sort(i, th));
      th.append(sort);
      if (this.numeric[i]) th.className = "number";
      head.append(th);
    });
    this.body = table.createTBody();
    this.above = document.createElement("tbody");
    this.below = document.createElement("tbody");
    for (const part of [this.above, this.below]) part.insertRow().insertCell().colSpan = columns.length;
    this.body.before(this.above);
    table.append(this.below);
    this.box.append(table);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.append(bar, this.box);
    this.height = height;
    this.change();
  }

  filter(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = words.length ? this.rows.filter((r) => { const all = r.join("\t").toLowerCase(); return words.every((w) => all.includes(w)); }) : this.rows;
    if (this.order) this.shown = [...this.shown].sort(this.order);
    this.change();
  }

  sort(column, th) {
    const down = th.getAttribute("aria-sort") === "ascending";
    for (const other of th.parentElement.children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const value = this.numeric[column] ? (r) => number(r[column]) : (r) => r[column];
    this.order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return x < y ? -sign : x > y ? sign : 0;
    };
    this.shown = [...this.shown].sort(this.order);
    this.change();
  }

  change() {
    const n = this.shown.length.toLocaleString("en");
    this.count.textContent = this.shown === this.rows || this.shown.length === this.rows.length ? `${n} rows` : `${n} of ${this.rows.length.toLocaleString("en")} rows`;
    this.from = -1;
    this.draw();
  }

  draw() {
    const from = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 10);
    const to = Math.min(this.shown.length, from + Math.ceil(this.height / ROW) + 30);
    if (from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    const rows = this.shown.slice(from, to).map((values) => {
      const tr = document.createElement("tr");
      this.columns.forEach((_, i) => {
        const td = document.createElement("td");
        td.textContent = values[i] ?? "";
        if (this.numeric[i]) td.className = "number";
        tr.append(td);
      });
      return tr;
    });
    this.body.replaceChildren(...rows);
    this.above.hidden = from === 0;
    this.below.hidden = to >= this.shown.length;
    this.above.rows[0].cells[0].style.height = `${from * ROW}px`;
    this.below.rows[0].cells[0].style.height = `${(this.shown.length - to) * ROW}px`;
  }
}

// fromFrame reads the HTML that pandas makes of a data frame; null: it is none.
export function fromFrame(html) {
  if (!/<table[^>]*class="[^"]*dataframe/.test(html)) return null;
  // Its styles are not taken, and the policy of the page would complain of them.
  const plain = html.replace(/<style[\s\S]*?<\/style>/gi, "").replace(/ style="[^"]*"/gi, "");
  const table = new DOMParser().parseFromString(plain, "text/html").querySelector("table.dataframe");
  if (!table?.tHead || table.tHead.rows.length !== 1 || table.querySelector("[rowspan], [colspan]")) return null;
  const texts = (row) => [...row.cells].map((c) => c.textContent.trim());
  return new Table(texts(table.tHead.rows[0]), [...(table.tBodies[0]?.rows ?? [])].map(texts), { caption: "Data frame" });
}

// fromCSV reads values that a character divides, with quotes as in RFC 4180.
export function fromCSV(text, divider, caption) {
  const rows = [];
  let row = [], at = 0;
  const n = text.length;
  while (at < n) {
    let value;
    if (text[at] === '"') {
      let end = at + 1;
      while ((end = text.indexOf('"', end)) >= 0 && text[end + 1] === '"') end += 2;
      if (end < 0) end = n;
      value = text.slice(at + 1, end).replaceAll('""', '"');
      at = end + 1;
      while (at < n && text[at] !== divider && text[at] !== "\n") at++; // what follows a quote is none of ours
    } else {
      const start = at;
      while (at < n && text[at] !== divider && text[at] !== "\n") at++;
      value = text.slice(start, text[at - 1] === "\r" && (at >= n || text[at] === "\n") ? at - 1 : at);
    }
    row.push(value);
    if (at >= n || text[at] === "\n") { rows.push(row); row = []; }
    at++;
  }
  const head = rows.shift() ?? [];
  return new Table(head, rows, { caption });
}
