/** The SDK against a real node, in Node. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { Client, gatewayInfo, json, none, Intents, Shards, type ClientOptions, type Compression, type Encoding } from "../../src/node.js";
import { etf, zlibStream, zstdStream } from "../../src/codecs.node.js";
import { binary, Node, until } from "../support/node.js";

const ODD_TEXTS = ["plain", "ünïcödé €", "😀👩‍👩‍👧", '"quotes" \\ \u0001', "x".repeat(1_900), "\u2028\u2029 end"];

/** All clients: one that a failed test leaves open would keep the process. */
const clients: Client[] = [];
after(() => {
  for (const client of clients) client.close();
});

/** A client and what it received: contents of messages, events that must not happen. */
function watched(options: ClientOptions) {
  const client = new Client({ backoffMinMs: 100, backoffMaxMs: 2_000, ...options });
  clients.push(client);
  const contents: string[] = [];
  const seqs: number[] = [];
  const faults: string[] = [];
  const counts = { resumed: 0, lost: 0, began: 0 };
  client.on("MESSAGE_CREATE", (message) => void contents.push(message.content));
  client.on("dispatch", (_, { seq }) => void seqs.push(seq));
  client.on("gap", (gap) => void faults.push(`gap ${JSON.stringify(gap)}`));
  client.on("codecFallback", (info) => void faults.push(`fallback ${JSON.stringify(info)}`));
  client.on("problem", (problem) => void faults.push(problem.message));
  for (const name of ["resumed", "lost", "began"] as const) client.on(name, () => void (counts[name] += 1));
  return { client, contents, seqs, faults, counts };
}

const modes: [string, Encoding, () => Compression][] = [json, etf].flatMap((encoding) => [
  [`${encoding.name}, none`, encoding, () => none] as [string, Encoding, () => Compression],
  [`${encoding.name}, zlib-stream`, encoding, () => zlibStream()] as [string, Encoding, () => Compression],
  [`${encoding.name}, zstd-stream`, encoding, () => zstdStream()] as [string, Encoding, () => Compression],
  [`${encoding.name}, zstd-stream with dictionary`, encoding, () => zstdStream({ dictionary: true })] as [string, Encoding, () => Compression],
]);

describe("against a node", { timeout: 240_000 }, () => {
  let node: Node;
  before(async () => {
    const dictionaries = mkdtempSync(join(tmpdir(), "guildhall-dictionaries-"));
    Node.trainDictionaries(dictionaries);
    node = await Node.start([`codec.dictionaries_dir=${dictionaries}`]);
  });
  after(() => node.remove());

  for (const [name, encoding, compression] of modes) {
    test(`${name}: as user and bot, cut three times, nothing lost or doubled`, async () => {
      const common = { url: node.demo.gateway_url, encoding, compression: [compression()], httpUrl: `http://127.0.0.1:${node.port}` };
      const user = watched({ ...common, token: node.demo.user_token });
      const bot = watched({ ...common, token: node.demo.bot_token, intents: Intents.GUILDS | Intents.GUILD_MESSAGES | Intents.MESSAGE_CONTENT });
      const all = [user, bot];
      for (const { client } of all) client.connect();
      for (const { client } of all) assert.deepEqual(await client.ready(), { ok: true, value: undefined });
      await until("the bot's guild", () => bot.client.cache?.guilds.get(node.demo.guild_id)?.isAvailable === true);
      user.client.openGuild(node.demo.guild_id);

      const wanted: string[] = [];
      const post = async (text: string): Promise<void> => {
        wanted.push(text);
        await node.post(text);
      };
      for (const [round, how] of (["reset", "fin", "reset"] as const).entries()) {
        for (const text of ODD_TEXTS) await post(`${name} ${round} ${text}`);
        node.proxy.cut(how);
        await post(`${name} ${round} while away`);
        await until("both resumed", () => all.every(({ counts }) => counts.resumed > round));
      }
      await post(`${name} end`);
      for (const { client, contents, faults, counts, seqs } of all) {
        await until("the last message", () => contents.at(-1) === wanted.at(-1));
        assert.deepEqual(contents, wanted);
        assert.deepEqual(faults, []);
        assert.deepEqual(counts, { resumed: 3, lost: 0, began: 1 });
        assert.ok(seqs.every((seq, index) => index === 0 || seq > (seqs[index - 1] as number)));
        assert.equal(client.codec.compression, compression().name);
        client.close();
      }
      assert.equal(user.client.cache?.guilds.get(node.demo.guild_id)?.channels.get(node.demo.channel_ids[0] as string)?.last_message_id !== null, true);
    });
  }

  test("two clients of one session: the second continues the first", async () => {
    const options = { url: node.demo.gateway_url, token: node.demo.user_token };
    const first = watched(options);
    first.client.connect();
    await first.client.ready();
    first.client.openGuild(node.demo.guild_id);
    await node.post("before");
    await until("the message", () => first.contents.includes("before"));
    first.client.close({ keepSession: true });
    await node.post("between");
    const second = watched({ ...options, resume: first.client.resumePoint! });
    second.client.connect();
    // RESUMED follows the replay.
    await until("the replay", () => second.contents.includes("between") && second.counts.resumed > 0);
    assert.deepEqual(second.counts, { resumed: 1, lost: 0, began: 0 });
    second.client.close();
  });

  test("a wrong token stops with a reason", async () => {
    const { client } = watched({ url: node.demo.gateway_url, token: "wrong" });
    client.connect();
    const result = await client.ready();
    assert.ok(!result.ok && result.problem.kind === "authentication" && result.problem.code === 4004 && result.problem.isFatal);
  });

  test("an unknown dictionary falls back", async () => {
    const client = new Client({ url: node.demo.gateway_url, token: node.demo.user_token, compression: [zstdStream({ dictionary: "0".repeat(32) }), zlibStream()] });
    const fallbacks: string[] = [];
    client.on("codecFallback", ({ from, to }) => void fallbacks.push(`${from} → ${to}`));
    client.connect();
    assert.ok((await client.ready()).ok);
    assert.deepEqual(fallbacks, ["zstd-stream with dictionary → zlib-stream"]);
    client.close();
  });

  test("an experiment decides who gets the dictionary; its end takes it back, and nothing is lost", async () => {
    const tried = await Node.start();
    try {
      const folder = mkdtempSync(join(tmpdir(), "guildhall-dictionaries-"));
      Node.trainDictionaries(folder);
      const file = readdirSync(folder).find((name) => name.endsWith(".json.zdict")) as string;
      const staged = spawnSync(binary, ["lab", "dictionary", "stage", join(folder, file), "--server", `http://127.0.0.1:${tried.port}`], { env: { ...process.env, GUILDHALL_KEY: tried.demo.admin_key } });
      assert.equal(staged.status, 0, String(staged.stderr));
      const id = file.split(".")[0] as string;
      await tried.v1("POST", "/experiments", { name: "dict", permille: 1000, arms: [{ name: "control" }, { name: "tried", arm: `zstd:dict=${id}` }] });
      const accounts: { watch: ReturnType<typeof watched>; hasDictionary: boolean }[] = [];
      for (let at = 0n; at < 10n; at += 1n) {
        const user = (1_600_000_000_000_000_001n + at).toString();
        await tried.v1("PUT", `/users/${user}`, { username: `tried${at}` });
        await tried.v1("PUT", `/guilds/${tried.demo.guild_id}/members/${user}`, {});
        const { token } = await tried.v1("POST", `/users/${user}/tokens`, {});
        const listed = (await (await fetch(`http://127.0.0.1:${tried.port}/dictionaries`, { headers: { Authorization: token } })).json()) as { id: string }[];
        const watch = watched({ url: tried.demo.gateway_url, httpUrl: `http://127.0.0.1:${tried.port}`, token, encoding: json, compression: [zstdStream({ dictionary: true }), zstdStream()] });
        watch.client.connect();
        assert.ok((await watch.client.ready()).ok);
        watch.client.openGuild(tried.demo.guild_id);
        accounts.push({ watch, hasDictionary: listed.some((of) => of.id === id) });
      }
      const counts = [false, true].map((has) => accounts.filter(({ hasDictionary }) => hasDictionary === has).length);
      assert.ok(counts.every((count) => count > 0), `${counts}: choose another name`);
      for (const { watch, hasDictionary } of accounts) assert.equal(watch.client.codec.compression, hasDictionary ? "zstd-stream with dictionary" : "zstd-stream");
      const contents = Array.from({ length: 70 }, (_, number) => `message ${number} of an experiment`);
      for (const content of contents) await tried.post(content);
      await until("the last message", () => accounts.every(({ watch }) => watch.contents.at(-1) === contents.at(-1)));
      const report = await tried.v1("GET", "/experiments/dict/report");
      assert.deepEqual(report.arms.map((arm: { connections: number }) => arm.connections), counts);
      await tried.v1("POST", "/experiments/dict/stop", { reconnect: true });
      await until("resumed without it", () => accounts.every(({ watch, hasDictionary }) => !hasDictionary || (watch.counts.resumed === 1 && watch.client.codec.compression === "zstd-stream")));
      await tried.post("after its end");
      for (const { watch } of accounts) {
        await until("the message after its end", () => watch.contents.at(-1) === "after its end");
        // Those before the node had opened the guild are not there; from the first on none is missing.
        assert.ok(watch.contents.length > 50, String(watch.contents.length));
        assert.deepEqual(watch.contents, [...contents, "after its end"].slice(-watch.contents.length));
        assert.equal(watch.counts.lost, 0);
        watch.client.close();
      }
    } finally {
      await tried.remove();
    }
  });

  test("two shards of a bot: the guild is on one of them", async () => {
    const info = await gatewayInfo(node.demo.api_base, node.demo.bot_token);
    assert.ok(info.ok);
    const options = { url: info.value.url, token: node.demo.bot_token, intents: Intents.GUILDS, count: 2, maxConcurrency: info.value.session_start_limit.max_concurrency };
    const shards = new Shards(options, (of) => new Client(of));
    shards.connect();
    for (const client of shards.clients.values()) assert.ok((await client.ready()).ok);
    const guild = () => shards.of(node.demo.guild_id)?.cache?.guilds.get(node.demo.guild_id);
    await until("the guild", () => guild()?.isAvailable === true);
    const elsewhere = [...shards.clients.values()].filter((client) => client !== shards.of(node.demo.guild_id));
    assert.ok(elsewhere.every((client) => client.cache?.guilds.size === 0));
    shards.close();
    const refused = await gatewayInfo(node.demo.api_base, "wrong");
    assert.ok(!refused.ok && refused.problem.kind === "authentication");
  });

  for (const subscriptionOpcode of [14, 37] as const) {
    test(`members, member list by op ${subscriptionOpcode}, presence`, async () => {
      const { client } = watched({ url: node.demo.gateway_url, token: node.demo.user_token, compression: zstdStream(), encoding: etf, subscriptionOpcode });
      client.connect();
      await client.ready();
      const guildId = node.demo.guild_id;
      const list = client.memberList(guildId, node.demo.channel_ids[0] as string);
      list.setRanges([[0, 99]]);
      await until("the rows", () => list.rows.length > 40);
      assert.equal(list.length, list.groups.reduce((sum, group) => sum + group.count + 1, 0));
      assert.ok(list.rows.every((row) => row !== undefined));
      const found = await client.requestMembers(guildId, { query: "a", limit: 5 });
      assert.ok(found.ok && found.value.members.length > 0 && found.value.members.length <= 5);
      assert.ok(client.setPresence({ status: "dnd" }).ok);
      const id = client.cache?.self?.id as string;
      await until("the own presence", () => list.rows.some((row) => row && "member" in row && row.member.user.id === id && row.member.presence.status === "dnd"));
      list.close();
      client.close();
    });
  }
});

describe("a node that ends", { timeout: 180_000 }, () => {
  for (const [signal, expected] of [["SIGTERM", "resumed"], ["SIGKILL", "lost"]] as const) {
    test(`${signal}: the session is ${expected}`, async () => {
      const node = await Node.start();
      try {
        const { client, contents, counts, faults } = watched({ url: node.demo.gateway_url, token: node.demo.user_token, compression: zstdStream() });
        client.connect();
        await client.ready();
        client.openGuild(node.demo.guild_id);
        await node.post("before");
        await until("the message", () => contents.includes("before"));
        await node.stop(signal);
        await node.start();
        await until("the session is back", () => client.state === "ready" && counts.resumed + counts.began > 1, 60_000);
        assert.equal(counts[expected], 1, JSON.stringify(counts));
        // After a loss the guild may be passive until the subscription arrived.
        for (let i = 0; i < 20 && !contents.some((of) => of.startsWith("after")); i += 1) {
          await node.post(`after ${i}`);
          await new Promise((resolve) => setTimeout(resolve, 250));
        }
        assert.ok(contents.some((of) => of.startsWith("after")));
        assert.equal(new Set(contents).size, contents.length);
        assert.deepEqual(faults, []);
        client.close();
      } finally {
        await node.remove();
      }
    });
  }
});
