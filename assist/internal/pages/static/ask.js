// The Ask page: a prompt with files, and a conversation as it goes on. What
// happens comes as events; parts that the service has rendered are put in
// their places, and all that a model or a program writes is text.
import * as draft from "./draft.js";
import { announce, ask, meta, named, parts } from "./page.js";
import { drawAll } from "./math.js";
import { Uploads } from "./uploads.js";
import { Steps } from "./steps.js";
import { watch } from "./previews.js";

const box = document.getElementById("ask");
const thread = document.getElementById("thread");
const form = document.getElementById("composer");
const prompt = form.elements.prompt;
const sendButton = document.getElementById("send");
const stopButton = document.getElementById("stop");
const notice = document.getElementById("notice");
const clock = document.getElementById("clock");
const kept = document.getElementById("kept"); // what of an ended conversation comes again
const uploads = new Uploads(document.getElementById("inputs"));
const steps = new Steps(document.getElementById("step-template"), (turn) => place(turn, ".answer"));
drawAll(thread);
const url = box.dataset.url; // of the conversation; undefined: there is none yet
let source = null;
let running = box.dataset.running === "true";

function say(words, kind = "problem") {
  notice.className = kind;
  notice.textContent = words;
  notice.hidden = !words;
  delete notice.dataset.lost;
}

// lost says that the connection is lost: what the next one takes away again, and no
// other message.
function lost(words) {
  say(words, "warning");
  notice.dataset.lost = "true";
}

function busy(on) {
  running = on;
  sendButton.disabled = on;
  stopButton.hidden = !on;
  stopButton.disabled = false;
}

// section is a turn that goes on; one that is shown whole takes no events.
function section(turn) {
  const found = document.getElementById(`turn-${turn}`);
  return found?.hasAttribute("data-live") ? found : null;
}

function place(turn, selector) {
  return section(turn)?.querySelector(`:scope > ${selector}`) ?? null;
}

// keepEnd does something, and stays at the end of the page if that is in sight.
function keepEnd(change) {
  const page = document.documentElement;
  const near = innerHeight + scrollY > page.scrollHeight - 80;
  change();
  if (near) scrollTo(0, page.scrollHeight);
}

function fill(element, html) {
  if (!element) return;
  element.replaceChildren(...parts(html));
  watch(element);
}

function state(turn, words) {
  const badge = place(turn, ".turn-end")?.querySelector(".badge");
  if (badge) badge.textContent = words;
}

// A file on its way: a line with a bar.
function bar(list, name, done, size, note) {
  let item = [...list.children].find((li) => li.dataset.name === name && li.hasAttribute("data-moving"));
  if (!item) {
    item = document.createElement("li");
    item.className = "sent-file";
    item.dataset.name = name;
    item.setAttribute("data-moving", "");
    const label = document.createElement("span");
    label.className = "sent-name";
    label.textContent = named(name);
    const progress = document.createElement("progress");
    progress.max = 1;
    progress.setAttribute("aria-label", named(name));
    item.append(label, document.createElement("small"), progress);
    list.append(item);
  }
  const progress = item.querySelector("progress");
  progress.hidden = false;
  if (size > 0) progress.value = done / size;
  else progress.removeAttribute("value");
  item.querySelector("small").textContent = note;
  return item;
}

function amount(n) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i++; }
  return `${i ? n.toFixed(1).replace(/\.0$/, "") : n} ${units[i]}`;
}

const handlers = {
  turn({ turn, html }) {
    const there = document.getElementById(`turn-${turn}`);
    if (there && !there.hasAttribute("data-live")) return;
    const [fresh] = parts(html);
    if (there) there.replaceWith(fresh);
    else thread.append(fresh);
    steps.forget(turn);
    kept.replaceChildren();
    busy(true);
  },
  uploading({ turn, name, done, size }) {
    const list = section(turn)?.querySelector(".sent");
    if (list) bar(list, name, done, size, `sending, ${amount(done)} of ${amount(size)}`);
  },
  uploaded({ turn, name, path, size, note }) {
    const list = section(turn)?.querySelector(".sent");
    if (!list) return;
    const item = bar(list, name, size, size, `${amount(size)}, ${note}`);
    item.removeAttribute("data-moving");
    item.querySelector(".sent-name").textContent = named(path);
    item.querySelector("progress").remove();
  },
  refused({ turn, name, path, note }) {
    const list = section(turn)?.querySelector(".sent");
    if (!list) return;
    const item = bar(list, name, 0, 1, note);
    item.querySelector(".sent-name").textContent = named(path);
    item.querySelector("progress").hidden = true;
    if (note !== "not sent yet") {
      item.removeAttribute("data-moving");
      item.classList.add("failed");
    }
  },
  text({ turn, block, html }) {
    const answer = place(turn, ".answer");
    if (!answer) return;
    let text = answer.querySelector(`:scope > [data-block="${block}"]`);
    if (!text) {
      text = document.createElement("div");
      text.className = "said-text prose";
      text.dataset.block = block;
      answer.append(text);
    }
    text.replaceChildren(...parts(html));
    drawAll(text);
  },
  packet(packet) { steps.packet(packet); },
  code(e) { steps.write(e); },
  started(e) { steps.start(e); },
  output(e) { steps.print(e); },
  highlight(e) { steps.highlight(e); },
  result(e) { steps.result(e); },
  found({ turn, name, size }) { coming(turn, name, 0, size, "waiting to be fetched"); },
  downloading({ turn, name, done, size }) { coming(turn, name, done, size, size > 0 ? `fetching, ${amount(done)} of ${amount(size)}` : `fetching, ${amount(done)}`); },
  outputs({ turn, html }) { fill(place(turn, ".outputs"), html); },
  asked({ turn, id, html, words }) {
    document.getElementById(`question-${id}`)?.remove();
    place(turn, ".questions")?.append(...parts(html));
    state(turn, "waits for your answer");
    if (section(turn)) announce(words);
  },
  answered({ turn, id, html, after }) {
    document.getElementById(`question-${id}`)?.remove();
    place(turn, after ? ".after" : ".before")?.append(...parts(html));
    state(turn, "running");
  },
  notice({ turn, html, after }) { place(turn, after ? ".after" : ".before")?.append(...parts(html)); },
  ended({ turn, html, words, until, partial }) {
    const at = section(turn);
    if (!at) return;
    for (const question of at.querySelectorAll(".question")) question.remove();
    for (const moving of at.querySelectorAll("[data-moving]")) moving.remove();
    fill(at.querySelector(":scope > .turn-end"), html);
    at.removeAttribute("data-live");
    announce(words);
    busy(false);
    expires(until);
    if (partial) again(turn);
  },
  cleaned({ html, kept: of }) {
    source?.close();
    source = null;
    expires("");
    kept.replaceChildren(...parts(of));
    thread.lastElementChild?.querySelector(":scope > .turn-end")?.append(...parts(html));
  },
};

function coming(turn, name, done, size, note) {
  const outputs = place(turn, ".outputs");
  if (!outputs) return;
  let list = outputs.querySelector(":scope > .coming");
  if (!list) {
    list = document.createElement("ul");
    list.className = "coming";
    outputs.append(list);
  }
  bar(list, name, done, size, note);
}

// again puts what is kept of a turn in the place of what was seen of it.
async function again(turn) {
  try {
    const [whole] = parts(await ask(`${url}/turns/${turn}`, { accept: "text/html" }));
    document.getElementById(`turn-${turn}`)?.replaceWith(whole);
    drawAll(whole);
    watch(whole);
  } catch (e) {
    say(e.words ?? String(e));
  }
}

// connect follows the conversation. The connection may break: the browser
// comes back by itself and says which event was the last.
function connect() {
  if (source) return;
  const following = (source = new EventSource(`${url}/events`));
  following.addEventListener("open", () => { if (notice.dataset.lost) say(""); });
  for (const [kind, handle] of Object.entries(handlers)) {
    following.addEventListener(kind, (e) => keepEnd(() => handle(JSON.parse(e.data))));
  }
  following.addEventListener("error", () => {
    if (following.readyState !== EventSource.CLOSED) {
      if (running) lost("The connection is lost. Trying again; nothing will be missed.");
      return;
    }
    if (source === following) source = null;
    closed();
  });
}

// closed is when nothing goes on (any more) at the service.
async function closed() {
  const cut = thread.querySelector("[data-live]");
  if (!cut) return;
  busy(false);
  say("The service was stopped while this turn ran. What was kept of it is shown.", "warning");
  cut.removeAttribute("data-live");
  await again(cut.dataset.turn);
}

async function send() {
  if (sendButton.disabled || !form.reportValidity()) return;
  sendButton.disabled = true;
  say("");
  if (uploads.pending.size) {
    say("Waiting for the uploads.", "note");
    await uploads.settled();
    say("");
  }
  if (form.querySelector(".input.failed")) {
    sendButton.disabled = false;
    say("A file did not arrive. Remove it, or add it again.");
    return;
  }
  try {
    const made = await ask(form.action, { method: "POST", body: new FormData(form) });
    draft.forget();
    if (project) sessionStorage.setItem(made.url, project.value);
    if (!url) {
      location.assign(made.url);
      return;
    }
    prompt.value = "";
    uploads.list.replaceChildren();
    busy(true);
    connect();
  } catch (e) {
    sendButton.disabled = false;
    say(e.words ?? String(e));
  }
}

async function stop() {
  if (!url || !running) return;
  stopButton.disabled = true;
  try {
    await ask(`${url}/stop`, { method: "POST", body: new URLSearchParams({ token: meta("token") }) });
  } catch (e) {
    stopButton.disabled = false;
    say(e.words ?? String(e));
  }
}

prompt.addEventListener("input", () => draft.keep(prompt.value));
prompt.value ||= draft.restore() ?? "";
form.addEventListener("submit", (e) => {
  e.preventDefault();
  if (e.submitter === stopButton) stop();
  else send();
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && form.contains(e.target)) {
    e.preventDefault();
    send();
  } else if (e.key === "Escape" && running && !e.defaultPrevented) {
    stop();
  }
});

// What needs scripts is shown by them: code is copied, a prompt is sent again as a new
// turn, as it was or changed.
document.addEventListener("click", async (e) => {
  const copy = e.target.closest(".step .copy");
  if (copy) {
    await navigator.clipboard?.writeText(copy.closest(".step").querySelector("code").textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    return;
  }
  const act = e.target.closest("[data-again]")?.dataset.again;
  if (!act || running) return;
  prompt.value = e.target.closest(".turn").querySelector(".prompt-text").textContent;
  draft.keep(prompt.value);
  prompt.focus();
  if (act === "retry") send();
  else prompt.setSelectionRange(prompt.value.length, prompt.value.length);
});

// reply sends the answer to a question until the service has it, and returns where the
// conversation goes on. A question has an id: what is already answered after a try whose
// own answer was lost is what that try said.
async function reply(form, body) {
  for (let tries = 0; ; tries++) {
    try {
      return (await ask(form.action, { method: "POST", body })).url;
    } catch (problem) {
      if ((tries && problem.status === 409) || !form.isConnected) return url;
      if (problem.status) throw problem;
      lost("The connection is lost. Your answer is sent again until it arrives.");
      await new Promise((again) => { setTimeout(again, 1000); });
    }
  }
}

// Questions are answered, and files decided about, without leaving the page.
document.addEventListener("submit", async (e) => {
  const asked = e.target.closest(".question");
  const settle = e.target.closest(".settle");
  if (!asked && !settle) return;
  e.preventDefault();
  const body = new URLSearchParams(new FormData(e.target, e.submitter));
  e.target.setAttribute("aria-busy", "true");
  for (const button of e.target.querySelectorAll("button")) button.disabled = true;
  try {
    if (asked) {
      const next = await reply(asked, body);
      say("");
      if (next !== url) location.assign(next);
    } else {
      const outputs = settle.closest(".outputs");
      fill(outputs, await ask(settle.action, { method: "POST", body, accept: "application/x-part, text/html" }));
      say("");
      const card = outputs.querySelector(`#${CSS.escape(settle.closest(".card").id)}`);
      card?.querySelector("button, a")?.focus();
      announce(card?.querySelector(".badge")?.textContent ?? "");
    }
  } catch (problem) {
    say(problem.words ?? String(problem));
    e.target.removeAttribute("aria-busy");
    for (const button of e.target.querySelectorAll("button")) button.disabled = false;
    if (asked && problem.status === 409) asked.remove();
  }
});
document.addEventListener("change", (e) => {
  const row = e.target.matches(".clash input") && e.target.closest(".pick-row");
  if (row) {
    row.querySelector("input[name=pick]").checked = e.target.value !== "skip";
    if (e.target.value === "replace") row.querySelector("details").open = true;
  }
  // Another project has another file of this name.
  const replace = e.target.matches(".settle select") && e.target.closest(".card").querySelector(".replace");
  if (replace) {
    const look = replace.querySelector(".look");
    look.dataset.preview = look.dataset.from + encodeURIComponent(e.target.value);
    look.replaceChildren();
    watch(replace);
  }
});

// The clock of what the code has made where it ran.
let end = clock.dataset.until ? Date.parse(clock.dataset.until) : 0;
let told = end > 0 && end <= Date.now();
function expires(until) {
  end = until ? Date.parse(until) : 0;
  tick();
}
function tick() {
  clock.hidden = !end;
  if (!end) return;
  const left = Math.round((end - Date.now()) / 1000);
  const two = (n) => String(n).padStart(2, "0");
  const time = `${left >= 3600 ? `${Math.floor(left / 3600)}:` : ""}${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
  const over = left <= 0;
  clock.classList.toggle("over", over);
  clock.classList.toggle("soon", !over && left < 120);
  clock.querySelector(".badge").textContent = over ? "expired" : time;
  clock.lastChild.textContent = over
    ? "The workspace of the model's code has expired. The next turn makes a new one with the same files; what code had left there is gone."
    : "until the workspace of the model's code expires, unless you continue.";
  if (over && !told) announce(clock.lastChild.textContent);
  told = over;
}
setInterval(tick, 1000);
tick();

// What the chosen provider can do stands below it, and its own models are
// proposed.
const provider = form.elements.provider;
const models = document.getElementById("models");
const known = [...(models?.options ?? [])].map((o) => ({ provider: o.dataset.provider, model: o.value }));
function chosen() {
  const words = document.querySelector(`.abilities [data-provider="${CSS.escape(provider.value)}"]`);
  document.getElementById("can").replaceChildren(...[...(words?.querySelector(".can")?.childNodes ?? [])].map((n) => n.cloneNode(true)));
  const own = known.filter((m) => m.provider === provider.value);
  models.replaceChildren(...own.map((m) => new Option(m.model, m.model)));
  const model = form.elements.model;
  if (!model.value || known.some((m) => m.model === model.value && m.provider !== provider.value)) model.value = own[0]?.model ?? "";
  propose(own);
}
// propose adds what the provider itself says that it has.
const listed = new Map();
async function propose(own) {
  const id = provider.value;
  if (!id) return;
  if (!listed.has(id)) listed.set(id, ask(`${provider.dataset.models}?provider=${encodeURIComponent(id)}`).then((a) => a.models, () => []));
  const names = await listed.get(id);
  if (provider.value !== id) return;
  models.replaceChildren(...[...new Set([...own.map((m) => m.model), ...names])].map((name) => new Option(name, name)));
  const model = form.elements.model;
  if (!model.value && names.length) model.value = names[0];
  model.dataset.listed = names.length;
}
if (provider) {
  provider.addEventListener("change", chosen);
  chosen();
}

// Files of the project are picked from its folders.
const project = form.elements.project;
const browser = document.getElementById("browser");
const offer = document.getElementById("browse-offer");
function offers() {
  if (!project) return;
  offer.hidden = !project.value;
  browser.hidden = true;
  browser.replaceChildren();
  for (const picked of uploads.list.querySelectorAll("li[data-project]")) {
    if (picked.dataset.project !== project.value) picked.remove();
  }
}
async function browse(at) {
  try {
    browser.replaceChildren(...parts(await ask(`${browser.dataset.projects}${encodeURIComponent(project.value)}?at=${encodeURIComponent(at)}`, { accept: "text/html" })));
    browser.hidden = false;
    browser.querySelector("button")?.focus();
  } catch (e) {
    say(e.words ?? String(e));
  }
}
document.getElementById("browse").addEventListener("click", () => {
  if (browser.hidden) browse(".");
  else browser.hidden = true;
});
browser.addEventListener("click", (e) => {
  const entry = e.target.closest("button");
  if (!entry) return;
  if (entry.dataset.at) {
    browse(entry.dataset.at);
    return;
  }
  const path = entry.dataset.path;
  if ([...uploads.list.children].some((li) => li.querySelector("input[name=path]")?.value === path)) return;
  uploads.item(path, Number(entry.dataset.size));
  const item = uploads.list.lastElementChild;
  item.dataset.project = project.value;
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "path";
  field.value = path;
  item.append(field);
  announce(`${path} is added.`);
});
project?.addEventListener("change", offers);
// The project of the turn before, which the service knows only from its end on.
if (project && url && !project.value) {
  const before = sessionStorage.getItem(url);
  if ([...project.options].some((o) => o.value === before)) project.value = before;
}
offers();

if (url) {
  // What waits is in the stream of events too.
  document.getElementById("pending").replaceChildren();
  if (box.dataset.open === "true") connect();
  // Another tab may take a conversation up again that has ended.
  const look = () => { if (!document.hidden && !source) connect(); };
  addEventListener("focus", look);
  document.addEventListener("visibilitychange", look);
  setInterval(look, 15000);
  if (thread.children.length > 1 || running) scrollTo(0, document.documentElement.scrollHeight);
}
