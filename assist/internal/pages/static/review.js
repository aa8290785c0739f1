// Review with comfort: keys, marks that know of each other, a count of what is
// marked, copying. Without it every page here works by links and forms alone.

import { announce, ask, parts, writing } from "./page.js";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Marks: a file's box stands for its places, and the other way round.
const decide = document.getElementById("decide");
const partsOf = (file) => all(`.part[data-file="${CSS.escape(file)}"]`);

function settleFile(whole) {
  const places = partsOf(whole.value);
  if (!places.length) return;
  const marked = places.filter((p) => p.checked).length;
  whole.checked = marked > 0;
  whole.indeterminate = marked > 0 && marked < places.length;
}

function shade() {
  for (const whole of all(".whole")) {
    whole.closest(".change").classList.toggle("off", !whole.checked);
  }
  for (const part of all(".part")) part.closest(".hunk").classList.toggle("off", !part.checked);
  for (const post of all("input[name=post]")) post.closest(".card").classList.toggle("off", !post.checked);
  const marked = (selector) => all(selector).filter((box) => box.checked).length; // :checked leaves out what is half marked
  const files = marked(".whole"), reports = marked("input[name=post]");
  const words = [];
  if (all(".whole").length) words.push(`${files} of ${all(".whole").length} ${all(".whole").length === 1 ? "file" : "files"}`);
  if (all("input[name=post]").length) words.push(`${reports} of ${all("input[name=post]").length} ${all("input[name=post]").length === 1 ? "report" : "reports"}`);
  const note = document.getElementById("marked");
  if (note && words.length) note.textContent = `${words.join(" and ")} marked${all(".part").length ? `; ${marked(".part")} of ${all(".part").length} places` : ""}.`;
  const button = decide?.querySelector("button");
  if (button) button.disabled = files + reports === 0 && words.length > 0;
}

if (decide) {
  document.addEventListener("change", (e) => {
    if (e.target.matches(".whole")) {
      for (const part of partsOf(e.target.value)) part.checked = e.target.checked;
      e.target.indeterminate = false;
    } else if (e.target.matches(".part")) {
      const whole = all(".whole").find((w) => w.value === e.target.dataset.file);
      if (whole) settleFile(whole);
    } else if (!e.target.matches("input[name=post]")) {
      return;
    }
    shade();
  });
  all(".whole").forEach(settleFile); // browsers keep marks over a reload
  shade();
  // Twice is once.
  decide.addEventListener("submit", () => setTimeout(() => { for (const b of all("button", decide)) b.disabled = true; }));
  window.addEventListener("pageshow", (e) => { if (e.persisted) shade(); });
}

// How changes are shown stays over pages.
const views = all("input[name=view]");
for (const view of views) {
  if (sessionStorage.getItem("view") === view.value) view.checked = true;
  view.addEventListener("change", () => sessionStorage.setItem("view", view.value));
}

// Keys: j and k move, x marks, e edits.
const stops = all(".stop");
for (const hint of all(".keys")) hint.hidden = !stops.length;

function here() {
  const at = document.activeElement?.closest(".stop");
  return at ? stops.indexOf(at) : -1;
}

function move(by) {
  const from = here();
  const next = from < 0 ? (by > 0 ? 0 : stops.length - 1) : Math.min(Math.max(from + by, 0), stops.length - 1);
  const target = stops[next];
  target.focus({ preventScroll: true });
  const box = target.getBoundingClientRect();
  const reduce = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (box.top < 60 || box.bottom > innerHeight - 90) target.scrollIntoView({ block: box.height > innerHeight / 2 ? "start" : "center", behavior: reduce ? "auto" : "smooth" });
}

document.addEventListener("keydown", (e) => {
  if (!stops.length || e.ctrlKey || e.metaKey || e.altKey) return;
  if (writing(e.target) && !e.target.matches("input[type=checkbox], input[type=radio]")) return;
  const at = stops[here()];
  switch (e.key) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": {
      const box = at?.querySelector(at.matches(".hunk") ? ".part" : ".whole, input[name=post]");
      if (!box) return;
      box.click();
      announce(`${box.getAttribute("aria-label") ?? box.closest("label")?.innerText ?? ""}: ${box.checked ? "marked" : "not marked"}`);
      break;
    }
    case "e": {
      const link = at?.closest(".change")?.querySelector(".change-actions a.edit, .change-actions a.primary");
      if (!link) return;
      link.click();
      break;
    }
    default: return;
  }
  e.preventDefault();
});

// Versions begin where they differ.
for (const side of all(".side-lines")) {
  const first = side.querySelector(".differs");
  if (first) side.scrollTop = Math.max(0, first.offsetTop - side.offsetTop - 60);
}
const base = document.querySelector(".sides .side-lines:not(:has(.differs))");
const ours = document.querySelector(".sides .side-lines:has(.differs)");
if (base && ours) base.scrollTop = ours.scrollTop;

// Copying needs a clipboard, which browsers give to secure pages only.
for (const button of all(".copy")) {
  const text = button.closest(".change").querySelector(".copied");
  button.hidden = !text;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.value);
      button.textContent = "Copied";
      announce("Copied");
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    } catch {
      text.hidden = false;
      text.removeAttribute("aria-hidden");
      text.focus();
      text.select();
    }
  });
}

// Reports on their way are looked at again, until they have arrived or wait
// for somebody.
const moving = () => document.querySelector("[data-moving]");
let looks = 0;
async function follow() {
  if (!moving() || looks++ >= 60) return;
  try {
    const fresh = parts(await ask(location.href, { accept: "text/html" })).find((e) => e.matches("main"))?.querySelector("#reports");
    const shown = document.getElementById("reports");
    // An answer that is being written stays.
    if (fresh && shown && !shown.contains(document.activeElement)) shown.replaceWith(fresh);
  } catch {
    // The service may be away for a moment; the next look tells.
  }
  setTimeout(follow, 2000);
}
if (moving()) setTimeout(follow, 1000);
