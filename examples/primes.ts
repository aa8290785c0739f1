// Types, an await at the top, and a file that is left.
//
//   airlock run -o out examples/primes.ts
import { writeFile } from "fs/promises";

interface Found {
  prime: number;
  after: number;
}

const found: Found[] = [];
for (let n = 2; found.length < 10; n++) {
  if (found.every(({ prime }) => n % prime !== 0)) {
    found.push({ prime: n, after: n - (found.at(-1)?.prime ?? n) });
  }
}
console.table(found);
await writeFile("primes.json", JSON.stringify(found));
