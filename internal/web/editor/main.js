// The editor of the page: CodeMirror 6 with the languages that Airlock runs.
// It is bundled into ../static/editor.js by `make editor`.
import { EditorState, Compartment, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, drawSelection, dropCursor, placeholder } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { acceptCompletion, autocompletion, closeCompletion, completionKeymap, completionStatus, startCompletion } from "@codemirror/autocomplete";
import { bracketMatching, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { searchKeymap, highlightSelectionMatches } from "@codemirror/search";
import { classHighlighter } from "@lezer/highlight";
import { python } from "@codemirror/lang-python";
import { javascript } from "@codemirror/lang-javascript";
import { c, clike, cpp, java } from "@codemirror/legacy-modes/mode/clike";
import { go } from "@codemirror/legacy-modes/mode/go";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { d } from "@codemirror/legacy-modes/mode/d";
import { fortran } from "@codemirror/legacy-modes/mode/fortran";
import { r } from "@codemirror/legacy-modes/mode/r";

// The grammar of PHP would weigh a fifth of the bundle: its words are enough.
const words = (list) => Object.fromEntries(list.split(" ").map((word) => [word, true]));
const php = clike({
  name: "php",
  keywords: words("abstract and array as break case catch class clone const continue declare default do echo else elseif enum extends final finally fn for foreach function global if implements include include_once instanceof interface isset list match namespace new or print private protected public readonly require require_once return static switch throw trait try unset use var while xor yield"),
  blockKeywords: words("catch do else elseif for foreach if switch try while finally"),
  atoms: words("true false null TRUE FALSE NULL"),
  multiLineStrings: true,
  hooks: {
    $: (stream) => { stream.eatWhile(/[\w$]/); return "variableName.special"; },
    "#": (stream) => { stream.skipToEnd(); return "comment"; },
  },
});

// By the names of Airlock's table of languages.
const stream = (mode) => () => StreamLanguage.define(mode);
const languages = {
  python: () => python(),
  js: () => javascript(),
  ts: () => javascript({ typescript: true }),
  bash: stream(shell), c: stream(c), cpp: stream(cpp), java: stream(java), php: stream(php), rust: stream(rust),
  go: stream(go), d: stream(d), fortran: stream(fortran), r: stream(r),
};

function languageOf(name) {
  const make = languages[name];
  return make ? [make(), indentUnit.of(name === "python" || name === "rust" || name === "java" ? "    " : name === "go" ? "\t" : "  ")] : [];
}

// Interpreters count characters, the editor counts halves of some.
const characters = (text) => [...text].length;

// assistant asks an interpreter, which knows the names that are defined, how to go on:
// by Ctrl+Space, after a dot and while a name is typed.
function assistant(complete) {
  return autocompletion({
    defaultKeymap: false, // create has its keys
    override: [async (context) => {
      const before = context.matchBefore(/[\w.]+/);
      if (!context.explicit && (!before || before.text.length < 2 && before.text !== ".")) return null;
      const code = context.state.doc.toString();
      const found = await complete(code, characters(code.slice(0, context.pos)));
      if (!found || context.aborted || !found.matches.length) return null;
      const place = (n) => [...code].slice(0, n).join("").length;
      return {
        from: place(found.cursor_start), to: place(found.cursor_end), validFor: /^\w*$/,
        options: found.matches.slice(0, 300).map((label) => ({ label })),
      };
    }],
  });
}

// Tab takes the completion that is shown, asks for some after a name, and else indents.
const completing = { key: "Tab", run: (view) => {
  const { main, ranges } = view.state.selection;
  const before = view.state.sliceDoc(Math.max(0, main.from - 1), main.from);
  return acceptCompletion(view) || ranges.length === 1 && main.empty && /[\w.]/.test(before) && startCompletion(view);
} };

// Esc closes the completions that are shown. If they are only asked for, it is nobody's but the page's.
const closing = { key: "Escape", run: (view) => {
  const shown = completionStatus(view.state) === "active";
  return closeCompletion(view) && shown;
} };

// The line at which a program failed, until it is run again.
const failed = StateEffect.define();
const failedLine = StateField.define({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    marks = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(failed)) marks = effect.value === null ? Decoration.none : Decoration.set(Decoration.line({ class: "cm-failed" }).range(effect.value));
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// create replaces a textarea by an editor that keeps the textarea's value up
// to date, so that its form works as if nothing had happened. With complete and
// inspect, which ask about a place in the code, it helps by Ctrl+Space and Shift+Tab;
// keys are more bindings, as CodeMirror takes them.
export function create(textarea, { language, nonce, label, run, onChange, complete, inspect, keys = [] }) {
  const mode = new Compartment();
  const view = new EditorView({
    parent: textarea.parentElement,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        EditorView.cspNonce.of(nonce),
        lineNumbers(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        dropCursor(),
        placeholder(textarea.placeholder),
        indentOnInput(),
        bracketMatching(),
        highlightSelectionMatches(),
        syntaxHighlighting(classHighlighter),
        EditorState.allowMultipleSelections.of(true),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        complete ? assistant(complete) : [],
        keymap.of([
          ...keys,
          ...(complete ? [completing, closing, ...completionKeymap.filter((binding) => binding.key !== "Escape")] : []),
          ...(inspect ? [{ key: "Shift-Tab", run: (v) => { inspect(v.state.doc.toString(), characters(v.state.sliceDoc(0, v.state.selection.main.head))); return true; } }] : []),
          { key: "Mod-Enter", run: () => { run(); return true; } },
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          textarea.value = update.state.doc.toString();
          if (onChange) onChange();
        }),
        mode.of(languageOf(language)),
        failedLine,
      ],
    }),
  });
  textarea.hidden = true;
  return {
    focus: () => view.focus(),
    get text() { return view.state.doc.toString(); },
    set text(code) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: code } }); },
    complete: () => startCompletion(view),
    // fail marks a line, counted from 1; 0: none.
    fail: (line) => view.dispatch({ effects: failed.of(line > 0 && line <= view.state.doc.lines ? view.state.doc.line(line).from : null) }),
    get cursor() { return view.state.selection.main.head; },
    setLanguage: (name) => view.dispatch({ effects: mode.reconfigure(languageOf(name)) }),
  };
}
