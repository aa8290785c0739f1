// Widgets in the outputs of cells: ipywidgets, anywidget. Objects of Python and what stands for
// them in the frames of the outputs talk by comms. This is between: it keeps the state that
// Python has told, hands it to frames that ask for it, and passes their messages on. A frame runs
// scripts of programs, so that nothing of what it says is believed (decision 0192).
import { framed, note, plain } from "./outputs.js";
import { outputTo } from "./nbformat.js";

export const VIEW = "application/vnd.jupyter.widget-view+json";
const CONTROL = "jupyter.widget.control";

// What the page keeps of a session, and takes from its frames.
const maxComms = 10_000;
const maxState = 64 << 20; // bytes of all states
const maxMessage = 4 << 20; // characters, and bytes of buffers
const maxWaiting = 64;
const perSecond = 40; // messages of all frames, above a burst
const burst = 120;
const maxKept = 1 << 20; // characters of outputs that Python is told of

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

function base64(part) {
  let text = "";
  for (let i = 0; i < part.length; i += 0x8000) text += String.fromCharCode(...part.subarray(i, i + 0x8000));
  return btoa(text);
}

// Model is the state of an object, with its binary values by their paths.
class Model {
  state = {};
  parts = new Map();
  size = 0;

  update(state, paths = [], buffers = []) {
    for (const [key, value] of Object.entries(state)) {
      this.state[key] = value;
      for (const path of this.parts.keys()) if (JSON.parse(path)[0] === key) this.parts.delete(path);
    }
    paths.forEach((path, i) => { if (buffers[i]) this.parts.set(JSON.stringify(path), buffers[i]); });
    const before = this.size;
    this.size = JSON.stringify(this.state).length + [...this.parts.values()].reduce((sum, b) => sum + b.byteLength, 0);
    return this.size - before;
  }
}

export class Widgets {
  constructor(session, { say, readOnly }) {
    this.session = session;
    this.say = say;
    this.readOnly = readOnly;
    this.turn = Promise.resolve(); // messages are sent one after the other
    this.reset();
  }

  reset() {
    this.models = new Map(); // by id of the comm
    this.total = 0; // bytes
    this.capturing = new Map(); // name of a request -> the Output that takes what it puts out
    this.frames ??= new Set(); // that show something
    this.loading = null;
  }

  // lost is told when the objects are gone, with their interpreter.
  lost() {
    if (this.models.size) for (const f of this.frames) f.post({ lost: true });
    this.frames.clear();
    this.reset();
  }

  // show shows the view of an object; below it stands what its callbacks print.
  show({ model_id: id }, output, outputs) {
    const holder = document.createElement("div");
    const instead = (words) => holder.replaceChildren(plain(output.data["text/plain"] ?? ""), note(words));
    const begin = () => {
      if (!this.models.has(id)) {
        instead("This widget has no object in Python now: run its cell again to use it.");
        return;
      }
      const frame = { wants: new Set(), complaints: new Set(), outputs };
      holder.append(framed("widget", { model: id }, "Widget", {
        begin: (post) => { frame.post = post; frame.wants.clear(); this.frames.add(frame); },
        heard: (data) => this.heard(frame, data),
        failed: instead,
      }));
    };
    if (this.models.has(id)) begin();
    else this.load().then(begin);
    return holder;
  }

  // load asks for the state of all objects, once: this page was not there when they were made.
  load() {
    this.loading ??= (async () => {
      const comm = crypto.randomUUID();
      const send = (kind, data, content = {}) => this.post({ msg_type: kind, content: { comm_id: comm, data, ...content }, metadata: { version: "1.0.0" } }, comm, (type, said) => {
        if (type !== "comm" || said.content.comm_id !== comm || said.content.data?.method !== "update_states") return;
        const { states, buffer_paths: paths = [] } = said.content.data;
        for (const [id, { state }] of Object.entries(states)) {
          const mine = paths.map((path, i) => [path, said.buffers[i]]).filter(([path]) => path[0] === id);
          this.keep(id, state, mine.map(([path]) => path.slice(1)), mine.map(([, b]) => bytes(b)));
        }
      });
      const { comms } = await this.session.get("/comms?target=jupyter.widget");
      if (!Object.keys(comms).length) return;
      await send("comm_open", {}, { target_name: CONTROL });
      await send("comm_msg", { method: "request_states" });
      await send("comm_close", {});
    })().catch(() => {}); // there is no interpreter
    return this.loading;
  }

  // keep takes a change of an object, and reports whether there is room for it.
  keep(id, state, paths, buffers) {
    let model = this.models.get(id);
    if (!model) {
      if (this.models.size >= maxComms) return false;
      this.models.set(id, (model = new Model()));
    }
    this.total += model.update(state, paths, buffers);
    if (this.total > maxState) {
      this.forget(id);
      this.say("The widgets of this notebook hold more than the page keeps: restart it, or show fewer.");
      return false;
    }
    if (model.state._model_name === "OutputModel" && "msg_id" in state) {
      for (const [parent, taker] of this.capturing) if (taker === id) this.capturing.delete(parent);
      if (state.msg_id) this.capturing.set(state.msg_id, id);
    }
    return true;
  }

  forget(id) {
    this.total -= this.models.get(id)?.size ?? 0;
    this.models.delete(id);
  }

  // said takes what a comm of Python's says, in answer to a request of the name parent; from is the
  // frame's message that it answers.
  said({ msg_type: kind, content, buffers: parts }, from) {
    const { comm_id: id, data } = content;
    const buffers = (parts ?? []).map(bytes);
    if (kind === "comm_open") {
      if (content.target_name === "jupyter.widget") this.keep(id, data.state ?? {}, data.buffer_paths, buffers);
      return;
    }
    if (!this.models.has(id)) return;
    if (kind === "comm_close") this.forget(id);
    else if (data.method === "update" || data.method === "echo_update") this.keep(id, data.state, data.buffer_paths, buffers);
    this.tell(id, { kind, content: data, buffers }, from);
  }

  tell(id, message, from) {
    for (const f of this.frames) {
      if (f.wants.has(id)) f.post({ heard: { comm: id, ...message, number: from?.frame === f ? from.number : "" } });
    }
  }

  // takes reports whether an Output takes an event of a request, and puts it there.
  takes(parent, type, data) {
    const id = this.capturing.get(parent);
    const model = id && this.models.get(id);
    if (!model || !["stdout", "stderr", "display", "result", "error", "clear"].includes(type)) return false;
    if (type === "clear") {
      model.clearing = true;
      return true;
    }
    const all = model.clearing ? [] : [...(model.state.outputs ?? [])];
    model.clearing = false;
    const last = all.at(-1);
    if (last?.output_type === "stream" && last.name === type) all[all.length - 1] = { ...last, text: last.text + data.text };
    else all.push(type in { stdout: 1, stderr: 1 } ? { output_type: "stream", name: type, text: data.text } : outputTo({ type, ...data }));
    this.keep(id, { outputs: all });
    // What comes together is shown together.
    model.shown ??= setTimeout(() => {
      model.shown = null;
      this.tell(id, { kind: "comm_msg", content: { method: "update", state: { outputs: model.state.outputs }, buffer_paths: [] }, buffers: [] });
    }, 30);
    model.changed = true;
    return true;
  }

  // ended tells Python what its Outputs hold, after a request.
  ended() {
    for (const [id, model] of this.models) {
      if (model.clearing) Object.assign(model, { clearing: false, changed: true }), this.keep(id, { outputs: [] });
      if (!model.changed) continue;
      model.changed = false;
      const state = { outputs: model.state.outputs };
      if (JSON.stringify(state).length <= maxKept) this.send(id, { method: "update", state, buffer_paths: [] }, []);
    }
  }

  // heard takes what a frame says: it asks for the state of an object, or sends a message to one.
  heard(frame, { want, send }) {
    if (typeof want === "string") {
      const model = this.models.get(want);
      if (model) frame.wants.add(want);
      frame.post({ model: want, ...(model ? { state: model.state, paths: [...model.parts.keys()].map((p) => JSON.parse(p)), buffers: [...model.parts.values()] } : {}) });
    }
    if (!send) return;
    const { number, comm, data, buffers } = send;
    let message;
    try {
      message = data.length <= maxMessage ? JSON.parse(data) : null;
    } catch {
      return;
    }
    const fits = Array.isArray(buffers) && buffers.length <= 100 && buffers.every((b) => b instanceof Uint8Array) && buffers.reduce((sum, b) => sum + b.byteLength, 0) <= maxMessage;
    const handled = () => frame.post({ handled: number });
    if (typeof number !== "string" || number.length > 20 || !this.models.has(comm) || !["update", "custom"].includes(message?.method) || !fits) {
      if (message === null || !fits) this.complain(frame, "A message of this widget was too large, and was left out.");
      return;
    }
    if (this.readOnly()) {
      handled();
      return;
    }
    const now = performance.now();
    this.credit = Math.min(burst, (this.credit ?? burst) + (now - (this.since ?? now)) * perSecond / 1000);
    this.since = now;
    if (this.credit < 1 || (this.waiting ?? 0) >= maxWaiting) {
      this.complain(frame, "This widget sends more than can be handled: some of its messages were left out.");
      return;
    }
    this.credit--;
    this.send(comm, message, buffers, { frame, number }).finally(handled);
  }

  complain(frame, words) {
    if (frame.complaints.has(words)) return;
    frame.complaints.add(words);
    frame.outputs.add({ type: "stderr", text: `${words}\n` });
  }

  // send sends a message of a frame, or of the page, after those before it.
  send(id, data, buffers, from) {
    this.waiting = (this.waiting ?? 0) + 1;
    const parent = crypto.randomUUID();
    const content = { comm_id: id, data };
    this.turn = this.turn.then(() => this.post({ msg_type: "comm_msg", content, buffers: buffers.map(base64) }, parent, (type, said) => {
      if (type === "comm") this.said(said, from);
      else if (!this.takes(parent, type, said) && type !== "started" && type !== "clear") from?.frame.outputs.add({ type, ...said });
    })).then((done) => {
      if (from) this.ended();
      if (done?.message) from?.frame.outputs.add({ type: "stderr", text: `${done.message}\n` });
      if (done?.status === "lost") this.lost();
    }, (e) => {
      if (e.status === 409 || e.status === 404) this.lost();
      else this.say(`The widget could not tell Python: ${e.words ?? e}`);
    }).finally(() => { this.waiting--; });
    return this.turn;
  }

  post(body, parent, tell) {
    return this.session.comm({ ...body, parent }, tell);
  }
}
