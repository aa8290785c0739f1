// How numbers are said on the page, as the service says them.

// duration says milliseconds, as engine.DurationText does.
export function duration(ms) {
  const parts = (n, unit, rest, smaller) => (rest ? `${n} ${unit} ${rest} ${smaller}` : `${n} ${unit}`);
  if (ms < 10) return `${Math.max(ms, 0).toFixed(1).replace(/\.0$/, "")} ms`;
  if (ms < 1000) return `${Math.floor(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  if (ms < 3_600_000) return parts(Math.floor(ms / 60_000), "min", Math.floor(ms / 1000) % 60, "s");
  return parts(Math.floor(ms / 3_600_000), "h", Math.floor(ms / 60_000) % 60, "min");
}

// size says a number of bytes, as page.ByteCount does.
export function size(n) {
  const units = [" KiB", " MiB", " GiB"];
  if (n < 1024) return n === 1 ? "1 byte" : `${n} bytes`;
  let i = -1;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return n.toFixed(1).replace(/\.0$/, "") + units[i];
}
