// The data of a chart as a table, for who does not see the chart or wants its numbers.
import { fromData } from "./table.js";

const numbers = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
const mostRows = 100_000;

// values returns an array of one dimension of a trace, or null. Plotly may have written its bytes.
function values(of) {
  if (Array.isArray(of)) return of.some(Array.isArray) ? null : of;
  const type = numbers[of?.dtype];
  if (!type || typeof of.bdata !== "string" || String(of.shape ?? "").includes(",")) return null;
  const bytes = Uint8Array.from(atob(of.bdata), (c) => c.charCodeAt(0));
  return Array.from(new type(bytes.buffer, 0, bytes.length / type.BYTES_PER_ELEMENT));
}

const shown = ["x", "y", "z", "r", "theta", "lat", "lon", "a", "b", "c", "labels", "parents", "names", "values", "locations", "open", "high", "low", "close", "text"];

// ofPlotly returns the rows of all traces of a figure, each as an object.
function ofPlotly({ data, layout }) {
  const titled = (name) => ({ x: layout?.xaxis, y: layout?.yaxis })[name]?.title?.text || name;
  return data.flatMap((trace) => {
    const cells = trace.cells?.values && trace.header?.values; // a table
    const columns = (cells ? trace.header.values.map((name, i) => [String(name), values(trace.cells.values[i])])
      : shown.map((name) => [titled(name), values(trace[name])])).filter(([, list]) => list);
    const length = columns.reduce((n, [, list]) => Math.max(n, list.length), 0);
    return Array.from({ length }, (_, i) => Object.fromEntries([
      ...(data.length > 1 ? [["trace", trace.name ?? String(data.indexOf(trace) + 1)]] : []), ...columns.map(([name, list]) => [name, list[i]])]));
  });
}

// ofVega returns the rows of a specification of Vega or Vega-Lite that has its data in it.
function ofVega(spec) {
  const sets = [spec.data, ...(spec.layer ?? []).map((l) => l.data)].flat().map((d) => d?.values ?? spec.datasets?.[d?.name]);
  return [...new Set(sets)].filter(Array.isArray).flat().map((row) => (row !== null && typeof row === "object" ? row : { data: row }));
}

// table returns the rows of a chart as fromData takes a frame; null: it has none, or none of one dimension.
function table(kind, data) {
  const rows = kind === "plotly" ? ofPlotly(data) : ofVega(data);
  const names = [...new Set(rows.slice(0, mostRows).flatMap(Object.keys))];
  if (!rows.length || !names.length || rows.length > mostRows) return null;
  const fields = names.map((name) => {
    const known = rows.map((r) => r[name]).filter((v) => v !== undefined && v !== null);
    const all = known.every((v) => typeof v === "number");
    return { name, type: !all ? "string" : known.every(Number.isInteger) ? "integer" : "number" };
  });
  const one = (v) => (v === undefined || typeof v === "number" && !Number.isFinite(v) ? null : typeof v === "object" && v !== null ? JSON.stringify(v) : v);
  return { rows: rows.length, columns: names.length, fields, data: rows.map((r) => names.map((name) => one(r[name]))) };
}

// withData adds to a chart what shows its data, if it has them.
export function withData(chart, kind, data) {
  let found = null;
  try { found = table(kind, data); } catch { /* it is not what it says */ }
  if (!found) return chart;
  const details = document.createElement("details");
  details.className = "chart-data";
  details.append(Object.assign(document.createElement("summary"), { textContent: "Data of this chart as a table" }));
  details.addEventListener("toggle", () => details.append(fromData(found, null, { caption: "Data of the chart", name: "chart.csv" }).element), { once: true });
  chart.append(details);
  return chart;
}
