// A notebook from this computer is opened as a new one.
import { fromFile, maxNotebook, toFile, unsaved } from "./nbformat.js";
import * as drafts from "./stash.js";

const notice = document.getElementById("notice");
document.getElementById("import").addEventListener("change", async (e) => {
  const [file] = e.target.files;
  if (!file) return;
  try {
    if (file.size > maxNotebook) throw new Error(`This notebook has ${Math.round(file.size / 2 ** 20)} MiB; the page opens up to ${maxNotebook >> 20} MiB. Clear its outputs in Jupyter first: jupyter nbconvert --clear-output.`);
    const { cells, language } = fromFile(await file.text());
    if (!language) throw new Error("This notebook is in a language that notebooks do not run here: they run Python, JavaScript, TypeScript, Bash and R.");
    const kept = await drafts.put(unsaved(language), { title: file.name.replace(/\.ipynb$/, ""), file: JSON.stringify(toFile(cells, language)), saved: false });
    if (!kept) throw new Error("This browser could not keep the notebook: allow this page to store data, or free some space.");
    const image = document.getElementById("image")?.value ?? "";
    location.assign(new URL(`notebooks/new?language=${language}&image=${encodeURIComponent(image)}`, document.baseURI));
  } catch (error) {
    notice.textContent = error.message;
    notice.hidden = false;
    e.target.value = "";
  }
});
