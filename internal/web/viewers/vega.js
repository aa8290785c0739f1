// Charts of Vega and Vega-Lite. Expressions are interpreted, not compiled, because the
// frame evaluates no code; data has to be in the chart itself.
import embed from "vega-embed";
import { expressionInterpreter } from "vega-interpreter";
import { serve } from "./frame.js";

const refuse = async () => { throw new Error("it wants data from elsewhere; put the data into the chart"); };

serve(async (spec, dark) => {
  const place = document.createElement("div");
  document.body.append(place);
  await embed(place, spec, {
    ast: true, expr: expressionInterpreter, actions: false, renderer: "svg", theme: dark ? "dark" : undefined,
    config: { background: "transparent" }, loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
  });
});
