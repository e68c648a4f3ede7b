/**
 * Client libraries side by side: events per second from a loopback socket to the raw event.
 *
 *     npm ci --prefix bench/clients && npm run build --prefix sdk/typescript && make build-bench
 *     node bench/clients/run.mjs [--rounds 5] [--only eris,tiny-discord] [--chat FILE] [--json FILE] [--markdown FILE]
 *
 * `guildhall-bench capture` writes what a bot receives, `guildhall replay` sends it to each library in each mode. The
 * libraries alternate, row by row and round by round, each in a process of its own; figures are medians of the rounds.
 * TINY_DISCORD names a clone of tiny-discord. `--programs FOLDER` has both programs of Guildhall. The files are written
 * after each round; `--summary` ends with the result as one line of JSON.
 */

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { libraries, versions } from "./libraries.mjs";
import { shares } from "./profile.mjs";
import { markdown } from "./table.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, "../..");
const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    passes: { type: "string", default: "4" },
    guilds: { type: "string", default: "2450" },
    messages: { type: "string", default: "5000" },
    "pause-ms": { type: "string", default: "700" },
    only: { type: "string" },
    encodings: { type: "string", default: "json,etf" },
    compressions: { type: "string", default: "none,zlib-stream,zstd-stream" },
    processing: { type: "string", default: "off,own" },
    chat: { type: "string" },
    json: { type: "string" },
    markdown: { type: "string" },
    programs: { type: "string", default: path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target"), "release") },
    summary: { type: "boolean", default: false },
    "no-profile": { type: "boolean", default: false },
  },
});
/** Guilds before the messages: libraries drop messages of guilds that they do not know. */
const GUILDS_OF_MESSAGES = 50;
const SECONDS_MAX = 20;
/** Ours is not called ahead below it. */
const DRAW = 1.1;

const folder = mkdtempSync(path.join(os.tmpdir(), "clients-bench-"));
const wanted = values.only?.split(",");
const names = Object.keys(libraries).filter((name) => !wanted || wanted.includes(name) || name.startsWith("guildhall"));
const sections = {
  GUILD_CREATE: { guilds: Number(values.guilds), messages: 0, count: Number(values.guilds) },
  MESSAGE_CREATE: { guilds: Math.min(GUILDS_OF_MESSAGES, Number(values.guilds)), messages: Number(values.messages), count: Number(values.messages) },
};

/** Replays a capture of this section. Resolves to its process and addresses. */
function replay(event) {
  const file = path.join(folder, `${event}.ndjson.zst`);
  const { guilds, messages } = sections[event];
  const chat = values.chat ? ["--chat", values.chat] : [];
  const size = ["--guilds", String(guilds), "--messages", String(messages), "--pause-ms", values["pause-ms"]];
  execFileSync(path.join(values.programs, "guildhall-bench"), ["capture", ...size, ...chat, "--out", file]);
  const child = spawn(path.join(values.programs, "guildhall"), ["replay", file, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr.on("data", (part) => {
      text += part;
      const found = /gateway (\S+), REST (\S+);/.exec(text);
      if (found) resolve({ child, gateway: found[1], api: found[2] });
    });
    child.on("exit", () => reject(new Error(`guildhall replay: ${text}`)));
  });
}

function measure(mode) {
  const out = execFileSync(process.execPath, [path.join(HERE, "measure.mjs"), JSON.stringify(mode)], { stdio: ["ignore", "pipe", "inherit"], timeout: (SECONDS_MAX + 5) * 1000 * mode.passes });
  return JSON.parse(out.toString().trim().split("\n").at(-1));
}

function median(numbers) {
  if (numbers.length === 0) return null;
  const sorted = [...numbers].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** All rows, without figures. */
function plan() {
  const rows = [];
  for (const event of Object.keys(sections)) {
    for (const processing of values.processing.split(",")) {
      for (const encoding of values.encodings.split(",")) {
        for (const compression of values.compressions.split(",")) rows.push({ event, processing, encoding, compression, results: {}, reasons: {}, failures: {} });
      }
    }
  }
  return rows;
}

/** The row's libraries that can do it, the fastest first, with the median of their CPU rates. */
function ranking(row) {
  const rates = Object.entries(row.results).map(([name, { cpu }]) => [name, median(cpu)]);
  return rates.filter(([name, rate]) => rate && name !== "guildhall, not decoded").sort((a, b) => b[1] - a[1]);
}

function profile(row, mode) {
  const found = {};
  const best = ranking(row).find(([name]) => name !== "guildhall");
  for (const library of ["guildhall", best[0]]) {
    const file = path.join(folder, "profile.json");
    const { failed } = measure({ ...mode, library, profile: file });
    if (!failed) found[library] = shares(file);
  }
  return found;
}

function git(folder) {
  try {
    return execFileSync("git", ["-C", folder, "rev-parse", "--short=8", "HEAD"], { stdio: ["ignore", "pipe", "ignore"] }).toString().trim();
  } catch {
    return null;
  }
}

function modeOf(row, gateways) {
  const { event, processing, encoding, compression } = row;
  const { gateway, api } = gateways[event];
  return { event, processing, encoding, compression, ...sections[event], gateway, api, passes: Number(values.passes), seconds: SECONDS_MAX };
}

/** One round of a row: each library that can do it, beginning with another one each round. */
function measureRow(row, gateways, round) {
  for (let at = 0; at < names.length; at += 1) {
    const library = names[(at + round) % names.length];
    if (row.reasons[library]) continue;
    const { cpu, wall, cannot, failed } = measure({ ...modeOf(row, gateways), library });
    if (cannot) row.reasons[library] = cannot;
    else if (failed) row.failures[library] = failed;
    else {
      const kept = (row.results[library] ??= { cpu: [], wall: [] });
      kept.cpu.push(cpu);
      kept.wall.push(wall);
    }
  }
}

function ratio(row) {
  const ours = median(row.results.guildhall?.cpu ?? []);
  const best = ranking(row).find(([name]) => name !== "guildhall");
  return ours && best ? ours / best[1] : null;
}

/** The result so far: medians of the rounds. */
function result(rows, loads) {
  const round = ({ cpu, wall }) => ({ cpu: Math.round(median(cpu)), wall: Math.round(median(wall)), cpu_rounds: cpu.map(Math.round) });
  const finished = rows.map((row) => ({ ...row, ratio: ratio(row), results: Object.fromEntries(Object.entries(row.results).map(([name, of]) => [name, round(of)])) }));
  return {
    node: process.version, cpu: os.cpus()[0]?.model, cores: os.cpus().length, loads, date: new Date().toISOString().slice(0, 10), commit: git(ROOT),
    rounds: loads.length - 1, guilds: sections.GUILD_CREATE.count, messages: sections.MESSAGE_CREATE.count, chat: values.chat ? "a file of real chat" : "the built-in texts",
    versions: { ...versions(), "tiny-discord": process.env.TINY_DISCORD ? git(process.env.TINY_DISCORD) : null }, names, rows: finished,
  };
}

function write(rows, loads) {
  const found = result(rows, loads);
  if (values.json) writeFileSync(values.json, `${JSON.stringify(found)}\n`);
  if (values.markdown) writeFileSync(values.markdown, markdown(found));
  return found;
}

const gateways = {};
for (const event of Object.keys(sections)) gateways[event] = await replay(event);
const rows = plan();
const loads = [os.loadavg()[0]];
let found;
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const row of rows) {
      measureRow(row, gateways, round);
      const shown = ranking(row).map(([name, rate]) => `${name} ${Math.round(rate)}`);
      console.log(`${round + 1}: ${row.event} ${row.processing} ${row.encoding} ${row.compression}: ${shown.join(", ")}`);
    }
    loads.push(os.loadavg()[0]);
    write(rows, loads);
  }
  if (!values["no-profile"]) for (const row of rows) if (ratio(row) < DRAW && ratio(row)) row.profile = profile(row, modeOf(row, gateways));
  found = write(rows, loads);
} finally {
  for (const { child } of Object.values(gateways)) {
    child.removeAllListeners("exit");
    child.kill();
  }
  rmSync(folder, { recursive: true });
}
if (values.summary) console.log(JSON.stringify(found));
else console.log(markdown(found));
