// Mathematics in TeX, drawn as MathML by KaTeX, which is fetched when there is some.
import { loadScript } from "./page.js";

const viewer = new URL("viewer-katex.js", import.meta.url).href;

// draw draws a formula in an element; without the viewer its source stays.
export async function draw(text, element, display) {
  try {
    (await loadScript(viewer)).render(text, element, display);
  } catch {
    element.textContent = text;
  }
}

// drawAll draws the formulas that the service has marked below an element.
export function drawAll(root) {
  for (const element of root.querySelectorAll(".math:not([data-drawn])")) {
    element.dataset.drawn = "";
    draw(element.textContent.replace(/^(\$\$?|\\[([])|(\$\$?|\\[)\]])$/g, ""), element, element.classList.contains("display"));
  }
}

// drawText draws what stands between dollars in text that Markdown has been through.
export function drawText(root) {
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walk.nextNode()) if (walk.currentNode.data.includes("$") && !walk.currentNode.parentElement.closest("code")) nodes.push(walk.currentNode);
  for (const node of nodes) {
    node.replaceWith(...node.data.split(/(\$\$[^$]+\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$(?!\d))/).map((piece, i) => {
      if (i % 2 === 0) return piece;
      const span = document.createElement("span");
      draw(piece.replace(/^\$\$?|\$\$?$/g, ""), span, piece.startsWith("$$"));
      return span;
    }));
  }
}
