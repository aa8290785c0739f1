// Code of a turn that goes on: shown as it is written, its output as it comes.
// Where the run_python tool runs it, its own packets are read: the code at
// once, output and files while it runs, and the end of the section.
import { Console } from "./console.js";

export class Steps {
  // answer gives the element into which the code of a turn goes, or null for
  // a turn that is shown already.
  constructor(template, answer) {
    this.template = template;
    this.answer = answer;
    this.cards = new Map();
  }

  forget(turn) {
    for (const key of this.cards.keys()) if (key.startsWith(`${turn}-`)) this.cards.delete(key);
  }

  card(turn, tab) {
    const key = `${turn}-${tab}`;
    if (this.cards.has(key)) return this.cards.get(key);
    const answer = this.answer(turn);
    if (!answer) return null;
    const element = this.template.content.firstElementChild.cloneNode(true);
    element.id = `step-${key}`;
    answer.append(element);
    const card = {
      element, code: element.querySelector(".step-code code"), result: element.querySelector(".step-result"),
      loading: element.querySelector(".step-loading"), output: element.querySelector(".step-console"), screen: null, files: [],
    };
    card.result.hidden = true;
    this.cards.set(key, card);
    return card;
  }

  packet({ placement, obj }) {
    const at = { turn: placement.turn_index, tab: placement.tab_index };
    switch (obj.type) {
      case "python_tool_start":
        this.start({ ...at, language: "Python", code: obj.code });
        break;
      case "python_tool_delta":
        if (obj.stdout) this.print({ ...at, stream: "stdout", data: obj.stdout });
        if (obj.stderr) this.print({ ...at, stream: "stderr", data: obj.stderr });
        if (obj.file_ids.length) this.files(at, obj.file_ids);
        break;
      case "section_end":
        this.finish(at);
        break;
    }
  }

  // write shows more of the code that the model is writing.
  write({ turn, tab, language, code }) {
    const card = this.card(turn, tab);
    if (!card) return;
    this.label(card, language);
    card.element.querySelector(".step-head .badge").textContent = "being written";
    card.code.append(code);
    const shown = card.code.parentElement;
    shown.scrollTop = shown.scrollHeight;
  }

  label(card, language) {
    card.element.querySelector(".step-language").textContent = language;
    card.element.setAttribute("aria-label", `${language} code`);
  }

  // start has the code whole, and it runs.
  start({ turn, tab, language, code }) {
    const card = this.card(turn, tab);
    if (!card) return;
    this.label(card, language);
    card.code.textContent = code.trimEnd();
    card.code.parentElement.scrollTop = 0;
    card.element.querySelector(".step-head .badge").textContent = "running";
    card.result.hidden = false;
    card.result.classList.add("running");
  }

  // highlight puts colours to the code: the service has made them.
  highlight({ turn, tab, html }) {
    const card = this.card(turn, tab);
    if (!card) return;
    const holder = new DOMParser().parseFromString(`<div>${html}</div>`, "text/html").body.firstElementChild;
    card.code.replaceChildren(...holder.childNodes);
  }

  print({ turn, tab, stream, data }) {
    const card = this.card(turn, tab);
    if (!card) return;
    card.result.hidden = false;
    card.output.hidden = false;
    card.screen ??= new Console(card.output);
    card.screen.write(stream, data);
  }

  files({ turn, tab }, ids) {
    const card = this.card(turn, tab);
    if (!card) return;
    card.files.push(...ids);
    card.loading.lastChild.textContent = `running, ${card.files.length} ${card.files.length === 1 ? "file" : "files"} so far`;
  }

  finish({ turn, tab }) {
    const card = this.card(turn, tab);
    if (!card) return;
    card.loading.hidden = true;
    card.result.hidden = !card.screen;
  }

  // result says how it ended.
  result({ turn, tab, html }) {
    const card = this.card(turn, tab);
    if (!card) return;
    this.finish({ turn, tab });
    card.element.classList.remove("running");
    card.result.classList.remove("running");
    for (const old of card.element.querySelectorAll(".step-head .badge, .step-head .step-took, .step-head .step-detail")) old.remove();
    const holder = new DOMParser().parseFromString(html, "text/html").body;
    const outcome = holder.lastElementChild;
    for (const kind of ["ok", "error", "timeout", "weaker"]) if (outcome.classList.contains(kind)) card.result.classList.add(kind);
    card.element.querySelector(".step-head").append(...holder.children);
  }
}
