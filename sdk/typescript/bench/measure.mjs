/** One library, one mode, one event, in a process of its own: prints events per second of CPU time, the median
 * of the rounds. CPU time counts all threads of the process and is not disturbed by other programs on the machine. */

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
    count = 0;
    push = await readers[library](encoding, compression, () => void (count += 1));
  } catch (error) {
    if (!String(error).includes("cannot:")) throw error;
    console.log(JSON.stringify({ cannot: error.message }));
    process.exit(0);
  }
  const started = process.cpuUsage();
  let last;
  for (const frame of frames) last = push(frame);
  await last;
  // detritus emits its events in a later turn of the loop; it and discordeno inflate in the thread pool.
  for (const deadline = Date.now() + 30_000; count < frames.length && Date.now() < deadline; ) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  const used = process.cpuUsage(started);
  const seconds = (used.user + used.system) / 1e6;
  if (count !== frames.length) throw new Error(`${library}: ${count} events of ${frames.length}`);
  // The first round warms up.
  if (round > 0) rates.push(frames.length / seconds);
}
rates.sort((a, b) => a - b);
console.log(JSON.stringify({ median: rates[rates.length >> 1], best: rates.at(-1) }));
process.exit(0);
