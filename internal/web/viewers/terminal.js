// A terminal: xterm.js, whose styles bear the nonce of the page.
import { Terminal } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";
import css from "@xterm/xterm/css/xterm.css";

// The colours of terminals are made for a dark ground: on a light one they are those of the console. (xterm.js has
// minimumContrastRatio for this, but sets it with inline styles, which the page does not allow.)
const hues = { Black: "#1c1c1a", Red: "#ab281d", Green: "#196a3f", Yellow: "#7d5107", Blue: "#23558f", Magenta: "#8a3a86", Cyan: "#0b6a64", White: "#6b6860" };
const day = { background: "#f1efeb", foreground: "#1d1d1b", cursor: "#1d1d1b", selectionBackground: "#0e6b6644" };
for (const [name, hue] of Object.entries(hues)) day[name.toLowerCase()] = day[`bright${name}`] = hue;

export function open(place, nonce) {
  const make = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const element = make(name, options);
    if (String(name).toLowerCase() === "style") element.nonce = nonce;
    return element;
  };
  const style = document.createElement("style");
  style.textContent = css;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (dark.matches ? { background: "#151716" } : day);
  const term = new Terminal({ fontSize: 13, convertEol: false, screenReaderMode: true, theme: theme() });
  dark.addEventListener("change", () => { term.options.theme = theme(); });
  const fit = new FitAddon();
  term.loadAddon(fit);
  place.append(style);
  term.open(place);
  fit.fit();
  new ResizeObserver(() => { if (place.isConnected && !place.hidden) fit.fit(); }).observe(place);
  term.focus();
  return term;
}
