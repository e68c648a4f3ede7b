/**
 * Events per second of CPU time, from the payload of a frame to the raw event, for several libraries on the same bytes.
 *
 *     npm ci --prefix bench && npm run build && npm run bench [-- --rounds 7] [--turns 3] [--only eris,tiny-discord] [--json FILE]
 *
 * Libraries take turns row by row, `--turns` times, each in a process of its own; a rate is the median. TINY_DISCORD names a clone of tiny-discord. Python with the package zstandard makes the zstd streams
 * (`--python PATH`); without it their rows are left out.
 */

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { bodies, frames } from "./corpus.mjs";
import { readers } from "./readers.mjs";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "7" }, turns: { type: "string", default: "1" }, only: { type: "string" }, json: { type: "string" }, python: { type: "string", default: "python3" } } });
const folder = mkdtempSync(path.join(os.tmpdir(), "sdk-bench-"));
const hasZstd = spawnSync(values.python, ["-c", "import zstandard"]).status === 0;
if (!hasZstd) console.log("zstd rows are left out: pip install zstandard");
const names = Object.keys(readers).filter((name) => !values.only || values.only.split(",").includes(name) || name.startsWith("guildhall"));
const all = bodies();
const rows = [];
console.log(["event", "encoding", "compression", "KB/event raw", "on the wire", ...names].join(" | "));
for (const event of ["GUILD_CREATE", "MESSAGE_CREATE"]) {
  for (const encoding of ["json", "etf"]) {
    let rawBytes = 0;
    for (const compression of ["none", "zlib-stream", "zstd-stream"]) {
      if (compression === "zstd-stream" && !hasZstd) continue;
      const file = path.join(folder, "frames");
      const data = await frames(event, all, encoding, compression, values.python);
      writeFileSync(file, data);
      const bytes = data.length / all[event].length - 4;
      if (compression === "none") rawBytes = bytes;
      const measured = Object.fromEntries(names.map((name) => [name, []]));
      for (let turn = 0; turn < Number(values.turns); turn += 1) {
        for (const name of names) {
          const out = execFileSync(process.execPath, [new URL("measure.mjs", import.meta.url).pathname, name, encoding, compression, file, values.rounds], { stdio: ["ignore", "pipe", "inherit"] });
          const { median } = JSON.parse(out);
          if (median) measured[name].push(median);
        }
      }
      const rates = Object.fromEntries(names.map((name) => [name, measured[name].sort((a, b) => a - b)[measured[name].length >> 1] ?? null]));
      rows.push({ event, encoding, compression, rawBytes: Math.round(rawBytes), wireBytes: Math.round(bytes), rates });
      const shown = names.map((name) => (rates[name] ? Math.round(rates[name]).toLocaleString("en") : "–"));
      console.log([event, encoding, compression, (rawBytes / 1000).toFixed(2), (bytes / 1000).toFixed(2), ...shown].join(" | "));
    }
  }
}
rmSync(folder, { recursive: true });
const machine = { node: process.version, cpu: os.cpus()[0]?.model, cores: os.cpus().length, load: os.loadavg(), date: new Date().toISOString().slice(0, 10) };
if (values.json) writeFileSync(values.json, `${JSON.stringify({ machine, rows }, null, 1)}\n`);
