// What a grid shows: rows that are all here, or windows of those that an interpreter has. A field is a level of
// the index or a column, those of the index first. A value is a number, a text, true, false, or null: it is missing.

const GROUPED = new Intl.NumberFormat("en", { useGrouping: "min2", maximumFractionDigits: 0 });
const SPECIAL = { inf: Infinity, "-inf": -Infinity, nan: NaN };

export const isNumber = (field) => field?.type === "integer" || field?.type === "number";
const quantity = (v) => (typeof v !== "string" ? v : SPECIAL[v] ?? (/^[+-]?\d{16,}$/.test(v) ? BigInt(v) : v.trim() === "" ? NaN : Number(v.replaceAll(",", ""))));

// grouped puts separators between the digits of a number that is a text.
function grouped(text) {
  const parts = /^(-?)(\d{5,})(.*)$/.exec(text);
  return parts ? parts[1] + parts[2].replace(/\B(?=(\d{3})+$)/g, ",") + parts[3] : text;
}

// decimals returns how many decimals the numbers of a column need, up to a precision, so that they stand below
// each other; null: some are too large or too small for that.
function decimals(values, precision) {
  const most = Math.min(Math.max(precision, 0), 20);
  const known = values.filter((v) => typeof v === "number");
  if (known.some((v) => v !== 0 && (Math.abs(v) >= 1e15 || Math.abs(v) < 10 ** -most))) return null;
  const needed = (v) => (v.toFixed(most).replace(/0+$/, "").split(".")[1] ?? "").length;
  return known.reduce((n, v) => Math.max(n, needed(v)), Math.min(1, most));
}

const MOST_COLUMNS = 50_000; // that are drawn: their widths are added up

class Source {
  constructor({ fields, index = 0, rows, columns, precision = 6 }) {
    this.fields = fields;
    this.index = index;
    this.total = this.rows = rows;
    this.columns = columns;
    this.drawn = Math.min(columns, MOST_COLUMNS);
    this.precision = precision;
    this.view = { sort: [], filters: [], search: "" };
    this.forms = new Map(); // decimals of a field
  }

  get width() { return this.index + this.drawn; }
  field(i) { return this.fields[i]; }

  // learn takes values of a column into account for its form.
  learn(i, values) {
    if (this.fields[i]?.type !== "number") return;
    const before = this.forms.get(i), now = decimals(values, this.precision);
    this.forms.set(i, before === null || now === null ? null : Math.max(before ?? 0, now));
  }

  // text is a value as it is shown.
  text(i, value) {
    const field = this.fields[i];
    if (value === null) return field?.missing ?? "";
    if (value === undefined) return "";
    if (typeof value === "boolean") return value ? "True" : "False";
    if (typeof value === "string") return isNumber(field) && !field.plain ? grouped(value) : value;
    if (typeof value !== "number") return JSON.stringify(value);
    if (field?.type === "integer") return GROUPED.format(value);
    const count = this.forms.get(i);
    if (count === null) return String(Number(value.toPrecision(Math.min(this.precision, 20) + 1)));
    return grouped(value.toFixed(count ?? 1));
  }
}

// Here has rows that are in the page: all of them, or those of a frame that are left.
export class Here extends Source {
  constructor(data, all) {
    super(data);
    this.all = all;
    this.shown = all;
    this.rows = all.length;
    this.fields.forEach((_, i) => this.learn(i, all.slice(0, 10_000).map((r) => r[i])));
  }

  get partial() { return this.all.length < this.total; }
  get complete() { return !this.partial && this.fields.length === this.width; }
  value(i, row) { return this.shown[row]?.[i]; }
  need() {}

  async look(view) {
    this.view = view;
    let found = this.all;
    for (const f of view.filters) found = found.filter(this.test(f));
    const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      found = found.filter((row) => {
        const text = row.map((v, i) => (v === null ? "" : `${v === true ? "True" : v === false ? "False" : v}\n${this.fields[i].type === "number" ? this.text(i, v) : ""}`)).join("\n").toLowerCase();
        return words.every((w) => text.includes(w));
      });
    }
    if (view.sort.length) found = [...found].sort(this.order(view.sort));
    this.shown = found;
    this.rows = found.length;
  }

  order(sort) {
    const by = sort.map(({ column, descending }) => {
      const { categories } = this.fields[column], at = new Map(categories?.map((name, i) => [name, i]));
      const key = isNumber(this.fields[column]) ? (r) => quantity(r[column]) : categories ? (r) => at.get(r[column]) : (r) => r[column];
      const missing = (v) => v === null || v === undefined || Number.isNaN(v);
      return (a, b) => {
        const x = key(a), y = key(b);
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        return x < y ? (descending ? 1 : -1) : x > y ? (descending ? -1 : 1) : 0;
      };
    });
    return (a, b) => { for (const one of by) { const found = one(a, b); if (found) return found; } return 0; };
  }

  test({ column, op, value }) {
    const field = this.fields[column];
    const text = value.trim().toLowerCase();
    if (op === "missing") return (r) => r[column] === null;
    if (op === "present") return (r) => r[column] !== null;
    if (op === "contains") return (r) => r[column] !== null && String(r[column]).toLowerCase().includes(text);
    if (op === "excludes") return (r) => r[column] !== null && !String(r[column]).toLowerCase().includes(text);
    const numeric = isNumber(field), wanted = numeric ? quantity(value) : field.type === "boolean" ? text : value;
    if (Number.isNaN(wanted)) throw Object.assign(new Error(), { words: `"${value}" is not a number.` });
    const day = field.type === "datetime" && value.trim().length <= 10 && (op === "=" || op === "!=");
    const key = numeric ? quantity : field.type === "boolean" ? (v) => String(v) : (v) => (day ? String(v).slice(0, 10) : v);
    const compare = { "=": (x) => x == wanted, "!=": (x) => x != wanted, "<": (x) => x < wanted, "<=": (x) => x <= wanted, ">": (x) => x > wanted, ">=": (x) => x >= wanted }[op]; // a BigInt is compared, too
    return (r) => r[column] !== null && compare(key(r[column]));
  }

  async statistics(i) {
    const values = this.shown.map((r) => r[i]), present = values.filter((v) => v !== null && v !== undefined);
    const made = { count: values.length, missing: values.length - present.length, unique: new Set(present).size, facts: [], bars: [] };
    const numbers = isNumber(this.fields[i]) ? present.map((v) => Number(quantity(v))).filter((v) => !Number.isNaN(v)).sort((a, b) => a - b) : [];
    if (numbers.length) {
      const at = (q) => { const p = q * (numbers.length - 1), low = Math.floor(p); return numbers[low] + (p - low) * ((numbers[low + 1] ?? numbers[low]) - numbers[low]); };
      const sum = numbers.reduce((a, b) => a + b, 0), mean = sum / numbers.length;
      made.facts = [["minimum", numbers[0]], ["25 %", at(0.25)], ["median", at(0.5)], ["75 %", at(0.75)], ["maximum", numbers.at(-1)], ["mean", mean]];
      if (numbers.length > 1) made.facts.push(["standard deviation", Math.sqrt(numbers.reduce((a, v) => a + (v - mean) ** 2, 0) / (numbers.length - 1))]);
      made.facts.push(["sum", sum]);
      const finite = numbers.filter(Number.isFinite), low = finite[0], step = (finite.at(-1) - low) / 20;
      if (step > 0) {
        made.histogram = true;
        made.bars = Array.from({ length: 20 }, (_, n) => [low + n * step, 0]);
        for (const v of finite) made.bars[Math.min(19, Math.floor((v - low) / step))][1]++;
      }
    } else {
      const counts = new Map();
      for (const v of present) counts.set(v, (counts.get(v) ?? 0) + 1);
      made.bars = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10).map(([v, n]) => [this.text(i, v), n]);
    }
    return made;
  }

  async copied(rows, columns) {
    const plain = (v) => { const text = v === null || v === undefined ? "" : v === true ? "True" : v === false ? "False" : String(v); return /[\t\n"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
    return this.shown.slice(...rows).map((r) => r.slice(...columns).map(plain).join("\t")).join("\n");
  }

  async csv() {
    const quote = (v) => { const text = v === null || v === undefined ? "" : v === true ? "True" : v === false ? "False" : String(v); return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
    const from = this.index === 1 && this.fields[0].name === "" && this.all.every((r, i) => r[0] === i) ? 1 : 0; // a plain index
    return [[this.fields.slice(from).map((f) => quote(f.name)).join(","), ...this.shown.map((r) => r.slice(from).map(quote).join(","))].join("\n"), "\n"];
  }
}

const ROWS = 200, COLUMNS = 40; // of a block
const MOST_BLOCKS = 400;

// There has rows that an interpreter has: it is asked for those in sight. ask puts a question to it, changed is
// called when there is more to show.
export class There extends Source {
  constructor(data, ask) {
    super(data);
    this.ask = ask;
    this.changed = () => {};
    this.failed = () => {};
    this.slow = () => {};
    this.blocks = new Map(); // of the view: by row and column of blocks, the values by field
    this.whole = true; // the view is the frame as it is
    const first = data.data ?? [];
    if (first.length) {
      this.first = first;
      data.fields.forEach((_, i) => this.learn(i, first.map((r) => r[i])));
    }
  }

  value(i, row) {
    if (this.whole && this.first && row < this.first.length && i < this.first[0].length) return this.first[row][i];
    return this.blocks.get(this.key(i, row))?.[i]?.[row % ROWS];
  }

  key(i, row) { return `${Math.floor(row / ROWS)}:${i < this.index ? "index" : Math.floor((i - this.index) / COLUMNS)}`; }

  // need says which rows and columns are in sight. What is not here is asked for, one window after the other; of
  // what came into sight meanwhile only the last counts.
  need(columns, rows) {
    this.wanted = { columns, rows };
    if (!this.asking) this.fetch();
  }

  missing() {
    const { columns: [x0, x1], rows: [y0, y1] } = this.wanted;
    const fields = [...(this.index ? [0] : [])];
    for (let i = x0; i < x1; i = this.index + (Math.floor((i - this.index) / COLUMNS) + 1) * COLUMNS) fields.push(i);
    const here = (i, row) => this.value(i, row) !== undefined && this.field(i) || this.blocks.has(this.key(i, row));
    for (const i of fields) {
      for (let row = Math.floor(y0 / ROWS) * ROWS; row < y1; row += ROWS) {
        const last = Math.min(row + ROWS, this.rows) - 1;
        if (here(i, Math.max(row, y0)) && here(i, Math.min(last, Math.max(y1 - 1, y0)))) continue;
        const first = i < this.index ? 0 : this.index + Math.floor((i - this.index) / COLUMNS) * COLUMNS;
        return { row, first, count: i < this.index ? this.index : Math.min(COLUMNS, this.width - first) };
      }
    }
    return null;
  }

  async fetch() {
    const view = this.view;
    this.asking = true;
    try {
      for (let next = this.missing(); next && view === this.view; next = this.missing()) {
        const answer = await this.window(next);
        if (view !== this.view) return;
        this.take(answer, next);
        this.changed();
      }
    } catch (e) {
      if (e.name !== "AbortError") this.failed(e);
    } finally {
      this.asking = false;
      if (view !== this.view && this.wanted) this.fetch();
    }
  }

  take(answer, { row, first }) {
    const block = {};
    answer.data.forEach((values, n) => {
      const i = first + n;
      block[i] = values;
      this.fields[i] ??= answer.fields[n];
      this.learn(i, values);
    });
    this.blocks.set(this.key(first, row), block);
    if (this.blocks.size > MOST_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    this.rows = answer.rows;
    this.total = answer.total;
    this.modified = answer.changed;
  }

  // window asks for one block. Of very long values there are fewer rows in an answer.
  async window({ row, first, count }) {
    const made = await this.question({ offset: row, limit: ROWS, column: first, columns: count });
    const here = () => made.data[0]?.length ?? 0;
    while (here() > 0 && here() < ROWS && row + here() < made.rows) {
      const more = await this.question({ offset: row + here(), limit: ROWS - here(), column: first, columns: count });
      if (!more.data[0]?.length) break;
      made.data.forEach((values, i) => values.push(...more.data[i]));
    }
    return made;
  }

  // question puts one to the interpreter, and tells slow when the answer takes long, as while a cell runs.
  async question(body) {
    const { sort, filters, search } = this.view;
    const waiting = setTimeout(() => this.slow(true), 600);
    try {
      return await this.ask({ ...body, sort, filters, search });
    } finally {
      clearTimeout(waiting);
      this.slow(false);
    }
  }

  async look(view) {
    const before = this.view;
    this.view = view;
    try {
      const answer = await this.window({ row: 0, first: 0, count: Math.min(this.index + COLUMNS, this.width) || 1 });
      if (this.view !== view) return;
      this.blocks.clear();
      this.whole = !view.sort.length && !view.filters.length && !view.search.trim();
      const index = { ...answer, data: answer.data.slice(0, this.index), fields: answer.fields.slice(0, this.index) };
      if (this.index) this.take(index, { row: 0, first: 0 });
      this.take({ ...answer, data: answer.data.slice(this.index), fields: answer.fields.slice(this.index) }, { row: 0, first: this.index });
    } catch (e) {
      if (this.view === view) this.view = before;
      throw e;
    }
  }

  async statistics(i) { return (await this.question({ want: "statistics", column: i, columns: 1 })).statistics; }

  async copied([y0, y1], [x0, x1]) {
    return (await this.question({ want: "text", offset: y0, limit: y1 - y0, column: x0, columns: x1 - x0 })).text;
  }

  // csv returns the rows of the view as parts of a text. told hears how many there are so far.
  async csv(told = () => {}) {
    const parts = [];
    for (let next = 0; next === 0 || next < this.rows;) {
      const answer = await this.question({ want: "csv", offset: next, limit: 20_000 });
      parts.push(answer.text);
      if (!(answer.next > next)) break;
      told(next = answer.next);
    }
    return parts;
  }
}
