// A table of any length: only the rows in sight are in the document. Columns sort by a
// click, and a field finds rows. What is in it becomes text nodes and nothing else.

const ROW = 28; // pixels

const number = (text) => (text.trim() === "" ? NaN : Number(text.replaceAll(",", "")));

export class Table {
  // Of a table of which only a part is here, whole has the numbers of its rows and columns.
  constructor(columns, rows, { height = 420, caption = "Table", numeric, whole } = {}) {
    this.columns = columns;
    this.rows = rows;
    this.shown = rows;
    this.whole = whole;
    // A column is one of numbers if it is said, or if the first that are there are.
    this.numeric = numeric ?? columns.map((_, i) => {
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
    this.count.textContent = this.words();
    this.from = -1;
    this.draw();
  }

  // words says how many rows are found, and how many there are.
  words() {
    const text = (n) => n.toLocaleString("en");
    const here = this.rows.length, found = this.shown.length;
    const { rows, columns } = this.whole ?? { rows: here };
    let words = `${text(rows)} rows`;
    if (found !== here) words = `${text(found)} of ${words}`;
    if (columns !== undefined) words += ` × ${text(columns)} columns`;
    if (here < rows) words += `; ${text(here)} of them are here and searched`;
    return words;
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

// fromData shows a data frame as its interpreter describes it.
export function fromData(data) {
  const fields = data.fields.map((f) => ({ name: String(f.name), type: f.type }));
  const numeric = fields.map((f) => f.type === "integer" || f.type === "number");
  const forms = fields.map((f, i) => (f.type === "number" ? decimals(data.data.map((r) => r[i]), data.precision) : String));
  const rows = data.data.map((r) => r.map((value, i) => forms[i](value)));
  return new Table(fields.map((f) => f.name), rows, { caption: "Data frame", numeric, whole: { rows: data.rows, columns: data.columns } });
}

// decimals returns how numbers of one column become texts: with as many decimals as the one that
// needs the most, up to a precision, so that they stand below each other.
function decimals(values, precision) {
  const most = Math.min(Math.max(precision, 0), 20);
  const known = values.filter((v) => typeof v === "number");
  if (known.some((v) => v !== 0 && (Math.abs(v) >= 1e15 || Math.abs(v) < 10 ** -most))) return (v) => (typeof v === "number" ? String(Number(v.toPrecision(most + 1))) : String(v));
  const needed = (v) => (v.toFixed(most).replace(/0+$/, "").split(".")[1] ?? "").length;
  const count = known.reduce((n, v) => Math.max(n, needed(v)), Math.min(1, most));
  return (v) => (typeof v === "number" ? v.toFixed(count) : String(v));
}

// fromFrame reads the HTML that pandas makes of a data frame, as in a notebook that was written
// elsewhere; null: it is none. It has the first and the last rows of a long one.
export function fromFrame(html) {
  if (!/<table[^>]*class="[^"]*dataframe/.test(html)) return null;
  // Its styles are not taken, and the policy of the page would complain of them.
  const plain = html.replace(/<style[\s\S]*?<\/style>/gi, "").replace(/ style="[^"]*"/gi, "");
  const frame = new DOMParser().parseFromString(plain, "text/html");
  const table = frame.querySelector("table.dataframe");
  if (!table?.tHead || table.tHead.rows.length !== 1 || table.querySelector("[rowspan], [colspan]")) return null;
  const texts = (row) => [...row.cells].map((c) => c.textContent.trim());
  const rows = [...(table.tBodies[0]?.rows ?? [])].map(texts).filter((r) => r.length === 0 || r.some((v) => v !== "..."));
  const size = /^([\d,]+) rows × ([\d,]+) columns$/m.exec(frame.body.textContent);
  const whole = size ? { rows: number(size[1]), columns: number(size[2]) } : undefined;
  return new Table(texts(table.tHead.rows[0]), rows, { caption: "Data frame", whole });
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
