// Looks into files: fetched when they come into sight, two at a time, because
// each table is read by a program in the sandbox.
import { ask, parts } from "./page.js";

const waiting = [];
let under_way = 0;

async function next() {
  if (under_way >= 2 || !waiting.length) return;
  const box = waiting.shift();
  under_way++;
  try {
    box.replaceChildren(...parts(await ask(box.dataset.preview, { accept: "text/html" })));
    // What opens a table whole is loaded when it is wanted.
    if (box.querySelector("[data-frame]")) import("./file-frame.js").then((m) => m.watch(box));
  } catch (e) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = e.words ?? "This could not be shown.";
    box.replaceChildren(note);
  }
  box.removeAttribute("aria-busy");
  under_way--;
  next();
}

const seen = new IntersectionObserver((entries) => {
  for (const e of entries) {
    if (!e.isIntersecting) continue;
    seen.unobserve(e.target);
    waiting.push(e.target);
    next();
  }
}, { rootMargin: "200px" });

// watch looks for files below an element.
export function watch(root) {
  for (const box of root.querySelectorAll("[data-preview]")) {
    box.setAttribute("aria-busy", "true");
    seen.observe(box);
  }
}

watch(document);
