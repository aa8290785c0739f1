// Parts of a page that are fetched anew every few seconds, while somebody
// looks.
import { ask, parts } from "./page.js";

for (const box of document.querySelectorAll("[data-live]")) {
  const note = document.createElement("p");
  note.className = "warning";
  note.setAttribute("role", "status");
  note.hidden = true;
  box.before(note);
  setInterval(async () => {
    // Nothing is moved under somebody who is in the middle of it.
    if (document.hidden || box.contains(document.activeElement) && document.activeElement !== document.body) return;
    try {
      box.replaceChildren(...parts(await ask(box.dataset.live, { accept: "application/x-part, text/html" })));
      note.hidden = true;
    } catch (e) {
      note.textContent = e.status
        ? `What you see may be old. ${e.words}`
        : "What you see may be old: the service cannot be reached. This page keeps trying.";
      note.hidden = false;
    }
  }, Number(box.dataset.every) * 1000);
}
