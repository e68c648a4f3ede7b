/** One library, one mode, one event, in a process of its own: prints events per second of the best round, and the median. */

import { readFileSync } from "node:fs";
import { unframed } from "./corpus.mjs";
import { readers } from "./readers.mjs";

const [library, encoding, compression, file, rounds] = process.argv.slice(2);
const rates = [];
let count = 0;
for (let round = 0; round < Number(rounds) + 1; round += 1) {
  const frames = unframed(readFileSync(file));
  let push;
  try {
    push = await readers[library](encoding, compression, () => void (count += 1));
  } catch (error) {
    if (!String(error).includes("cannot:")) throw error;
    console.log(JSON.stringify({ cannot: error.message }));
    process.exit(0);
  }
  count = 0;
  const started = process.hrtime.bigint();
  let last;
  for (const frame of frames) last = push(frame);
  await last;
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  if (count !== frames.length) throw new Error(`${library}: ${count} events of ${frames.length}`);
  // The first round warms up.
  if (round > 0) rates.push(frames.length / seconds);
}
rates.sort((a, b) => a - b);
console.log(JSON.stringify({ median: rates[rates.length >> 1], best: rates.at(-1) }));
process.exit(0);
