// Connects and resolves with everything that the runtime has.
// weaken: network namespace, bring up loopback
const net = require("net"), dgram = require("dgram"), dns = require("dns"), http = require("http");
const attempts = [];
const attempt = (what, start) => attempts.push(new Promise((end) => {
  const timer = setTimeout(() => { tried(`${what}: no answer`); end(); }, 1500);
  start((error, value) => { clearTimeout(timer); tried(`${what}: ${error || value}`); if (!error) breach(`${what} gave ${value}`); end(); });
}));
const port = Number(process.env.H_TCP);
for (const host of ["127.0.0.1", "localhost", process.env.H_ADDRESS || "10.0.0.1", "169.254.169.254", "::1"]) {
  attempt(`tcp ${host}`, (end) => net.connect(port, host).on("data", (d) => end(null, d)).on("error", end));
  attempt(`http ${host}`, (end) => http.get({ host, port: 80 }, (r) => end(null, r.statusCode)).on("error", end));
}
for (const path of [process.env.H_UNIX, "\0" + process.env.H_ABSTRACT]) attempt(`unix ${path}`, (end) => net.connect(path).on("data", (d) => end(null, d)).on("error", end));
attempt("lookup", (end) => dns.lookup("example.org", end));
attempt("resolve", (end) => new dns.Resolver({ timeout: 200, tries: 1 }).resolve4("example.org", end));
attempt("udp", (end) => { const s = dgram.createSocket("udp4").on("message", (m) => end(null, m)).on("error", end); s.send("x", Number(process.env.H_UDP), "127.0.0.1"); });
if (globalThis.fetch) attempt("fetch", (end) => fetch("http://example.org").then((r) => end(null, r.status), end));
Promise.all(attempts).then(() => { done(); process.exit(0); });
