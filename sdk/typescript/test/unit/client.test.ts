import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { none, type Compression } from "../../src/codec/codec.js";
import { json } from "../../src/codec/encoding.js";
import { settle, world } from "../support/fakes.js";

const GUILD = { id: "10", name: "Guild", channels: [], roles: [], members: [], unavailable: false, member_count: 1 };

describe("connection", () => {
  test("the URL has version, encoding and compression", async () => {
    const { gateway, login } = world();
    await login();
    assert.equal(gateway.last.url, "ws://gateway.test/?v=10&encoding=json");
  });

  test("user accounts send capabilities, bots send intents and shard", async () => {
    const user = (await world().login()).take(2)?.d;
    assert.equal(user.capabilities, 1 | (1 << 4) | (1 << 14));
    assert.ok(!("intents" in user));
    const bot = (await world({ intents: 513, shard: [1, 4] }).login()).take(2)?.d;
    assert.equal(bot.intents, 513);
    assert.deepEqual(bot.shard, [1, 4]);
    assert.ok(!("capabilities" in bot));
  });

  test("a break is resumed at the other URL; nothing is lost or doubled", async () => {
    const { client, login, reconnected, named } = world();
    const seen: string[] = [];
    client.on("MESSAGE_CREATE", (message, { seq, isReplay }) => void seen.push(`${message.id} ${seq} ${isReplay}`));
    const first = await login();
    first.dispatch("MESSAGE_CREATE", 2, { id: "a", channel_id: "1" });
    first.close(1006);
    first.dispatch("MESSAGE_CREATE", 3, { id: "late", channel_id: "1" });
    const second = await reconnected();
    assert.match(second.url, /^ws:\/\/resume\.test\//);
    second.hello();
    assert.deepEqual(second.take(6)?.d, { token: "token", session_id: "session", seq: 2 });
    second.dispatch("MESSAGE_CREATE", 3, { id: "b", channel_id: "1" });
    second.dispatch("RESUMED", 4);
    second.dispatch("MESSAGE_CREATE", 5, { id: "c", channel_id: "1" });
    assert.deepEqual(seen, ["a 2 false", "b 3 true", "c 5 false"]);
    assert.equal(named("resumed")[0].replayed, 1);
    assert.deepEqual(named("gap"), []);
  });

  test("an undecodable message ends the connection and is replayed", async () => {
    const { client, login, reconnected, named } = world();
    const seen: number[] = [];
    client.on("MESSAGE_CREATE", (_, { seq }) => void seen.push(seq));
    const first = await login();
    first.raw('{"t":"MESSAGE_CREATE","s":2,"op":0,"d":{"id":');
    assert.equal(first.closedBy, 4002);
    assert.equal(named("problem")[0].kind, "codec");
    assert.equal(client.seq, 1);
    const second = await reconnected();
    second.hello();
    assert.equal(second.take(6)?.d.seq, 1);
    second.dispatch("MESSAGE_CREATE", 2, { id: "2", channel_id: "1" });
    assert.deepEqual(seen, [2]);
  });

  test("after a refused token the client fetches one more, then stops", async () => {
    let calls = 0;
    const { client, gateway, named } = world({ token: () => Promise.resolve(`token${(calls += 1)}`) });
    client.connect();
    for (const expected of ["token1", "token2"]) {
      await settle();
      gateway.last.hello();
      assert.equal(gateway.last.take(2)?.d.token, expected);
      gateway.last.close(4004, "expired");
    }
    await settle();
    assert.equal(gateway.connections.length, 2);
    assert.equal(named("stopped")[0].kind, "authentication");
    assert.match(named("stopped")[0].message, /expired/);
  });

  test("a token that cannot be had is a failed attempt", async () => {
    const { client, named } = world({ token: () => Promise.reject(new Error("no network")) });
    client.connect();
    await settle();
    assert.match(named("reconnect")[0].problem.message, /no network/);
    client.close();
  });

  test("close ends everything, also while connecting", async () => {
    const { client, clock, gateway } = world();
    client.connect();
    client.close();
    await settle();
    assert.equal(gateway.connections.length, 0);
    assert.equal(clock.timersCount, 0);
    assert.equal(client.state, "stopped");
  });

  test("retryNow ends a wait, and does nothing else", async () => {
    const { client, clock, gateway, login } = world();
    const first = await login();
    client.retryNow();
    assert.equal(first.closedBy, null);
    first.close(1006);
    client.retryNow();
    clock.advance(0);
    await settle();
    assert.equal(gateway.connections.length, 2);
  });

  test("ready resolves with the problem that stopped the client", async () => {
    const { client, gateway } = world();
    client.connect();
    const result = client.ready();
    await settle();
    gateway.last.hello();
    gateway.last.close(4013);
    assert.equal((await result).ok, false);
  });

  test("a session continues in another client", async () => {
    const first = world();
    (await first.login()).dispatch("TYPING_START", 2);
    first.client.close({ keepSession: true });
    const resume = first.client.resumePoint;
    assert.deepEqual(resume, { sessionId: "session", resumeUrl: "ws://resume.test", seq: 2 });
    const second = world({ resume: resume! });
    second.client.connect();
    await settle();
    second.gateway.last.hello();
    assert.equal(second.gateway.last.take(6)?.d.seq, 2);
  });
});

describe("c1: bodies", () => {
  test("are decoded only if something needs them, and once", async () => {
    let decoded = 0;
    const counting = { ...json, decode: (data: string | Uint8Array) => ((decoded += 1), json.decode(data)) };
    const { client, login } = world({ encoding: counting, cache: false });
    const connection = await login();
    decoded = 0;
    const raws: [string | null, number | null, number][] = [];
    client.on("message", (message) => void raws.push([message.name, message.seq, message.rawBytes]));
    connection.dispatch("TYPING_START", 2, { text: "é" });
    assert.equal(decoded, 0);
    assert.deepEqual(raws, [["TYPING_START", 2, new TextEncoder().encode('{"t":"TYPING_START","s":2,"op":0,"d":{"text":"é"}}').length]]);
    client.on("TYPING_START", () => {});
    client.on("dispatch", () => {});
    client.once("message", (message) => assert.deepEqual(message.body, { x: 1 }));
    connection.dispatch("TYPING_START", 3, { x: 1 });
    assert.equal(decoded, 1);
  });

  test("a listener that throws does not stop the others", async () => {
    const { client, login } = world();
    const connection = await login();
    const thrown: unknown[] = [];
    (client as unknown as { onListenerError: (name: string, error: unknown) => void }).onListenerError = (_, error) => thrown.push(error);
    let calls = 0;
    client.on("TYPING_START", () => { throw new Error("mine"); });
    client.on("TYPING_START", () => void (calls += 1));
    connection.dispatch("TYPING_START", 2);
    assert.equal(calls, 1);
    assert.equal(thrown.length, 1);
    assert.equal(client.state, "ready");
  });

  test("events of a backend have names of their own", async () => {
    const { client, login } = world();
    const seen: unknown[] = [];
    client.on("dispatch", (body, { name }) => void seen.push([name, body]));
    (await login()).dispatch("ROUND_STARTED", 2, { round: 1 });
    assert.deepEqual(seen.at(-1), ["ROUND_STARTED", { round: 1 }]);
  });
});

describe("codecs", () => {
  const failing: Compression = { name: "failing", query: { compress: "failing" }, prepare: () => Promise.reject(new Error("not here")) };
  const refused: Compression = { name: "refused", query: { compress: "refused" }, prepare: none.prepare };

  test("one that the runtime lacks is skipped", async () => {
    const { login, gateway, named } = world({ compression: [failing, none] });
    await login();
    assert.equal(gateway.last.query.get("compress"), null);
    assert.deepEqual(named("codecFallback"), [{ from: "failing", to: "none", reason: "Error: not here" }]);
  });

  test("one that the gateway refuses is given up", async () => {
    const { client, gateway, reconnected, named } = world({ compression: [refused] });
    client.connect();
    await settle();
    assert.equal(gateway.last.query.get("compress"), "refused");
    gateway.last.close(4002, "unknown dictionary");
    assert.equal((await reconnected()).query.get("compress"), null);
    assert.equal(named("codecFallback")[0].reason, "unknown dictionary");
  });

  test("4002 after HELLO is no fault of the codec", async () => {
    const { login, reconnected, named } = world({ compression: [refused] });
    (await login()).close(4002);
    assert.equal((await reconnected()).query.get("compress"), "refused");
    assert.deepEqual(named("codecFallback"), []);
  });

  test("reconnect with another compression resumes", async () => {
    const { client, login, reconnected } = world();
    const first = await login();
    client.reconnect({ compression: refused });
    assert.equal(first.closedBy, 4000);
    const second = await reconnected();
    assert.equal(second.query.get("compress"), "refused");
    second.hello();
    assert.ok(second.take(6));
  });
});

describe("subscriptions", () => {
  test("openGuild makes active, counts, and makes passive again", async () => {
    const { client, clock, login } = world();
    const connection = await login({ guilds: [GUILD] });
    const close1 = client.openGuild("10");
    const close2 = client.openGuild("10");
    clock.advance(100);
    assert.deepEqual(connection.take(37)?.d, { subscriptions: { 10: { typing: true, activities: true, threads: true } } });
    close1();
    close1();
    clock.advance(100);
    assert.equal(connection.take(37), undefined);
    close2();
    clock.advance(100);
    assert.deepEqual(connection.take(37)?.d, { subscriptions: { 10: { typing: false, activities: false, threads: false } } });
  });

  test("all are sent again after a RESUME and after a new READY", async () => {
    const { client, clock, login, reconnected } = world();
    const first = await login({ guilds: [GUILD] });
    client.openGuild("10");
    clock.advance(100);
    assert.ok(first.take(37));
    first.close(1006);
    const second = await reconnected();
    second.hello();
    second.dispatch("RESUMED", 2);
    clock.advance(100);
    assert.equal(second.take(37)?.d.subscriptions[10].typing, true);
    second.payload(9, false);
    clock.advance(1_000);
    second.dispatch("READY", 1, { user: { id: "1" }, session_id: "S2", resume_gateway_url: "ws://r", guilds: [GUILD], private_channels: [] });
    clock.advance(100);
    assert.equal(second.take(37)?.d.subscriptions[10].typing, true);
  });

  test("one message per guild by op 14, only changed keys, and all again after a RESUME", async () => {
    const { client, clock, login, reconnected } = world({ subscriptionOpcode: 14 });
    const first = await login({ guilds: [GUILD] });
    client.subscribe("10", { typing: true, members: ["7"] });
    client.subscribe("11", { threads: true });
    clock.advance(100);
    assert.deepEqual(first.take(14)?.d, { guild_id: "10", typing: true, members: ["7"] });
    assert.deepEqual(first.take(14)?.d, { guild_id: "11", threads: true });
    client.subscribe("10", { typing: true, members: ["7", "8"] });
    clock.advance(100);
    assert.deepEqual(first.take(14)?.d, { guild_id: "10", members: ["7", "8"] });
    first.close(1006);
    const second = await reconnected();
    second.hello();
    second.dispatch("RESUMED", 2);
    clock.advance(100);
    assert.deepEqual(second.take(14)?.d, { guild_id: "10", typing: true, members: ["7", "8"] });
    assert.deepEqual(second.take(14)?.d, { guild_id: "11", threads: true });
    assert.equal(second.take(37), undefined);
  });

  test("a guild that the account left is forgotten", async () => {
    const { client, clock, login } = world();
    const connection = await login({ guilds: [GUILD] });
    client.openGuild("10");
    connection.dispatch("GUILD_DELETE", 2, { id: "10" });
    clock.advance(100);
    assert.equal(connection.take(37), undefined);
  });
});

describe("members", () => {
  test("chunks of one request are collected", async () => {
    const { client, login } = world();
    const connection = await login({ guilds: [GUILD] });
    const result = client.requestMembers("10", { query: "", presences: true });
    const { d } = connection.take(8)!;
    assert.deepEqual(d, { guild_id: "10", query: "", limit: 0, presences: true, nonce: d.nonce });
    const member = (id: string) => ({ user: { id, username: id }, roles: [] });
    const chunk = { guild_id: "10", chunk_count: 2, not_found: [], nonce: d.nonce };
    connection.dispatch("GUILD_MEMBERS_CHUNK", 2, { ...chunk, chunk_index: 0, members: [member("1"), member("2")] });
    connection.dispatch("GUILD_MEMBERS_CHUNK", 3, { ...chunk, nonce: "other", chunk_index: 1, members: [member("9")] });
    connection.dispatch("GUILD_MEMBERS_CHUNK", 4, { ...chunk, chunk_index: 1, members: [member("3")], presences: [] });
    const found = await result;
    assert.ok(found.ok);
    assert.deepEqual(found.value.members.map((of) => of.user.id), ["1", "2", "3"]);
    assert.equal(client.cache?.guilds.get("10")?.members.size, 4);
  });

  test("a request fails by rate limit, by silence, and with the session", async () => {
    const { client, clock, login } = world();
    const connection = await login({ guilds: [GUILD] });
    const limited = client.requestMembers("10", { query: "" });
    connection.dispatch("RATE_LIMITED", 2, { opcode: 8, retry_after: 12, meta: { guild_id: "10", nonce: connection.take(8)?.d.nonce } });
    const silent = client.requestMembers("10", { userIds: ["1"] });
    clock.advance(20_001);
    connection.payload(11);
    clock.advance(10_500);
    const lost = client.requestMembers("10", { userIds: ["1"] });
    client.close();
    const kinds = (await Promise.all([limited, silent, lost])).map((result) => (result.ok ? "ok" : result.problem.kind));
    assert.deepEqual(kinds, ["rateLimit", "timeout", "closed"]);
  });
});

describe("commands", () => {
  test("too large ones are refused before they break the connection", async () => {
    const { client, login } = world();
    await login();
    const result = client.send(3, { text: "x".repeat(16_000) });
    assert.ok(!result.ok && result.problem.kind === "payload");
    assert.equal(client.state, "ready");
  });

  test("the presence is part of later sessions", async () => {
    const { client, login, reconnected } = world();
    const first = await login();
    assert.ok(client.setPresence({ status: "idle" }).ok);
    assert.deepEqual(first.take(3)?.d, { since: null, afk: false, activities: [], status: "idle" });
    first.close(4009);
    const second = await reconnected();
    second.hello();
    assert.equal(second.take(2)?.d.presence.status, "idle");
  });
});
