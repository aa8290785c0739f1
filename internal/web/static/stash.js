// Notebooks that are written and not saved yet: IndexedDB, which takes large ones.
const owner = document.body.dataset.owner ?? "";

const opened = new Promise((done, fail) => {
  const request = indexedDB.open("airlock", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("notebooks");
  request.onsuccess = () => done(request.result);
  request.onerror = () => fail(request.error);
}).catch(() => null);

// on returns the result once the transaction is complete: leaving the page aborts it before.
async function on(mode, act) {
  const db = await opened;
  if (!db) return undefined;
  return new Promise((done) => {
    const transaction = db.transaction("notebooks", mode);
    const request = act(transaction.objectStore("notebooks"));
    transaction.oncomplete = () => done(request.result);
    transaction.onabort = () => done(undefined);
  });
}

export const get = (id) => on("readonly", (s) => s.get(`${owner}:${id}`));
export const put = (id, value) => on("readwrite", (s) => s.put({ ...value, at: Date.now() }, `${owner}:${id}`));
export const drop = (id) => on("readwrite", (s) => s.delete(`${owner}:${id}`));
