// A terminal: xterm.js, whose styles bear the nonce of the page.
import { Terminal } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";
import css from "@xterm/xterm/css/xterm.css";

export function open(place, nonce) {
  const make = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const element = make(name, options);
    if (String(name).toLowerCase() === "style") element.nonce = nonce;
    return element;
  };
  const style = document.createElement("style");
  style.textContent = css;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const term = new Terminal({ fontSize: 13, convertEol: false, screenReaderMode: true, theme: dark ? { background: "#151716" } : { background: "#f1efeb", foreground: "#1d1d1b", cursor: "#1d1d1b", selectionBackground: "#0e6b6644" } });
  const fit = new FitAddon();
  term.loadAddon(fit);
  place.append(style);
  term.open(place);
  fit.fit();
  new ResizeObserver(() => { if (place.isConnected && !place.hidden) fit.fit(); }).observe(place);
  term.focus();
  return term;
}
