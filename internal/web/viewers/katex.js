// Mathematics as MathML, which browsers set with fonts of their own.
import katex from "katex";

export function render(text, element, displayMode) {
  const html = katex.renderToString(text, { displayMode, output: "mathml", throwOnError: false, trust: false, strict: "ignore", maxSize: 20, maxExpand: 200 });
  // The policy of the page takes no styles in attributes.
  element.replaceChildren(...new DOMParser().parseFromString(html.replace(/ style="[^"]*"/g, ""), "text/html").body.childNodes);
}
