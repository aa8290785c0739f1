// Widgets of ipywidgets and anywidget. Their models are those of Python; what both sides say is
// passed on by the page. The scripts of anywidget come from Python: they run here, in this frame,
// and nowhere else (decision 0192).
import { modules } from "./amd.js";
import "anywidget";
import * as base from "@jupyter-widgets/base";
import { ManagerBase } from "@jupyter-widgets/base-manager";
import * as controls from "@jupyter-widgets/controls";
import { MessageLoop } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import DOMPurify from "dompurify";
import { serve } from "./frame.js";
import { outputModule } from "./output.js";
import { dress } from "./look.js";

const tell = (message, transfer) => parent.postMessage(message, "*", transfer);
const known = {
  "@jupyter-widgets/base": base, "@jupyter-widgets/controls": controls, anywidget: modules[0](base),
  "@jupyter-widgets/output": outputModule,
};
delete globalThis.define;

const comms = new Map(); // by id
const asked = new Map(); // id of a model -> what awaits its state
const sent = new Map(); // number of a message -> what is told when it has been handled
let count = 0;

// Comm is the frame's end of a connection to an object of Python.
class Comm {
  constructor(id) {
    this.comm_id = id;
    this.target_name = "jupyter.widget";
    this.early = []; // what came before somebody listened
    comms.set(id, this);
  }

  open() { return ""; }
  close() { return ""; } // objects are Python's to close
  on_close(f) { this.closed = f; }
  on_msg(f) {
    this.heard = f;
    for (const message of this.early.splice(0)) f(message);
  }

  send(data, callbacks, _, buffers) {
    const number = String(++count);
    sent.set(number, callbacks);
    const parts = (buffers ?? []).map((b) => new Uint8Array(b.buffer ?? b, b.byteOffset ?? 0, b.byteLength).slice());
    tell({ send: { number, comm: this.comm_id, data: JSON.stringify(data), buffers: parts } });
    return number;
  }
}

class Manager extends ManagerBase {
  async loadClass(name, module) {
    const found = known[module]?.[name];
    if (!found) throw new Error(`there is no viewer for widgets of the module ${module}`);
    return found;
  }

  inline_sanitize(text) { return DOMPurify.sanitize(text, { FORBID_TAGS: ["style"] }); }
  async _create_comm() { throw new Error("objects are made by Python"); }
  async _get_comm_info() { return {}; }

  // get_model makes a model when something first needs it, with the state that it has by then.
  get_model(id) {
    if (!this.has_model(id)) {
      this.register_model(id, new Promise((made, failed) => {
        asked.set(id, { made, failed });
        tell({ want: id });
      }).then(({ state, paths, buffers }) => {
        base.put_buffers(state, paths, buffers.map((b) => new DataView(b)));
        return this._make_model({ model_name: state._model_name, model_module: state._model_module, model_module_version: state._model_module_version, model_id: id, comm: new Comm(id) }, state);
      }));
    }
    return super.get_model(id);
  }
}

const manager = new Manager();

addEventListener("message", ({ source, data }) => {
  if (source !== parent || !data) return;
  if (data.model) {
    const waits = asked.get(data.model);
    asked.delete(data.model);
    if (data.state) waits?.made(data);
    else waits?.failed(new Error("Python has no such widget any more; run the cell again"));
  } else if (data.heard) {
    const { comm: id, kind, content, buffers, number } = data.heard;
    const comm = comms.get(id);
    const message = { header: { msg_type: kind }, parent_header: { msg_id: number }, metadata: {}, content: { comm_id: id, data: content }, buffers: buffers.map((b) => new DataView(b)) };
    if (kind === "comm_close") comm?.closed?.(message);
    else if (comm?.heard) comm.heard(message);
    else comm?.early.push(message);
  } else if (data.handled) {
    const callbacks = sent.get(data.handled);
    sent.delete(data.handled);
    callbacks?.iopub?.status?.({ header: { msg_type: "status" }, parent_header: { msg_id: data.handled }, content: { execution_state: "idle" } });
  } else if (data.lost) {
    document.body.inert = true;
    document.body.style.opacity = ".55";
  }
});

serve(async ({ model }) => {
  dress();
  const view = await manager.create_view(await manager.get_model(model));
  Widget.attach(view.luminoWidget, document.body);
  addEventListener("resize", () => MessageLoop.postMessage(view.luminoWidget, Widget.ResizeMessage.UnknownSize));
});
