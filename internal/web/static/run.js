// The run page: an editor, input files, and what a program does as it does it.
import { announce, ask, copyText, loadScript, meta, parts, send } from "./page.js";
import { Console } from "./console.js";
import * as draft from "./draft.js";
import { calm } from "./failure.js";
import { follow } from "./stream.js";
import { Uploads } from "./uploads.js";
import { watch } from "./previews.js";
import { duration } from "./words.js";

const form = document.getElementById("program");
const code = form.elements.code;
const language = form.elements.language;
const runButton = document.getElementById("run");
const stopButton = document.getElementById("stop");
const badge = document.getElementById("state");
const clock = document.getElementById("clock");
const link = document.getElementById("permalink");
const copy = document.getElementById("copy");
const notice = document.getElementById("notice");
const result = document.getElementById("result");
const recent = document.getElementById("recent");
const output = document.getElementById("output");
const head = document.getElementById("run-head");
const uploads = new Uploads(document.getElementById("inputs"));
let screen = null; // the Console, once something is to be shown by scripts
let current = ""; // address of the run that is going on
let ticking = 0;
let editor = null;

function show(status, words) {
  badge.className = `badge ${status}`;
  badge.textContent = words;
}

function say(words, kind = "problem") {
  notice.className = kind;
  notice.textContent = words;
  notice.hidden = !words;
}

function tick(elapsed) {
  const start = performance.now() - elapsed;
  clearInterval(ticking);
  const step = () => { clock.textContent = duration(performance.now() - start); };
  step();
  ticking = setInterval(step, 100);
}

function busy(on) {
  runButton.disabled = on;
  stopButton.disabled = !on;
  output.setAttribute("aria-busy", String(on));
}

function fresh() {
  screen ??= new Console(output);
  screen.clear();
  output.dataset.empty = "";
  copy.hidden = true;
}

async function start() {
  if (current || runButton.disabled) return;
  busy(true);
  say("");
  if (uploads.pending.size) {
    show("queued", "waiting for uploads");
    await uploads.settled();
  }
  if (form.querySelector(".input.failed")) {
    busy(false);
    show("", "not run");
    say("An input file did not arrive. Remove it, or add it again.");
    return;
  }
  fresh();
  result.replaceChildren();
  clock.textContent = "";
  show("queued", "starting");
  reveal();
  try {
    // The answer is what the run does, to its end.
    const answer = await send(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "text/event-stream" } });
    const url = answer.headers.get("Location");
    carry(url, answer);
    clearTimeout(saving);
    saving = 0;
    draft.forget();
    history.pushState(null, "", url);
  } catch (e) {
    busy(false);
    show("", "not run");
    say(e.words ?? String(e));
  }
}

// reveal brings the output into sight where it stands below or above the code.
function reveal() {
  const pane = output.closest(".pane");
  pane.parentElement.classList.add("used");
  if (pane.offsetLeft !== form.offsetLeft) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  pane.scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
}

const connect = (url) => (headers) => send(`${url}/events`, { headers });

// carry shows what a run does until it has ended.
async function carry(url, answer) {
  current = url;
  busy(true);
  link.href = url;
  link.hidden = false;
  let ended = false;
  try {
    const { html } = await follow(connect(url), "recent", (type, data) => {
      if (type === "started") {
        show("running", data.words);
        announce("The program runs.");
        tick(data.elapsed_ms);
      } else if (type === "output") screen.write(data.stream, data.data);
      else if (type === "result" && !ended) { ended = true; finish(data); }
    }, { answer, lost: (yes) => say(yes ? "The connection is lost. Trying again; nothing will be missed." : "", "warning") });
    fill(recent, html);
  } catch (e) {
    if (ended) return;
    current = "";
    busy(false);
    clearInterval(ticking);
    show("interrupted", "not known");
    say(e.words ?? String(e));
  }
}

async function finish(state) {
  clearInterval(ticking);
  current = "";
  if (state.elapsed_ms) clock.textContent = duration(state.elapsed_ms);
  show(state.status, state.words);
  announce(`The program has ended: ${state.words}.`);
  busy(false);
  copy.hidden = false;
  await screen.drained();
  calm(output);
  output.dataset.empty = state.status === "ok" || state.status === "error" ? "The program printed nothing." : "";
  head.style.minHeight = `${head.offsetHeight}px`; // what is below stays where it is
  fill(head, state.head);
  document.title = `${head.querySelector("h1").textContent} · Airlock`;
  fill(result, state.html);
  watch(result);
}

function fill(element, html) {
  const made = parts(html);
  // Its pictures are waited for: they are not left until a layout finds them in sight.
  for (const part of made) for (const img of part.querySelectorAll("img[loading]")) img.loading = "eager";
  element.replaceChildren(...made);
}

async function stop() {
  if (!current) return;
  stopButton.disabled = true;
  show("running", "stopping");
  try {
    await ask(`${current}/stop`, { method: "POST" });
  } catch (e) {
    stopButton.disabled = !current;
    say(e.words ?? String(e));
  }
}

form.addEventListener("submit", (e) => {
  e.preventDefault();
  start();
});
stopButton.addEventListener("click", stop);
copy.addEventListener("click", async () => {
  const copied = await copyText(screen ? screen.text : printed);
  announce(copied ? "The output is copied." : "The browser did not let the output be copied.");
  copy.textContent = copied ? "Copied" : "Not copied";
  setTimeout(() => { copy.textContent = "Copy"; }, 1500);
});
// A link to a copy is made and copied; the page stays.
result.addEventListener("submit", async (e) => {
  const shares = e.target.closest(".share-run");
  if (!shares) return;
  e.preventDefault();
  const button = shares.querySelector("button");
  button.disabled = true;
  try {
    const { url } = await ask(shares.action, { method: "POST", body: new URLSearchParams(new FormData(shares)) });
    const line = result.querySelector(".shared-link");
    const field = line.querySelector("input");
    field.value = new URL(url, location.href).href;
    line.querySelector("a").href = field.value;
    line.hidden = false;
    const copied = await copyText(field.value);
    line.querySelector("span").textContent = copied ? "Link copied." : "This link is ready to be copied:";
    if (!copied) field.select();
  } catch (problem) {
    say(problem.words ?? String(problem));
  }
  button.disabled = false;
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.defaultPrevented) {
    e.preventDefault();
    start();
  } else if (e.key === "Escape" && current && !e.defaultPrevented) {
    stop();
  }
});
window.addEventListener("popstate", () => location.reload());
language.addEventListener("change", () => { editor?.setLanguage(language.value); changed(); });

// What is typed is kept until it is run. Going away does not wait for the timer.
let saving = 0;
function save() {
  clearTimeout(saving);
  if (saving) draft.keep({ code: code.value, language: language.value });
  saving = 0;
}
function changed() {
  clearTimeout(saving);
  saving = setTimeout(save, 300);
}
code.addEventListener("input", changed);
window.addEventListener("pagehide", save);
const drafted = form.dataset.example ? undefined : draft.restore();
if (drafted) {
  code.value = drafted.code;
  if ([...language.options].some((o) => o.value === drafted.language)) language.value = drafted.language;
}

// The editor comes after the first paint. Until then, and without it, the
// plain text field does.
async function dress() {
  try {
    const { create } = await loadScript(form.dataset.editor);
    const focused = document.activeElement === code;
    editor = create(code, { language: language.value, nonce: meta("nonce"), label: "Code", run: start, onChange: changed });
    if (focused) editor.focus();
  } catch {
    // the text field stays
  }
}
let dressing;
const first = () => { dressing ??= dress(); };
requestAnimationFrame(() => setTimeout(first));
setTimeout(first, 2000); // a page that nobody sees is not painted

const shown = output.dataset.run;
const printed = output.textContent;
if (shown && output.dataset.final !== "true") {
  fresh();
  carry(output.dataset.url);
} else if (shown) {
  copy.hidden = false;
  if (output.dataset.rich === "true") replay();
  else calm(output);
}

// replay shows a run that has ended again, for its colours, and for the part
// of its output that is not in the document.
async function replay() {
  let begun = false;
  try {
    await follow(connect(output.dataset.url), "result", (type, data) => {
      if (type !== "output") return;
      if (!begun) { begun = true; fresh(); output.setAttribute("aria-busy", "true"); }
      screen.write(data.stream, data.data);
    });
  } catch {
    say("The whole output could not be fetched. Load the page again.");
  }
  await screen?.drained();
  calm(output);
  output.removeAttribute("aria-busy");
  copy.hidden = false;
}
