// The output of a program: text, as it comes, in the colours of a terminal.
// Whatever it prints becomes text nodes and nothing else. Lines are kept in
// blocks, and the browser lays out only those that are in sight, so a hundred
// thousand lines cost about as much as a screenful.

const BLOCK_LINES = 80;
const BLOCK_CHARS = 8192;
const LONG_BLOCKS = 3; // blocks that make an output long
const SLICE = 4096; // characters between two looks at the clock
const BUDGET = 6; // milliseconds of one frame

const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function rgb(n) {
  if (n >= 232) return `rgb(${Array(3).fill(8 + (n - 232) * 10)})`;
  const level = (v) => (v ? 55 + v * 40 : 0);
  n -= 16;
  return `rgb(${[level(Math.floor(n / 36)), level(Math.floor(n / 6) % 6), level(n % 6)]})`;
}

// Ink is what SGR sequences say about the text that follows.
class Ink {
  constructor() { this.reset(); }
  reset() { this.classes = new Set(); this.fore = this.back = ""; }

  apply(codes) {
    for (let i = 0; i < codes.length; i++) {
      const c = codes[i];
      if (c === 0) this.reset();
      else if (c === 1) this.classes.add("bold");
      else if (c === 2) this.classes.add("dim");
      else if (c === 3) this.classes.add("italic");
      else if (c === 4) this.classes.add("underline");
      else if (c === 7) this.classes.add("inverse");
      else if (c === 9) this.classes.add("strike");
      else if (c === 22) { this.classes.delete("bold"); this.classes.delete("dim"); }
      else if (c === 23) this.classes.delete("italic");
      else if (c === 24) this.classes.delete("underline");
      else if (c === 27) this.classes.delete("inverse");
      else if (c === 29) this.classes.delete("strike");
      else if (c === 38 || c === 48) i += this.extended(c === 38, codes, i + 1);
      else if (c === 39) this.fore = "";
      else if (c === 49) this.back = "";
      else if (c >= 30 && c <= 37) this.fore = NAMES[c - 30];
      else if (c >= 90 && c <= 97) this.fore = NAMES[c - 90];
      else if (c >= 40 && c <= 47) this.back = NAMES[c - 40];
      else if (c >= 100 && c <= 107) this.back = NAMES[c - 100];
    }
  }

  extended(fore, codes, at) {
    let colour = "";
    let used = 0;
    if (codes[at] === 5) {
      const n = codes[at + 1] & 255;
      colour = n < 16 ? NAMES[n % 8] : rgb(n);
      used = 2;
    } else if (codes[at] === 2) {
      colour = `rgb(${codes.slice(at + 1, at + 4).map((v) => (v || 0) & 255)})`;
      used = 4;
    }
    if (fore) this.fore = colour; else this.back = colour;
    return used;
  }

  get plain() { return !this.classes.size && !this.fore && !this.back; }

  dress(span) {
    for (const c of this.classes) span.classList.add(c);
    if (this.fore.startsWith("rgb")) span.style.color = this.fore;
    else if (this.fore) span.classList.add(this.fore);
    if (this.back.startsWith("rgb")) span.style.backgroundColor = this.back;
    else if (this.back) span.classList.add(`on-${this.back}`);
  }
}

export class Console {
  constructor(element) {
    this.element = element;
    this.scheduled = false;
    this.clear();
    // The end is followed until somebody scrolls away from it. Scrolling of
    // ours, and of blocks that get their true heights, does not count.
    let touched = -Infinity;
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      element.addEventListener(kind, () => { touched = performance.now(); }, { passive: true });
    }
    element.addEventListener("scroll", () => {
      if (performance.now() - touched < 1000) this.follow = element.scrollHeight - element.scrollTop - element.clientHeight < 32;
    }, { passive: true });
  }

  clear() {
    this.element.replaceChildren();
    this.follow = true;
    this.queue = [];
    this.looks = 0; // at the end, in frames to come
    this.raw = [];
    this.streams = {};
    this.returned = false;
    this.under = ""; // the rest of a line that is being written over, after a carriage return
    this.rest = null; // shows it
    this.block = null;
    this.below = []; // lines below the current one, after the cursor went up: the nearest is the last
    this.belowElement = null; // shows them
    this.sealed = 0;
    this.element.classList.remove("long");
  }

  // text is all that was printed, as it was.
  get text() { return this.raw.join(""); }

  write(stream, data) {
    this.raw.push(data);
    this.queue.push([stream, data]);
    // The first text does not wait for a frame: it is what a click is for.
    if (this.raw.length === 1) this.pump();
    this.looks = 6;
    this.schedule();
  }

  // drained resolves when all is on the screen.
  drained() {
    return new Promise((done) => {
      const look = () => (this.queue.length ? setTimeout(look, 20) : done());
      look();
    });
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const frame = () => { this.scheduled = false; this.frame(); };
    if (document.hidden) setTimeout(frame, 50);
    else requestAnimationFrame(frame);
  }

  // frame shows what has come, and the end of it, for a few frames more: the blocks that
  // come into sight get their true heights only then.
  frame() {
    if (this.queue.length) { this.pump(); this.looks = 6; }
    if (this.follow) this.element.scrollTop = this.element.scrollHeight;
    if (this.queue.length || this.follow && --this.looks > 0) this.schedule();
  }

  pump() {
    const start = performance.now();
    while (this.queue.length && performance.now() - start < BUDGET) {
      const first = this.queue[0];
      let piece = first[1];
      if (piece.length > SLICE) {
        let cut = SLICE;
        const c = piece.charCodeAt(cut - 1);
        if (c >= 0xd800 && c < 0xdc00) cut++;
        first[1] = piece.slice(cut);
        piece = piece.slice(0, cut);
      } else {
        this.queue.shift();
      }
      this.render(first[0], piece);
    }
  }

  render(name, text) {
    const stream = (this.streams[name] ??= { ink: new Ink(), rest: "", err: name === "stderr" });
    text = stream.rest + text;
    stream.rest = "";
    if (!CONTROL.test(text)) {
      this.emit(stream, text);
      return;
    }
    let from = 0;
    for (let i = 0; i < text.length; ) {
      const c = text.charCodeAt(i);
      if (c >= 32 && c !== 127 || c === 9 || c === 10) { i++; continue; }
      if (i > from) this.emit(stream, text.slice(from, i));
      if (c === 27) {
        const end = this.escape(stream, text, i);
        if (end < 0) { // it goes on in what is still to come
          stream.rest = text.slice(i);
          return;
        }
        i = end;
      } else {
        if (c === 13) this.returned = true;
        i++;
      }
      from = i;
    }
    if (from < text.length) this.emit(stream, text.slice(from));
  }

  // escape takes in one sequence, of which only colours count, and returns
  // where it ends.
  escape(stream, text, at) {
    const kind = text[at + 1];
    const most = 4096; // nothing true is longer
    if (kind === undefined) return -1;
    if (kind === "[") {
      let end = at + 2;
      while (end < text.length && (text.charCodeAt(end) < 0x40 || text.charCodeAt(end) > 0x7e)) end++;
      if (end >= text.length) return end - at < most ? -1 : end;
      if (text[end] === "m" && end - at < 256) {
        stream.ink.apply(text.slice(at + 2, end).split(/[;:]/).map((n) => parseInt(n, 10) || 0));
      } else if (text[end] === "K") this.wipe(text.slice(at + 2, end));
      else if (text[end] === "A") this.up(parseInt(text.slice(at + 2, end), 10) || 1);
      return end + 1;
    }
    if ("]P^_X".includes(kind)) {
      let end = at + 2;
      while (end < text.length && text.charCodeAt(end) !== 7 && text.charCodeAt(end) !== 27) end++;
      if (end >= text.length) return end - at < most ? -1 : end;
      return text[end] === "\x1b" && text[end + 1] === "\\" ? end + 2 : end + 1;
    }
    return at + 2;
  }

  // wipe erases in the current line: to its end, or all of it.
  wipe(how) {
    this.uncover("");
    if (how === "2" || how !== "1" && this.returned) this.erase();
  }

  // up goes to the beginning of the line above, if that is in the current block: so bars of progress stay below each
  // other.
  up(lines = 1) {
    const { block } = this;
    if (!block?.mark) return;
    this.below.push(this.line());
    this.uncover("");
    this.erase();
    const { holder, node } = block.mark;
    node.data = node.data.slice(0, -1); // the end of the line above
    if (!node.data) holder.remove();
    block.lines--;
    block.chars--;
    block.mark = null;
    const walk = document.createTreeWalker(block.element, NodeFilter.SHOW_TEXT);
    for (let last = walk.lastChild() && walk.currentNode; last && !block.mark; last = walk.previousNode()) {
      const line = last.data.lastIndexOf("\n");
      if (line >= 0) block.mark = { holder: last.parentNode === block.element ? last : last.parentNode, node: last, offset: line + 1 };
    }
    this.returned = true;
    if (lines > 1) this.up(lines - 1);
    this.showBelow();
  }

  // down goes to the beginning of the line below, which is there.
  down(stream) {
    this.lay(stream, this.below.pop());
    this.returned = true;
    this.showBelow();
  }

  showBelow() {
    if (!this.belowElement) this.belowElement = Object.assign(document.createElement("div"), { className: "block" });
    this.belowElement.textContent = this.below.toReversed().join("\n");
    if (this.below.length) this.element.append(this.belowElement);
    else this.belowElement.remove();
  }

  // uncover has what is under the text to come be this.
  uncover(text) {
    this.rest?.remove();
    this.rest = null;
    this.under = text;
  }

  open() {
    const element = document.createElement("div");
    element.className = "block";
    this.element.insertBefore(element, this.below.length ? this.belowElement : null);
    this.block = { element, lines: 0, chars: 0, mark: null };
  }

  seal() {
    this.sealed++;
    // A long output scrolls by itself; a short one has the height that it needs.
    this.element.classList.toggle("long", this.sealed >= LONG_BLOCKS);
    const { element, lines, chars } = this.block;
    element.style.containIntrinsicSize = `auto ${Math.max(lines, Math.ceil(chars / 100)) * 1.5}em`;
    element.classList.add("sealed");
    this.block = null;
  }

  emit(stream, text) {
    for (let end; this.below.length && (end = text.indexOf("\n")) >= 0; text = text.slice(end + 1)) {
      this.put(stream, text.slice(0, end + 1));
      this.down(stream);
    }
    if (text) this.put(stream, text);
  }

  // put writes at the cursor, over what is there.
  put(stream, text) {
    if (this.returned) {
      this.returned = false;
      if (text[0] !== "\n") {
        const line = this.line();
        this.uncover("");
        this.erase();
        this.under = line;
      }
    }
    if (this.under) {
      const end = text.indexOf("\n");
      const over = end < 0 ? text : text.slice(0, end);
      const left = this.under.slice(over.length).replace(/^[\udc00-\udfff]/, "");
      this.uncover("");
      this.lay(stream, over);
      if (left) this.cover(left, end >= 0);
      text = text.slice(over.length);
    }
    this.lay(stream, text);
  }

  // cover shows what is left of a line that is written over, for good if the line has ended.
  cover(text, ended) {
    const node = document.createTextNode(text);
    if (!this.block) this.open();
    this.block.element.append(node);
    if (ended) return;
    this.under = text;
    this.rest = node;
  }

  // lay puts text at the end.
  lay(stream, text) {
    let from = 0;
    while (from < text.length) {
      if (!this.block) this.open();
      const block = this.block;
      // As much as fits: up to a number of lines and of characters.
      let to = from;
      const most = Math.min(text.length, from + BLOCK_CHARS - block.chars);
      while (to < most && block.lines < BLOCK_LINES) {
        const next = text.indexOf("\n", to);
        if (next < 0 || next >= most) { to = most; break; }
        to = next + 1;
        block.lines++;
      }
      const last = text.charCodeAt(to - 1);
      if (to < text.length && last >= 0xd800 && last < 0xdc00) to++;
      this.append(stream, text.slice(from, to));
      from = to;
      if (block.lines >= BLOCK_LINES || block.chars >= BLOCK_CHARS) this.seal();
    }
  }

  append(stream, text) {
    const block = this.block;
    const node = document.createTextNode(text);
    let holder = node;
    if (stream.err || !stream.ink.plain) {
      holder = document.createElement("span");
      if (stream.err) holder.className = "err";
      stream.ink.dress(holder);
      holder.append(node);
    }
    block.element.append(holder);
    block.chars += text.length;
    const line = text.lastIndexOf("\n");
    if (line >= 0) block.mark = { holder, node, offset: line + 1 };
  }

  // line is the current line.
  line() {
    if (!this.block) return "";
    const { element, mark } = this.block;
    if (!mark) return element.textContent;
    let text = mark.node.data.slice(mark.offset);
    for (let node = mark.holder.nextSibling; node; node = node.nextSibling) text += node.textContent;
    return text;
  }

  // erase takes back the current line, as a carriage return has it.
  erase() {
    if (!this.block) return;
    const { element, mark } = this.block;
    if (!mark) {
      element.replaceChildren();
      this.block.chars = 0;
      return;
    }
    this.block.chars = Math.max(0, this.block.chars - this.line().length);
    while (element.lastChild !== mark.holder) element.lastChild.remove();
    mark.node.data = mark.node.data.slice(0, mark.offset);
  }
}
