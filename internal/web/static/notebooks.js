// A notebook from this computer is opened as a new one.
import { fileNameOf, fromFile, maxNotebook, toFile, unsaved } from "./nbformat.js";
import { Session } from "./session.js";
import * as drafts from "./stash.js";

const notice = document.getElementById("notice");
document.getElementById("import").addEventListener("change", async (e) => {
  const [file] = e.target.files;
  if (!file) return;
  try {
    if (file.size > maxNotebook) throw new Error(`This notebook has ${Math.round(file.size / 2 ** 20)} MiB; the page opens up to ${maxNotebook >> 20} MiB. Clear its outputs in Jupyter first: jupyter nbconvert --clear-output.`);
    const { cells, language, metadata } = fromFile(await file.text());
    if (!language) throw new Error("This notebook is in a language that notebooks do not run here: they run Python, JavaScript, TypeScript, Bash and R.");
    const kept = await drafts.put(unsaved(language), { title: file.name.replace(/\.ipynb$/, ""), file: JSON.stringify(toFile(cells, language, metadata)), saved: false });
    if (!kept) throw new Error("This browser could not keep the notebook: allow this page to store data, or free some space.");
    const image = document.getElementById("image")?.value ?? "";
    location.assign(new URL(`notebooks/new?language=${language}&image=${encodeURIComponent(image)}`, document.baseURI));
  } catch (error) {
    tell(error.message);
    e.target.value = "";
  }
});

function tell(words) {
  notice.textContent = words;
  notice.hidden = false;
}

// A notebook is called as its file is.
for (const form of document.querySelectorAll("form[data-notebook]")) {
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const id = form.dataset.notebook, field = form.elements.namedItem("name");
    const before = `${field.defaultValue}.ipynb`, name = fileNameOf(field.value);
    const session = new Session(notice.dataset.api, id);
    try {
      if (name !== before) {
        const taken = await session.get(`/fs/stat?path=${encodeURIComponent(name)}`).catch((error) => { if (error.status !== 404) throw error; });
        if (taken) throw new Error(`there is another file "${name}" in its session.`);
        await session.json(session.at(`/fs/move?from=${encodeURIComponent(before)}&to=${encodeURIComponent(name)}`), { method: "POST" });
      }
      const draft = await drafts.get(id);
      if (draft) await drafts.put(id, { ...draft, title: name.replace(/\.ipynb$/, "") });
      location.reload();
    } catch (error) {
      tell(`The notebook was not renamed: ${error.words ?? error.message}`);
    }
  });
}
