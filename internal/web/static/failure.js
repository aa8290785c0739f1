// Where in a cell its program failed, as its traceback says: each interpreter names cells in its own way.

// failedLine is the line, counted from 1, of the last frame in the cell; 0: it is not known.
export function failedLine(cell, { traceback = [] }) {
  const text = traceback.join("\n").replace(/\x1b\[[0-9;]*m/g, "");
  const lines = [
    ...[...text.matchAll(/Cell In\[(\d+)\], line (\d+)/g)].filter((m) => Number(m[1]) === cell.count).map((m) => m[2]), // IPython
    ...[...text.matchAll(/\bcell (\d+):(\d+):\d+/g)].filter((m) => Number(m[1]) === cell.count).map((m) => m[2]).reverse(), // Node, the innermost first
  ].map(Number);
  const most = cell.source.split("\n").length;
  return lines.findLast((n) => n >= 1 && n <= most) ?? 0;
}

const tail = 64 << 10; // characters from the end of an output that are looked at

// The lines that frames of a traceback begin with, and where each frame's code is: Python, IPython, Node.
const heads = [/^ {2}File "(.+?)", line \d+/, /^File (.+?):\d+/, /^(Cell In\[\d+\]), line \d+/, /^ {4}at (?:.*\()?(.+?):\d+:\d+\)?$/];
const library = /\/(?:site|dist)-packages\/|\/lib\/python\d|^\/opt\/airlock\/|^<frozen |^node:|\/node_modules\/|^[^/].*\.p(?:yx|xi)$/;

// calm shows how a program failed so that a person finds the own lines: frames of libraries are folded, and the hint
// stands by itself. The text of the element stays as it is, but for the names of what is folded.
export function calm(element) {
  if (element.querySelector(".frames, .hint")) return;
  const pieces = end(element);
  const text = pieces.map((p) => p.node.data).join("");
  const { folds, hint } = parse(text);
  // From the end, so that the places before stay where they are.
  if (hint && place(pieces, hint.from).node.parentElement.closest(".err")) {
    const line = wrap(pieces, hint, Object.assign(document.createElement("div"), { className: "hint" }));
    line.textContent = line.textContent.trimEnd(); // in no colours of the stream
  }
  for (const fold of folds.reverse()) {
    const details = wrap(pieces, fold, Object.assign(document.createElement("details"), { className: "frames" }));
    const words = fold.frames === 1 ? "1 frame of libraries" : `${fold.frames} frames of libraries`;
    details.prepend(Object.assign(document.createElement("summary"), { textContent: words }));
  }
}

// end returns the last texts of an element, and where each begins.
function end(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.lastChild());
  const nodes = [];
  for (let node = texts.currentNode, n = 0; node?.nodeType === Node.TEXT_NODE && n < tail; node = texts.previousNode()) {
    nodes.unshift(node);
    n += node.data.length;
  }
  let from = 0;
  return nodes.map((node) => ({ node, from: (from += node.data.length) - node.data.length, to: from }));
}

// parse finds the frames of libraries that follow each other, and the hint.
function parse(text) {
  const folds = [];
  let hint = null, frame = null, fold = null, own = false, from = 0;
  for (const line of text.split(/(?<=\n)/)) {
    const words = line.trimEnd(), to = from + line.length;
    const within = frame?.python ? /^ {4}|^ {2}\[Previous/.test(line) : frame && !frame.over && /^[ -]|^$/.test(words);
    const at = frame?.python && within ? -1 : heads.findIndex((h) => h.test(words));
    if (at >= 0) {
      frame = { python: at === 0, over: at === 3 };
      const folded = library.test(heads[at].exec(words)[1]);
      own ||= !folded;
      if (!folded) fold = null;
      else if (fold) Object.assign(fold, { to, frames: fold.frames + 1 });
      else folds.push(fold = { from, to, frames: 1 });
    } else if (within) {
      if (fold) fold.to = to;
      frame.over = !words;
    } else {
      frame = fold = null;
      if (words.startsWith("airlock: ")) hint = { from, to };
    }
    from = to;
  }
  return { folds: own ? folds : [], hint };
}

const place = (pieces, at) => pieces.findLast((p) => p.from <= at);

// wrap puts a part of the text into a new element.
function wrap(pieces, { from, to }, element) {
  const range = document.createRange();
  const first = place(pieces, from), last = pieces.find((p) => p.to >= to);
  range.setStart(first.node, from - first.from);
  range.setEnd(last.node, to - last.from);
  element.append(range.extractContents());
  range.insertNode(element);
  return element;
}
