// Input files: chosen, dropped or pasted. Each goes to the store at once, as
// a stream that the browser reads from the disk, with its progress in sight.
import { announce, meta, named, problemOf, Problem } from "./page.js";

function size(n) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i++; }
  return `${i ? n.toFixed(1).replace(/\.0$/, "") : n} ${units[i]}`;
}

export class Uploads {
  constructor(box) {
    this.box = box;
    this.list = box.querySelector("ul");
    this.url = box.dataset.upload;
    this.max = Number(box.dataset.max);
    this.pending = new Set();
    const chooser = box.querySelector("input[type=file]");
    chooser.removeAttribute("name"); // what is chosen is sent here, not with the form
    chooser.addEventListener("change", () => {
      this.add(chooser.files);
      chooser.value = "";
    });
    this.list.addEventListener("click", (e) => {
      const button = e.target.closest("button");
      if (!button) return;
      const item = button.closest("li");
      item.request?.abort();
      const next = item.nextElementSibling ?? item.previousElementSibling;
      announce(`${named(item.dataset.name)} was taken out.`);
      item.remove();
      (next?.querySelector("button") ?? chooser).focus();
    });
    this.drops();
  }

  drops() {
    let depth = 0;
    const files = (e) => e.dataTransfer?.types.includes("Files");
    document.addEventListener("dragenter", (e) => { if (files(e) && ++depth === 1) this.box.classList.add("over"); });
    document.addEventListener("dragleave", (e) => { if (files(e) && --depth <= 0) { depth = 0; this.box.classList.remove("over"); } });
    document.addEventListener("dragover", (e) => { if (files(e)) e.preventDefault(); });
    // Before the editor, which would put the text of a dropped file into the code.
    document.addEventListener("drop", (e) => {
      if (!files(e)) return;
      e.preventDefault();
      e.stopPropagation();
      depth = 0;
      this.box.classList.remove("over");
      this.add(e.dataTransfer.files);
    }, true);
    document.addEventListener("paste", (e) => {
      if (!e.clipboardData?.files.length) return;
      e.preventDefault();
      e.stopPropagation();
      this.add(e.clipboardData.files);
    }, true);
  }

  add(files) {
    for (const file of files) this.send(file);
  }

  item(name, bytes) {
    const item = document.createElement("li");
    item.className = "input";
    item.dataset.name = name;
    const label = document.createElement("span");
    label.className = "input-name";
    label.textContent = named(name);
    const note = document.createElement("small");
    note.textContent = size(bytes);
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "quiet";
    remove.textContent = "Remove";
    remove.setAttribute("aria-label", `Remove ${named(name)}`);
    item.append(label, note, remove);
    this.list.append(item);
    return { item, note };
  }

  send(file) {
    const { item, note } = this.item(file.name, file.size);
    if (this.max && file.size > this.max) {
      this.fail(item, note, new Problem(`${size(file.size)} is more than the ${size(this.max)} that one file may have.`));
      return;
    }
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", `Uploading ${named(file.name)}`);
    item.append(bar);
    const done = new Promise((settle) => {
      const request = new XMLHttpRequest();
      item.request = request;
      request.upload.addEventListener("progress", (e) => {
        bar.value = e.total ? e.loaded / e.total : 0;
        note.textContent = `${size(e.loaded)} of ${size(e.total)}`;
      });
      request.addEventListener("loadend", () => {
        bar.remove();
        delete item.request;
        if (request.status >= 200 && request.status < 300) {
          const stored = JSON.parse(request.responseText);
          const field = document.createElement("input");
          field.type = "hidden";
          field.name = "file";
          field.value = stored.id;
          item.append(field);
          note.textContent = size(stored.size);
          announce(`${file.name} is uploaded.`);
        } else if (request.status) {
          this.fail(item, note, problemOf(request.status, request.responseText));
        } else if (item.isConnected) {
          this.fail(item, note, new Problem("The upload broke off.", "Add the file again."));
        }
        settle();
      });
      request.open("POST", `${this.url}?name=${encodeURIComponent(file.name)}`);
      request.setRequestHeader("Accept", "application/json");
      request.setRequestHeader("X-Airlock-Token", meta("token"));
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.send(file);
    });
    this.pending.add(done);
    done.then(() => this.pending.delete(done));
  }

  fail(item, note, problem) {
    item.classList.add("failed");
    note.textContent = problem.words;
    announce(`${item.dataset.name}: ${problem.words}`);
  }

  // settled resolves when nothing is under way any more.
  async settled() {
    while (this.pending.size) await Promise.all(this.pending);
  }
}
