// The libraries that draw charts. A host's content security policy forbids eval, so
// Vega's expressions are interpreted; and nothing is loaded from addresses.
import Plotly from "plotly.js-cartesian-dist-min";
import { expressionInterpreter } from "vega-interpreter";
import { compile } from "vega-lite";
import { parse, View } from "vega";

const loader = { load: () => Promise.reject(new Error("data from addresses is not loaded")), sanitize: () => Promise.reject(new Error("addresses are not opened")) };

globalThis.airlockCharts = {
  async vega(spec, where) {
    const lite = /vega-lite/.test(spec.$schema ?? "") || !spec.marks;
    const whole = lite ? compile({ width: "container", ...spec }).spec : spec;
    const view = new View(parse(whole, null, { ast: true }), { container: where, renderer: "svg", hover: true, loader, expr: expressionInterpreter });
    await view.runAsync();
  },
  async plotly(figure, where) {
    await Plotly.newPlot(where, figure.data, figure.layout ?? {}, { displaylogo: false, responsive: true, showSendToCloud: false });
  },
};
