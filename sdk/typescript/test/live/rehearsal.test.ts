/** The SDK against the scenarios of `guildhall mock`, one after the other, a client for each. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, describe, test } from "node:test";
import { etf, zlibStream, zstdStream } from "../../src/codecs.node.js";
import { Client, json, none, Intents, type Compression, type Encoding } from "../../src/node.js";
import { binary, end } from "../support/node.js";

const clients: Client[] = [];
after(() => {
  for (const client of clients) client.close();
});

const modes: [Encoding, () => Compression][] = [
  [json, () => none],
  [json, () => zlibStream()],
  [json, () => zstdStream()],
  [etf, () => none],
  [etf, () => zlibStream()],
  [etf, () => zstdStream()],
];

/** The SDK has no REST, so the scenarios with 429 have only the upgrade to refuse. */
const SCENARIOS = [
  "plain",
  "op-1",
  "op-7",
  "op-9-true",
  "op-9-false",
  "replay",
  "resume-refused",
  "close-4000",
  "close-4004",
  "close-4007",
  "close-4014",
  "drop-fin",
  "drop-reset",
  "lost-ack",
  "split-bytes",
  "fragments",
  "glued",
  "big-ready",
  "unknown-op",
  "unknown-event",
] as const;

interface Verdict {
  outcome: "passed" | "failed";
  reason?: string;
}

async function play(scenario: string, encoding: Encoding, compression: Compression): Promise<Verdict> {
  const mock = spawn(binary, ["mock", scenario, "--json", "--patience", "2", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "pipe"] });
  let [output, log] = ["", ""];
  mock.stdout.on("data", (data: Buffer) => void (output += data.toString()));
  const url = await new Promise<string>((resolve, reject) => {
    mock.on("exit", () => reject(new Error(log)));
    mock.stderr.on("data", (data: Buffer) => {
      log += data.toString();
      const found = /^gateway (\S+),/m.exec(log);
      if (found?.[1]) resolve(found[1]);
    });
  });
  const client = new Client({ url, token: "rehearsal", encoding, compression: [compression], intents: Intents.GUILDS, backoffMinMs: 50 });
  clients.push(client);
  client.connect();
  await new Promise((resolve) => mock.on("close", resolve));
  await end(mock, () => log);
  client.close();
  return JSON.parse(output) as Verdict;
}

describe("rehearsal", { timeout: 300_000, concurrency: 8 }, () => {
  for (const [encoding, compression] of modes) {
    const made = compression();
    test(`late-flush: ${encoding.name}, ${made.name}`, async () => {
      const { outcome, reason } = await play("late-flush", encoding, made);
      assert.equal(outcome, "passed", reason);
    });
  }
  for (const [number, scenario] of SCENARIOS.entries()) {
    const [encoding, compression] = modes[number % modes.length] ?? [json, () => none];
    const made = compression();
    test(`${scenario}: ${encoding.name}`, async () => {
      const { outcome, reason } = await play(scenario, encoding, made);
      assert.equal(outcome, "passed", reason);
    });
  }
});
