// Tables of several origins as grids: data frames of an interpreter, their HTML, text with commas.
import { Grid } from "./grid.js";
import { Here, There } from "./rows.js";

const number = (text) => (text.trim() === "" ? NaN : Number(text.replaceAll(",", "")));

// typed says what the columns of texts are: those of numbers are if the first that are there are.
function typed(columns, rows) {
  return columns.map((name, i) => {
    const some = rows.slice(0, 50).map((r) => r[i]).filter((v) => v !== undefined && v !== "" && v !== "NaN");
    return { name, type: some.length > 0 && some.every((v) => !Number.isNaN(number(v))) ? "number" : "string", dtype: "", plain: true };
  });
}

function ofTexts(columns, rows, { caption, whole, index = 0, name }) {
  const width = Math.max(columns.length, 1) - index;
  for (const row of rows) while (row.length < columns.length) row.push("");
  return new Grid(new Here({ fields: typed(columns, rows), index, rows: whole?.rows ?? rows.length, columns: whole?.columns ?? width }, rows), { caption, name });
}

// fromData shows a data frame as its interpreter describes it. Where that is in a session it is asked for the rows
// that are not in the output.
export function fromData(data, session, more = {}) {
  if (!isFrame(data)) throw new TypeError("this is no data frame"); // a notebook from elsewhere may have anything
  const fields = () => data.fields.map(({ name, names, type, dtype, missing, categories }) => ({
    name: String(name), names: Array.isArray(names) && names.length ? names.map(String) : undefined, type: String(type),
    dtype: String(dtype ?? ""), missing: String(missing ?? ""),
    categories: Array.isArray(categories) ? categories.map(String) : undefined }));
  const described = () => ({ ...data, fields: fields(), index: data.index ?? 0 });
  const here = () => new Here(described(), data.data);
  const options = { caption: "Data frame", name: "data.csv", ...more };
  const whole = here();
  const ask = session?.ask ?? ((body) => session.call(`/frames/${encodeURIComponent(data.frame)}`, body));
  if (!session?.id || !data.frame) return new Grid(whole, options);
  if (!whole.complete) return new Grid(new There(described(), ask), { ...options, left: here });
  // All values are here, if not in their whole length and as the program writes them.
  const there = new There(described(), ask);
  for (const one of ["copied", "csv"]) {
    const mine = whole[one].bind(whole);
    whole[one] = (...args) => { there.view = whole.view; there.rows = whole.rows; return there[one](...args).catch(() => mine(...args)); };
  }
  return new Grid(whole, options);
}

function isFrame({ rows, columns, index, fields, data }) {
  const counted = (n) => Number.isSafeInteger(n) && n >= 0;
  return counted(rows) && counted(columns) && counted(index ?? 0) && Array.isArray(fields) && fields.every((f) => f && typeof f === "object") &&
    (index ?? 0) <= fields.length && Array.isArray(data) && data.length <= rows && data.every((r) => Array.isArray(r) && r.length === fields.length);
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
  const index = table.tBodies[0]?.rows[0]?.querySelectorAll("th").length ?? 0;
  return ofTexts(texts(table.tHead.rows[0]), rows, { caption: "Data frame", whole, index, name: "data.csv" });
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
  return ofTexts(head, rows, { caption, name: caption });
}
