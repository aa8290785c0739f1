// Text as Markdown: the service renders it, and mathematics is set in it.
import { parts } from "./page.js";
import { latex } from "./outputs.js";

const formula = /\$\$([\s\S]+?)\$\$|(?<![\\$\w])\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\d)/g;

// show shows text in an element; render makes HTML of Markdown. Text that is too long for that stays as it is.
export async function show(text, element, render) {
  // Mathematics is taken out before, so that Markdown does not see its underscores.
  const maths = [];
  const source = text.replace(formula, (_, wide, inline) => `\uE000${maths.push({ text: wide ?? inline, wide: wide !== undefined }) - 1}\uE001`);
  try {
    element.replaceChildren(...parts(`<div>${await render(source)}</div>`));
  } catch {
    element.textContent = text;
    return;
  }
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walk.nextNode()) if (walk.currentNode.data.includes("\uE000")) nodes.push(walk.currentNode);
  for (const node of nodes) {
    node.replaceWith(...node.data.split(/(\uE000\d+\uE001)/).map((piece) => {
      const found = /^\uE000(\d+)\uE001$/.exec(piece);
      if (!found) return piece;
      const { text: inner, wide } = maths[Number(found[1])] ?? { text: "", wide: false };
      const span = document.createElement("span");
      latex(inner, span, wide);
      return span;
    }));
  }
}
