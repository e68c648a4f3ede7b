/**
 * The lab on a live node, from the question to the roll-back: `make lab-demo CHAT=texts.ndjson`.
 *
 * A demo with clients of the SDK of both codecs and both encodings, some of which have the large guild in view:
 * a recording, shown; dictionaries trained on it, tried by experiments, served and withdrawn; two experiments with
 * planted regressions, which guardrails roll back; a dark launch of four arms. It prints what each step printed, checks
 * what must hold, and exits with 1 if something does not.
 *
 *   node bench/lab-demo/run.mjs --guildhall FILE [--chat FILE] [--clients 500] [--view 16] [--rate 200]
 *     [--minutes 5] [--sessions 32] [--dark-minutes 3] [--cpu-permille 10] [--port 8090] [--out DIR] [--pictures DIR]
 */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { Client, json, none } from "../../sdk/typescript/dist/node.js";
import { etf, zlibStream, zstdStream } from "../../sdk/typescript/dist/codecs.node.js";

const { values: args } = parseArgs({
  options: {
    guildhall: { type: "string", default: process.env.GUILDHALL ?? "target/debug/guildhall" },
    chat: { type: "string" },
    clients: { type: "string", default: "500" },
    view: { type: "string", default: "16" },
    rate: { type: "string", default: "200" },
    minutes: { type: "string", default: "5" },
    sessions: { type: "string", default: "32" },
    "dark-minutes": { type: "string", default: "3" },
    "cpu-permille": { type: "string", default: "10" },
    port: { type: "string", default: "8090" },
    out: { type: "string" },
    pictures: { type: "string" },
  },
});
const CLIENTS = Number(args.clients);
const ARMS = ["zstd-once", "zstd:level=3", "zstd", "zlib"];
/** Longest wait for a state. Reconnects of all clients are paced. */
const PATIENCE_MS = 180_000;
/** Dispatches after which a client of the experiments with regressions connects again: a connection is one sample. */
const CONNECTION_DISPATCHES = 130;
/** Clients of zstd-stream with the large guild in view in these experiments. */
const TRIAL_CLIENTS = 24;

const dir = mkdtempSync(join(tmpdir(), "guildhall-lab-demo-"));
const out = resolve(args.out ?? join(dir, "out"));
mkdirSync(out, { recursive: true });
const origin = `http://127.0.0.1:${args.port}`;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, isIt) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await isIt();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`waited ${PATIENCE_MS / 1_000} s for ${what}`);
    await pause(500);
  }
}

function say(text) {
  console.log(text);
  writeFileSync(join(out, "log.txt"), `${text}\n`, { flag: "a" });
}

let key;

/** Runs a command, and prints it with its output. */
async function run(isRemote, ...words) {
  say(`\n$ guildhall ${words.join(" ")}`);
  const { stdout, stderr } = await promisify(execFile)(
    args.guildhall, [...words, ...(isRemote ? ["--server", origin] : [])],
    { cwd: out, env: { ...process.env, GUILDHALL_KEY: key }, maxBuffer: 1 << 26 },
  );
  say(`${stdout}${stderr}`.trimEnd());
  return stdout;
}

const lab = (...words) => run(["record", "dark", "dictionary"].includes(words[0]), "lab", ...words);
const experiment = (...words) => run(true, "experiment", ...words);

async function ask(path, authorization, method = "GET", body) {
  const response = await fetch(`${origin}${path}`, {
    method, headers: { authorization, "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** CPU time of the node, seconds. */
const cpuOf = (pid) => {
  const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[9]) + Number(fields[10])) / 100;
};

const server = spawn(
  args.guildhall,
  [
    "demo", "--listen", `127.0.0.1:${args.port}`, "--data", join(dir, "data"), "--members", String(CLIENTS + 100), "--rate", args.rate,
    ...(args.chat ? ["--chat", resolve(args.chat)] : []), "--set", "limits.rest_rate_percent=0", "--set", "limits.passive_above_members=100",
  ],
  { stdio: ["ignore", "ignore", "pipe"] },
);
let log = "";
server.stderr.on("data", (chunk) => { log = (log + chunk).slice(-20_000); });
const clients = [];
let faults = 0;
let isOver = false;
/** Some clients cannot read their streams, and are to report it. */
let isBroken = false;

/** Kinds of clients: both codecs with both encodings, as many of each. */
const KINDS = [json, etf].flatMap((encoding) => [zstdStream, zlibStream].map((codec) => ({ encoding, codec })));

async function connect(demo) {
  const members = [];
  while (members.length < CLIENTS) {
    const after = members.at(-1)?.user.id ?? "0";
    const page = await ask(`/api/v10/guilds/${demo.guild_id}/members?limit=1000&after=${after}`, `Bot ${demo.bot_token}`);
    if (page.length === 0) throw new Error(`the demo has only ${members.length} members`);
    members.push(...page.filter(({ user }) => !user.bot));
  }
  for (const [index, { user }] of members.slice(0, CLIENTS).entries()) {
    const { token } = await ask(`/v1/users/${user.id}/tokens`, `Bearer ${key}`, "POST", { ttl_s: 86_400 });
    const { encoding, codec } = KINDS[index % KINDS.length];
    const client = new Client({ url: demo.gateway_url, httpUrl: origin, token, encoding, compression: [codec(), none], cache: false, backoffMinMs: 200, backoffMaxMs: 2_000 });
    for (const event of ["gap", "codecFallback", "problem", "stopped"]) {
      client.on(event, (what) => {
        // An account outside of the share has no dictionary, and takes the next compression.
        if (isOver || /node has no dictionary/.test(what.reason)) return;
        if (isBroken && (event === "codecFallback" || what.kind === "codec" || /compression|dictionary/.test(what.message))) return;
        faults += 1;
        say(`client ${index}: ${event} ${JSON.stringify(what)}`);
      });
    }
    client.connect();
    clients.push({ client, encoding, codec });
    if (index % 10 === 9) await client.ready();
  }
  for (const { client } of clients) {
    const ready = await client.ready();
    assert.ok(ready.ok, JSON.stringify(ready));
  }
  for (const { client } of clients.slice(0, Number(args.view))) client.openGuild(demo.guild_id);
}

/** Has all clients of zstd-stream connect again and ask for a dictionary; returns how many connections began with one. */
async function reconnect(ids) {
  const count = async () => {
    const all = await ask("/v1/lab/dictionaries", `Bearer ${key}`);
    return all.filter(({ id }) => ids.includes(id)).reduce((sum, { connections_total }) => sum + connections_total, 0);
  };
  const before = await count();
  const again = clients.filter(({ codec }) => codec === zstdStream);
  for (const { client } of again) {
    client.reconnect({ compression: [zstdStream({ dictionary: true }), zstdStream(), none] });
    await pause(20);
  }
  await until("all clients to be back", () => again.every(({ client }) => client.state === "ready"));
  return [(await count()) - before, again.length];
}

/** zstd-stream whose decoder fails as soon as its stream has a dictionary. */
function brokenDictionary() {
  const inner = zstdStream({ dictionary: true });
  const fail = () => { throw new Error("a decoder that does not know dictionaries"); };
  return {
    name: inner.name, query: inner.query,
    prepare: async (context) => {
      await inner.prepare(context);
      return () => ({ push: fail, free() {} });
    },
  };
}

/** Calls `act` until a guardrail has rolled the experiment back, because of this metric. */
async function untilRolledBack(name, metric, act) {
  const begun = Date.now();
  const of = await until(`the rollback of ${name}`, async () => {
    const now = await ask(`/v1/experiments/${name}`, `Bearer ${key}`);
    if (now.state !== "running") return now;
    await act();
  });
  const seconds = (Date.now() - begun) / 1_000;
  say(`${name}: ${of.state} after ${seconds.toFixed(0)} s: ${of.reason}`);
  await experiment("report", name);
  assert.equal(of.state, "rolled_back");
  assert.ok(of.reason.startsWith(metric), of.reason);
  if (args.pictures) await takePicture(`experiments/${name}`, `lab-demo-${name}`, "section.card", 1_200);
}

/** Experiments with a planted regression: more bytes; a stream that clients cannot read. `id`: a staged dictionary. */
async function regressions(demo, id) {
  const trial = clients.filter(({ codec }) => codec === zstdStream).slice(0, TRIAL_CLIENTS);
  let isTrial = true;
  const views = trial.map((each) => {
    each.count = 0;
    each.client.on("dispatch", () => {
      if ((each.count += 1) < CONNECTION_DISPATCHES || each.client.state !== "ready" || !isTrial) return;
      each.count = 0;
      each.client.reconnect({ compression: [zstdStream(), none] });
    });
    return each.client.openGuild(demo.guild_id);
  });
  await experiment("start", "thin", "--percent", "100", "--samples", "100", "--arm", "control=node", "--arm", "thin=zstd:level=1,window=10");
  await untilRolledBack("thin", "wire_bytes", () => pause(500));
  isTrial = false;
  views.forEach((close) => close());

  isBroken = true;
  const readers = clients.filter(({ codec, encoding }) => codec === zstdStream && encoding === json);
  await experiment("start", "unreadable", "--percent", "100", "--samples", "50", "--arm", "control=node", "--arm", `tried=zstd:dict=${id}`);
  await untilRolledBack("unreadable", "decode_faults", async () => {
    for (const { client } of readers) {
      client.reconnect({ compression: [brokenDictionary(), zstdStream(), none] });
      await pause(20);
    }
    await pause(2_000);
  });
  await until("all clients to be back", () => readers.every(({ client }) => client.state === "ready"));
  say(`all ${readers.length} clients are back, with ${[...new Set(readers.map(({ client }) => client.codec.compression))].join(", ")}`);
  isBroken = false;
}

async function main() {
  await until("the node", async () => {
    if (server.exitCode !== null) throw new Error(`the node ended:\n${log}`);
    return fetch(`${origin}/readyz`).then((response) => response.ok, () => false);
  });
  const demo = JSON.parse(readFileSync(join(dir, "data", "demo.json"), "utf8"));
  key = demo.admin_key;
  await connect(demo);
  say(`${clients.length} clients of the SDK, ${args.view} with the guild in view; ${args.rate} messages a second`);

  const recorded = await lab("record", "--out", "talk.ndjson.zst", "--minutes", args.minutes, "--sessions", args.sessions);
  assert.ok(Number(/(\d+) dispatches/.exec(recorded)[1]) > 3_000, "too few dispatches for a dictionary");
  await lab("show", "talk.ndjson.zst");
  await lab("train", "talk.ndjson.zst", "--out", "dictionaries");

  const files = readdirSync(join(out, "dictionaries")).filter((name) => name.endsWith(".zdict"));
  const ids = files.map((name) => name.split(".")[0]);
  for (const file of files) await lab("dictionary", "stage", join("dictionaries", file));
  const shares = [];
  const note = async (what) => {
    const [begun, count] = await reconnect(ids);
    shares.push(begun / count);
    say(`${what}: ${begun} of ${count} connections began with a dictionary`);
  };
  // An experiment for each encoding. Half of the accounts of one have the arm that is tried.
  const names = ids.map((_, index) => `dictionary${index + 1}`);
  for (const [index, name] of names.entries()) {
    const arms = ["--arm", "control=node", "--arm", `tried=zstd:dict=${ids[index]}`];
    await experiment("start", name, "--layer", name, "--percent", "20", ...arms);
  }
  await note("experiments with 20 % of the accounts");
  for (const name of names) await experiment("ramp", name, "--percent", "100");
  await note("experiments with all accounts");
  for (const name of names) await experiment("report", name);
  for (const name of names) await experiment("stop", name);
  const [stopped] = await reconnect(ids);
  say(`experiments stopped: ${stopped} connections began with a dictionary`);
  assert.equal(stopped, 0);
  await regressions(demo, ids[files.findIndex((name) => name.includes(".json."))]);
  for (const id of ids) await lab("dictionary", "serve", id);
  await note("served to all");
  for (const id of ids) await lab("dictionary", "withdraw", id);
  const [withdrawn] = await reconnect(ids);
  say(`withdrawn: ${withdrawn} connections began with a dictionary`);
  await lab("dictionary", "list");
  const count = clients.filter(({ codec }) => codec === zstdStream).length;
  for (const [index, expected] of [0.1, 0.5, 1].entries()) {
    // Four standard deviations of a share by a hash.
    const most = 4 * Math.sqrt((expected * (1 - expected)) / count);
    assert.ok(Math.abs(shares[index] - expected) <= most, `${shares[index]} of the accounts instead of ${expected}`);
  }
  assert.equal(withdrawn, 0);

  await lab("dark", "start", ...ARMS.flatMap((arm) => ["--arm", arm]), "--cpu-permille", args["cpu-permille"]);
  const [begun, cpu] = [Date.now(), cpuOf(server.pid)];
  await pause(Number(args["dark-minutes"]) * 60_000);
  await lab("dark", "status", "--types");
  const seconds = (Date.now() - begun) / 1_000;
  const launch = await ask("/v1/lab/dark", `Bearer ${key}`);
  say(`the node used ${((cpuOf(server.pid) - cpu) / seconds * 100).toFixed(1)} % of a core, the dark launch ${(launch.cpu_ns / 1e7 / seconds).toFixed(2)} % of one`);
  if (args.pictures) await takePicture("lab", "lab-demo", ".lab table");
  await lab("dark", "stop");

  const ratio = (name) => {
    const { total } = launch.arms.find(({ arm }) => arm.startsWith(name));
    return total.plain_bytes / total.wire_bytes;
  };
  const ratios = ["zstd-once", "zlib", "zstd:level=3", "zstd:level=6"].map(ratio);
  say(`\nratios: one frame per message ${ratios[0].toFixed(2)}, zlib ${ratios[1].toFixed(2)}, zstd level 3 ${ratios[2].toFixed(2)}, zstd as tuned ${ratios[3].toFixed(2)}`);
  assert.ok(ratios[0] < ratios[1] && ratios[1] < ratios[3], "one frame per message is the worst, a stream of zstd ahead of one of zlib");
  assert.ok(launch.cpu_ns / 1e9 <= (seconds * Number(args["cpu-permille"])) / 1_000 * 1.05 + 0.1, "the dark launch kept its budget");
  assert.equal(faults, 0, "no client saw a fault");
}

/** Pictures of a page, by the browser of the dashboard's tests. */
async function takePicture(path, name, sign, height = 1_000) {
  const { closeBrowser, visit } = await import("../../web/dashboard/test/support.js");
  mkdirSync(args.pictures, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit({ origin }, { key, path, colorScheme, viewport: { width: 1280, height } });
    await page.locator(sign).first().waitFor();
    await page.waitForTimeout(3_000);
    await page.screenshot({ path: join(args.pictures, `${name}-${colorScheme}.png`) });
    await page.context().close();
  }
  await closeBrowser();
}

let failed = false;
try {
  await main();
} catch (error) {
  failed = true;
  console.error(error.stderr ?? error);
} finally {
  isOver = true;
  for (const { client } of clients) client.close();
  server.kill("SIGTERM");
  await new Promise((done) => { if (server.exitCode !== null) done(); else server.once("exit", done); });
  if (!args.out && !failed) rmSync(dir, { recursive: true, force: true });
  else say(`the files are in ${out}`);
}
process.exit(failed ? 1 : 0);
