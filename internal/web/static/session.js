// A live session, through the native API: what a notebook asks of it.
import { meta, problemOf, Problem } from "./page.js";
import { events, follow } from "./stream.js";

const WEEK = 7 * 24 * 3600;

export class Session {
  constructor(api, id, language, image = "") {
    this.api = api;
    this.id = id;
    this.language = language; // of a session that is made
    this.image = image;       // likewise; empty: the usual one
  }

  async send(path, options = {}) {
    const answer = await this.once(path, options);
    // The tokens of pages end with the service, notebooks do not: a new page has a new one.
    if (answer.status === 403 && await renew()) return this.checked(await this.once(path, options));
    return this.checked(answer);
  }

  // elsewhere asks another address of ours than the API's.
  elsewhere(url, options) {
    return new Session("", "").send(url, options);
  }

  async checked(answer) {
    if (!answer.ok) throw problemOf(answer.status, await answer.text());
    return answer;
  }

  async once(path, { method = "GET", body, raw, headers = {}, signal } = {}) {
    let answer;
    try {
      answer = await fetch(`${this.api}${path}`, {
        method, signal, credentials: "same-origin", redirect: "error",
        body: raw ?? (body && JSON.stringify(body)),
        headers: { "X-Airlock-Token": meta("token"), ...(body ? { "Content-Type": "application/json" } : {}), ...headers },
      });
    } catch (e) {
      if (e.name === "AbortError") throw e;
      throw new Problem("The service cannot be reached.", "What you write is kept in this browser; try again.");
    }
    return answer;
  }

  async json(path, options) {
    const text = await (await this.send(path, options)).text();
    return text ? JSON.parse(text) : null;
  }

  // make makes the session, once, when something is first to be in it.
  make() {
    const body = { kind: "live", language: this.language, image: this.image || null };
    this.making ??= this.id ? Promise.resolve() : this.json("/sessions", { method: "POST", body: { ...body, ttl_seconds: WEEK } })
      .catch((e) => {
        if (e.status !== 400) throw e; // a service that keeps sessions for less
        return this.json("/sessions", { method: "POST", body });
      })
      .then((made) => { this.id = made.id; this.made?.(); }, (e) => { this.making = null; throw e; });
    return this.making;
  }

  at(path) { return `/sessions/${this.id}${path}`; }
  call(path, body = {}) { return this.json(this.at(path), { method: "POST", body }); }
  get(path) { return this.json(this.at(path)); }

  // run runs a cell and tells what happens; it returns the cell as it ended. The
  // connection may break: it is made again, after the last event that came.
  async run(request, tell) {
    await this.make();
    const answer = await this.send(this.at("/cells"), { method: "POST", body: request, headers: { Accept: "text/event-stream" } });
    const cell = answer.headers.get("Location")?.split("/").pop();
    return this.follow(cell, tell, answer);
  }

  follow(cell, tell, answer) {
    return follow((headers) => this.send(this.at(`/cells/${cell}/events`), { headers }), "done", tell, { answer });
  }

  // install installs packages in the session, and tells what the installer says; it returns how that ended.
  async install(names, tell) {
    await this.make();
    const answer = await this.send(this.at("/packages"), { method: "POST", body: { names }, headers: { Accept: "text/event-stream" } });
    for await (const { type, data } of events(answer.body)) {
      if (type === "done") return data;
      tell(type, data);
    }
    throw new Problem("The connection broke while packages were installed.", "Install them again.");
  }

  // comm sends a message to an object of Python, and tells what comes of it; it returns the end.
  async comm(message, tell) {
    const answer = await this.send(this.at("/comms"), { method: "POST", body: message, headers: { Accept: "text/event-stream" } });
    for await (const { type, data } of events(answer.body)) {
      if (type === "done") return data;
      tell(type, data);
    }
    return null;
  }

  write(path, content) {
    return this.make().then(() => this.json(this.at(`/fs/write?path=${encodeURIComponent(path)}`), { method: "POST", raw: content, headers: { "Content-Type": "application/octet-stream" } }));
  }
  read(path, options) { return this.send(this.at(`/fs/read?path=${encodeURIComponent(path)}`), options); }
}

// renew takes the token of a page that is made now, and reports whether there is another.
async function renew() {
  const page = await fetch(location.href, { credentials: "same-origin", redirect: "error" }).then((a) => a.text(), () => "");
  const token = new DOMParser().parseFromString(page, "text/html").querySelector("meta[name=airlock-token]")?.content;
  if (!token || token === meta("token")) return false;
  document.querySelector("meta[name=airlock-token]").content = token;
  return true;
}
