// Drafts: what was typed and not sent yet stays in the browser, for the person who is
// signed in and the page it was typed in, until it is sent or they sign out.
const prefix = `airlock:draft:${document.body.dataset.owner ?? ""}:`;
const most = 20; // drafts; the oldest go first

// restore returns the draft of the page that is open now, undefined if there is none.
export function restore(page = location.pathname) {
  try {
    return JSON.parse(localStorage.getItem(prefix + page))?.value;
  } catch {
    return undefined; // no storage, or no draft of ours
  }
}

export function keep(value, page = location.pathname) {
  try {
    localStorage.setItem(prefix + page, JSON.stringify({ at: Date.now(), value }));
    const all = Object.keys(localStorage).filter((k) => k.startsWith(prefix));
    if (all.length > most) {
      const age = (k) => JSON.parse(localStorage.getItem(k))?.at ?? 0;
      all.sort((a, b) => age(a) - age(b));
      for (const key of all.slice(0, all.length - most)) localStorage.removeItem(key);
    }
    return true;
  } catch {
    return false; // no room, or no storage: the page works without
  }
}

export function forget(page = location.pathname) {
  try {
    localStorage.removeItem(prefix + page);
  } catch {
    // then there was none
  }
}
