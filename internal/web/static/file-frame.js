// A table that is a file, as a grid: a program in the sandbox reads it, and has its rows.
import { ask, named } from "./page.js";
import { Session } from "./session.js";
import { fromData } from "./table.js";

// openFrame returns the grid of a stored file. Its interpreter ends when nobody looks for a while: the file is then
// read again.
export async function openFrame(address, api, name, height = 420) {
  const open = () => ask(`${address}/frame`, { method: "POST" });
  let made = await open();
  const put = (body) => new Session(api, made.session).call(`/frames/${encodeURIComponent(made.table.frame)}`, body);
  const question = async (body) => {
    try {
      return await put(body);
    } catch (e) {
      if (e.status !== 404 && e.status !== 409) throw e;
      made = await open();
      return put(body);
    }
  };
  return fromData(made.table, { id: made.session, ask: question }, { caption: named(name), height, name: `${name.replace(/\.[^.]*$/, "")}.csv` });
}

// watch makes the buttons below an element open tables in their place, up to a height.
export function watch(root, height) {
  for (const button of root.querySelectorAll("button[data-frame]")) {
    button.hidden = false;
    const place = button.closest(".table-preview");
    const show = async () => {
      button.disabled = true;
      button.textContent = "Reading …";
      try {
        const grid = await openFrame(button.dataset.frame, button.dataset.api, button.dataset.name, height);
        place.replaceChildren(grid.element);
      } catch (e) {
        button.replaceWith(Object.assign(document.createElement("span"), { className: "note", textContent: e.words ?? String(e) }));
      }
    };
    button.addEventListener("click", show);
    if (button.dataset.open) show();
  }
}
