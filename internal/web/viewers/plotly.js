// Plots of Plotly: traces on axes, pies, images, tables; none that need WebGL or maps.
import Plotly from "plotly.js-cartesian-dist-min";
import { serve } from "./frame.js";

serve(async ({ data, layout, frames }, dark) => {
  const place = document.createElement("div");
  place.style.height = `${Math.min(layout?.height ?? 410, 3000)}px`;
  // A width that the program set holds where there is room for it: what is narrower gets all of the plot.
  Object.assign(place.style, { width: layout?.width > 0 ? `${layout.width}px` : "auto", maxWidth: "100%", overflow: "hidden" });
  document.body.append(place);
  const look = dark && !layout?.paper_bgcolor ? { paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: { color: "#e7e5e0" } } : {};
  const unknown = (data ?? []).find((t) => t?.type && !Plotly.PlotSchema.get().traces[t.type]);
  if (unknown) throw new Error(`there is no viewer for traces of the type ${String(unknown.type).slice(0, 40)}; save a picture of it instead`);
  await Plotly.newPlot(place, { data, layout: { ...look, ...layout, width: undefined, autosize: true }, frames, config: { responsive: true, displaylogo: false, showLink: false, showSendToCloud: false, plotlyServerURL: "" } });
});
