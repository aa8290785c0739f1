// How widgets look: their own styles, with the colours of the page.
import colours from "@jupyter-widgets/controls/css/materialcolors.css";
import variables from "@jupyter-widgets/controls/css/labvariables.css";
import lumino from "@jupyter-widgets/controls/css/lumino.css";
import slider from "@jupyter-widgets/controls/css/nouislider.css";
import custom from "@jupyter-widgets/controls/css/nouislider-custom.css";
import widgets from "@jupyter-widgets/controls/css/widgets-base.css";

// The signs of buttons, in place of a font of icons: those of the player, and the most usual.
const signs = { play: "▶", pause: "⏸", stop: "■", "step-forward": "⏭", "step-backward": "⏮", repeat: "↻", retweet: "↻", refresh: "↻", check: "✓", times: "✕", plus: "+", minus: "−", "arrow-left": "←", "arrow-right": "→", "arrow-up": "↑", "arrow-down": "↓", download: "⤓", upload: "⤒", search: "⌕", trash: "🗑" };

const ours = (ink, soft, sheet, sunk, line, accent) => `:root {
  --jp-ui-font-color0: ${ink}; --jp-ui-font-color1: ${ink}; --jp-ui-font-color2: ${soft}; --jp-ui-font-color3: ${soft};
  --jp-content-font-color0: ${ink}; --jp-content-font-color1: ${ink}; --jp-content-font-color2: ${soft}; --jp-content-font-color3: ${soft};
  --jp-layout-color0: ${sheet}; --jp-layout-color1: ${sheet}; --jp-layout-color2: ${sunk}; --jp-layout-color3: ${line};
  --jp-border-color0: ${line}; --jp-border-color1: ${line}; --jp-border-color2: ${line}; --jp-border-color3: ${sunk};
  --jp-brand-color0: ${accent}; --jp-brand-color1: ${accent}; --jp-brand-color2: ${accent}; --jp-brand-color3: ${sunk};
  --jp-ui-font-family: system-ui, sans-serif; }
body { color: ${ink}; padding: 2px 12px 4px 2px; overflow-y: hidden; }
.jupyter-widgets-view:focus, .lm-Widget:focus { outline: none; }
.output pre { margin: 0; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.output .stderr { color: ${soft}; }
.output img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; display: block; }
`;

export function dress() {
  const style = document.createElement("style");
  style.textContent = [colours, variables, lumino, slider, custom, widgets].join("\n").replace(/@import [^;]*;/g, "") +
    ours("#1d1d1b", "#62605a", "#ffffff", "#f1efeb", "#8b877e", "#0e6b66") +
    `@media (prefers-color-scheme: dark) { ${ours("#e7e5e0", "#a09d95", "#1a1c1b", "#2d302e", "#73777a", "#63c7bb")} }` +
    Object.entries(signs).map(([name, sign]) => `.fa-${name}::before { content: "${sign}"; }`).join("\n");
  document.head.append(style);
}
