import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../src/client/client.js";
import { IdentifyLimit, shardOf, Shards } from "../../src/client/shards.js";
import { FakeClock, FakeGateway, ready, settle } from "../support/fakes.js";

test("the shard of a guild: the vector of reference.md §11", () => {
  assert.equal(shardOf("1100000000000000000", 4), 3);
  assert.equal(shardOf("1100000000000000000", 1), 0);
});

test("one IDENTIFY per key and 5 s", () => {
  const limit = new IdentifyLimit(2);
  assert.deepEqual([0, 1, 2, 3, 4].map((id) => limit.take(0, id)), [0, 0, 5_000, 5_000, 10_000]);
  assert.equal(limit.take(100_000, 0), 100_000);
});

test("shards connect and identify in turn, also when sessions are lost together", async () => {
  const clock = new FakeClock();
  const gateway = new FakeGateway();
  const options = { url: "ws://gateway.test", token: "t", intents: 1, count: 4, maxConcurrency: 2, clock, openSocket: gateway.open, random: () => 0 };
  const shards = new Shards(options, (of) => new Client(of));
  shards.connect();
  await settle();
  assert.equal(gateway.connections.length, 2);
  clock.advance(5_000);
  await settle();
  assert.equal(gateway.connections.length, 4);
  for (const connection of gateway.connections) connection.hello(1e9);
  const shardsSent = (): number[] => gateway.connections.flatMap((of) => of.sent.filter(({ op }) => op === 2).map(({ d }) => d.shard[0] as number));
  assert.deepEqual(shardsSent(), [0, 1], "the others had HELLO at the same time and wait");
  clock.advance(5_000);
  assert.deepEqual(shardsSent(), [0, 1, 2, 3]);
  for (const connection of gateway.connections) connection.dispatch("READY", 1, ready());
  clock.advance(20_000);
  for (const connection of gateway.connections) {
    connection.sent.length = 0;
    connection.payload(9, false);
  }
  clock.advance(1_000);
  assert.deepEqual(shardsSent(), [0, 1]);
  clock.advance(5_000);
  assert.deepEqual(shardsSent(), [0, 1, 2, 3]);
  assert.equal(shards.of("1100000000000000000"), shards.clients.get(3));
  shards.close();
  assert.equal(clock.timersCount, 0);
  assert.ok(gateway.connections.every(({ closedBy }) => closedBy === 1000));
});
