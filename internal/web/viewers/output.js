// The widget that holds outputs of Python. The page decides what it holds: see static/widgets.js.
import { DOMWidgetModel, DOMWidgetView } from "@jupyter-widgets/base";
import { Widget } from "@lumino/widgets";
import DOMPurify from "dompurify";

const text = (value) => (Array.isArray(value) ? value.join("") : String(value ?? ""));
const VIEW = "application/vnd.jupyter.widget-view+json";

function block(value, name = "") {
  const pre = document.createElement("pre");
  pre.className = name;
  pre.textContent = text(value).replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "");
  return pre;
}

function html(value) {
  const div = document.createElement("div");
  div.append(DOMPurify.sanitize(text(value), { RETURN_DOM_FRAGMENT: true, FORCE_BODY: true, ADD_TAGS: ["style"] }));
  return div;
}

const picture = (mime) => (value) => {
  const img = document.createElement("img");
  img.alt = "Picture that the cell made";
  img.src = mime === "image/svg+xml" ? `data:${mime};charset=utf-8,${encodeURIComponent(text(value))}` : `data:${mime};base64,${text(value).replace(/\s/g, "")}`;
  return img;
};

// The forms of a value, the richest first. Interactive charts would be frames in this frame.
const forms = [
  ["text/html", html], ...["image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp"].map((mime) => [mime, picture(mime)]),
  ...["text/latex", "text/markdown", "text/plain"].map((mime) => [mime, (value) => block(value)]),
];

class OutputModel extends DOMWidgetModel {
  defaults() {
    return { ...super.defaults(), _model_name: "OutputModel", _view_name: "OutputView", _model_module: "@jupyter-widgets/output", _view_module: "@jupyter-widgets/output", msg_id: "", outputs: [] };
  }
}

class OutputView extends DOMWidgetView {
  render() {
    super.render();
    this.el.classList.add("output");
    this.listenTo(this.model, "change:outputs", () => this.draw());
    return this.draw();
  }

  async draw() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const shown = await Promise.all((this.model.get("outputs") ?? []).map((o) => this.show(o)));
    await Promise.all(shown.flatMap((e) => [...e.querySelectorAll("img"), e]).map((e) => e.decode?.().catch(() => {}))); // no gap where a picture is to be
    if (turn === this.turn) this.el.replaceChildren(...shown);
  }

  async show({ output_type: type, name, text: printed, data, ename, evalue, traceback }) {
    if (type === "stream") return block(printed, name);
    if (type === "error") return block(traceback?.length ? traceback.join("\n") : `${ename}: ${evalue}`, "stderr");
    if (data?.[VIEW]) {
      const { model_id: id } = data[VIEW];
      const holder = document.createElement("div");
      const manager = this.model.widget_manager;
      const view = await manager.create_view(await manager.get_model(id));
      requestAnimationFrame(() => { if (holder.isConnected) Widget.attach(view.luminoWidget, holder); });
      return holder;
    }
    const [mime, show] = forms.find(([m]) => data?.[m] !== undefined) ?? [];
    return show ? show(data[mime]) : block(`[${Object.keys(data ?? {}).join(", ")}: this form cannot be shown in a widget]`);
  }
}

export const outputModule = { OutputModel, OutputView };
