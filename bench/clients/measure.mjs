/**
 * One library in one mode, in a process of its own. Its argument is the mode as JSON; it prints events per second of wall
 * time and of CPU time (user and system, all threads).
 *
 * The client connects `passes` times; the first time warms up, and of the others the one with the least CPU time counts:
 * garbage collection and other programs only add to it. A capture has a pause before what is measured, in which the CPU
 * clock is read. With `profile`, a CPU profile of what is measured is written to that file.
 */

import { writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { setTimeout as wait } from "node:timers/promises";
import { libraries } from "./libraries.mjs";

const mode = JSON.parse(process.argv[2]);
/** After the last event before the measured ones; shorter than the pause of the capture. */
const SETTLE_MS = 150;

process.on("unhandledRejection", (error) => { throw error; });
process.on("uncaughtException", (error) => {
  console.log(JSON.stringify({ failed: String(error.message ?? error).split("\n")[0].slice(0, 200) }));
  process.exit(0);
});

/** V8 counts a built-in function as a part of its caller: JSON.parse gets a frame of its own. */
async function profiler() {
  const { parse } = JSON;
  JSON.parse = function jsonParse(text, reviver) { return parse(text, reviver); };
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: 200 });
  return session;
}

const profiling = mode.profile ? await profiler() : null;

async function pass(isLast) {
  const before = mode.event === "GUILD_CREATE" ? "READY" : "GUILD_CREATE";
  const beforeCount = before === "READY" ? 1 : mode.guilds;
  let seen = 0;
  let count = 0;
  let started = null;
  let first = 0;
  let done;
  const finished = new Promise((resolve, reject) => {
    done = resolve;
    const timer = setTimeout(() => reject(new Error(`${count} of ${mode.count} events within ${mode.seconds} s`)), mode.seconds * 1000);
    timer.unref();
  });
  const stop = await libraries[mode.library](mode, (name) => {
    if (name === mode.event) {
      count += 1;
      if (count === 1) {
        if (!started) throw new Error("the capture's pause is too short for this machine");
        first = performance.now();
      }
      if (count === mode.count) done({ used: process.cpuUsage(started), ms: performance.now() - first });
    } else if (name === before && (seen += 1) === beforeCount) {
      setTimeout(() => {
        if (isLast) void profiling?.post("Profiler.start");
        started = process.cpuUsage();
      }, SETTLE_MS);
    }
  });
  const { used, ms } = await finished;
  if (isLast && profiling) writeFileSync(mode.profile, JSON.stringify((await profiling.post("Profiler.stop")).profile));
  await stop();
  return { cpu: mode.count / ((used.user + used.system) / 1e6), wall: (mode.count - 1) / (ms / 1e3) };
}

let result;
try {
  for (let at = 0; at < mode.passes; at += 1) {
    const measured = await pass(at === mode.passes - 1);
    if (at <= 1 || measured.cpu > result.cpu) result = measured;
    await wait(20);
  }
} catch (error) {
  if (!error.message.startsWith("cannot: ")) throw error;
  result = { cannot: error.message.slice("cannot: ".length) };
}
console.log(JSON.stringify(result));
process.exit(0);
