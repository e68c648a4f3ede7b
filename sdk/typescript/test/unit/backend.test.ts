import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { Backend, BackendError, isSigned } from "../../src/backend.js";

type Sent = { method: string; url: string; body: unknown; key: string | null };

/** A backend whose node gives these answers, one after the other. */
function fake(...answers: [number, unknown, Record<string, string>?][]): { backend: Backend; sent: Sent[] } {
  const sent: Sent[] = [];
  const fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const headers = new Headers(init?.headers);
    const body = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
    sent.push({ method: init?.method ?? "GET", url: String(input), body, key: headers.get("authorization") });
    const [status, answer, more] = answers.shift() ?? [500, {}];
    return new Response(status === 204 ? null : JSON.stringify(answer), more ? { status, headers: more } : { status });
  };
  return { backend: new Backend({ url: "http://node:8080", key: "ghk_1", fetch }), sent };
}

test("a request has its path, its query and its body", async () => {
  const { backend, sent } = fake([201, { id: "7" }], [200, []], [204, null]);
  await backend.request("PUT /v1/users/{user_id}", { path: { user_id: "ext:a|b" }, body: { username: "ana" } });
  await backend.request("GET /v1/channels/{channel_id}/messages", { path: { channel_id: "5" }, query: { limit: 2 } });
  const gone = await backend.request("DELETE /v1/users/{user_id}", { path: { user_id: "7" } });
  assert.equal(gone, undefined);
  assert.deepEqual(
    sent.map(({ method, url }) => `${method} ${url}`),
    [
      "PUT http://node:8080/v1/users/ext%3Aa%7Cb",
      "GET http://node:8080/v1/channels/5/messages?limit=2",
      "DELETE http://node:8080/v1/users/7",
    ],
  );
  assert.deepEqual([sent[0]?.body, sent[0]?.key], [{ username: "ana" }, "Bearer ghk_1"]);
});

test("a refused request is an error with the node's words", async () => {
  const errors = [{ field: "username", message: "Must have 1 to 32 characters; it has 0." }];
  const { backend } = fake([400, { code: "invalid", message: "Some fields are invalid: see `errors`.", errors }]);
  const put = backend.request("PUT /v1/users/{user_id}", { path: { user_id: "7" }, body: { username: "" } });
  await assert.rejects(put, (error) => {
    assert.ok(error instanceof BackendError);
    assert.deepEqual([error.status, error.code, error.errors], [400, "invalid", errors]);
    return true;
  });
});

test("only what is safe is repeated", async () => {
  const busy = [503, { code: "unavailable", message: "" }, { "retry-after": "0" }] as const;
  const safe = fake([...busy], [...busy], [200, { guild_ids: [] }]);
  await safe.backend.request("GET /v1/guilds");
  assert.equal(safe.sent.length, 3);
  const path = { channel_id: "5" };
  const unsafe = fake([...busy], [201, {}]);
  const body = { author_id: "7", content: "x" };
  await assert.rejects(unsafe.backend.request("POST /v1/channels/{channel_id}/messages", { path, body }));
  assert.equal(unsafe.sent.length, 1);
  const keyed = fake([...busy], [201, {}]);
  await keyed.backend.request("POST /v1/channels/{channel_id}/messages", { path, body: { ...body, key: "1" } });
  assert.equal(keyed.sent.length, 2);
});

test("events continue after each page", async () => {
  const event = (position: string) => ({ position, type: "MESSAGE_CREATE", data: {} });
  const { backend, sent } = fake(
    [200, { events: [event("4"), event("5")], next: "5" }],
    [200, { events: [], next: "9" }],
    [200, { events: [event("12")], next: "12" }],
    [410, { code: "too_late", message: "", oldest: "40" }],
  );
  const positions: string[] = [];
  const reading = (async () => {
    for await (const { position } of backend.events({ after: "3", types: ["MESSAGE_CREATE", "GUILD_BAN_ADD"] })) {
      positions.push(position);
    }
  })();
  await assert.rejects(reading, (error) => error instanceof BackendError && error.oldest === "40");
  assert.deepEqual(positions, ["4", "5", "12"]);
  assert.deepEqual(
    sent.map(({ url }) => new URL(url).searchParams.get("after")),
    ["3", "5", "9", "12"],
  );
  assert.equal(new URL(sent[0]?.url ?? "").searchParams.get("types"), "MESSAGE_CREATE,GUILD_BAN_ADD");
});

test("a signature is of the secret, the time and the body", async () => {
  const body = '{"events":[]}';
  const sign = (text: string) => `v1=${createHmac("sha256", "s").update(text).digest("hex")}`;
  const request = { timestamp: "1700000000", body, signature: sign(`1700000000.${body}`) };
  assert.equal(await isSigned("s", request, 1_700_000_100), true);
  assert.equal(await isSigned("t", request, 1_700_000_100), false);
  assert.equal(await isSigned("s", { ...request, body: "{}" }, 1_700_000_100), false);
  assert.equal(await isSigned("s", { ...request, signature: "v1=00" }, 1_700_000_100), false);
  assert.equal(await isSigned("s", request, 1_700_000_400), false, "it is too old");
  assert.equal(await isSigned("s", { ...request, timestamp: "soon" }, 1_700_000_100), false);
});
