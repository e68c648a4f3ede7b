import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { blocksOf, listIdOf, MemberListRows, murmur3 } from "../../src/core/memberList.js";
import { world } from "../support/fakes.js";

const VIEW = "1024";
const overwrite = (id: string, allow: string, deny: string) => ({ id, type: 0 as const, allow, deny });

describe("list ids", () => {
  test("vectors of reference.md §8.6", () => {
    const check = (text: string, expected: number) => assert.equal(murmur3(text), expected, text);
    check("", 0);
    check("deny:1001", 3477805530);
    check("allow:2002,deny:1001", 2523820452);
    check("allow:1100000000000000020,deny:1100000000000000001", 647443077);
  });

  test("everyone, or a hash of the view overwrites", () => {
    const check = (everyone: string, overwrites: ReturnType<typeof overwrite>[], expected: string) =>
      assert.equal(listIdOf({ permission_overwrites: overwrites }, everyone), expected);
    check(VIEW, [], "everyone");
    check(VIEW, [overwrite("2002", VIEW, "0")], "everyone");
    check(VIEW, [overwrite("1001", "0", VIEW), overwrite("2002", VIEW, "0"), overwrite("3003", "8", "16")], "2523820452");
    check("0", [], "0");
  });
});

test("ranges become blocks of rows, five at most", () => {
  assert.deepEqual(blocksOf([[0, 30], [95, 130]]), [[0, 99], [100, 199]]);
  assert.deepEqual(blocksOf([[5, 2], [-3, 8]]), []);
  assert.equal(blocksOf([[0, 5_000]]).length, 5);
});

describe("rows", () => {
  const member = (id: string) => ({ member: { user: { id } } }) as never;
  const group = (id: string, count: number) => ({ group: { id, count } }) as never;
  const update = (ops: object[], counts: number[]) => ({ guild_id: "1", id: "everyone", member_count: 9, online_count: 5, groups: counts.map((count, i) => ({ id: String(i), count })), ops }) as never;
  const shown = (rows: MemberListRows) => rows.rows.map((row) => (row === undefined ? "-" : "group" in row ? `#${row.group.id}` : row.member.user.id));

  test("operations apply in order", () => {
    const rows = new MemberListRows();
    rows.apply(update([{ op: "SYNC", range: [0, 99], items: [group("0", 2), member("a"), member("b")] }], [2]));
    assert.deepEqual(shown(rows), ["#0", "a", "b"]);
    rows.apply(update([{ op: "DELETE", index: 2 }, { op: "INSERT", index: 1, item: member("b") }, { op: "UPDATE", index: 0, item: group("0", 2) }], [2]));
    assert.deepEqual(shown(rows), ["#0", "b", "a"]);
  });

  test("rows that no range covers are undefined, and groups cut the end", () => {
    const rows = new MemberListRows();
    rows.apply(update([{ op: "SYNC", range: [100, 199], items: [member("x")] }], [100]));
    assert.equal(rows.rows.length, 101);
    assert.equal(rows.rows[0], undefined);
    assert.equal(shown(rows)[100], "x");
    rows.apply(update([{ op: "INVALIDATE", range: [100, 199] }], [100]));
    assert.equal(rows.rows[100], undefined);
    rows.apply(update([], [3]));
    assert.equal(rows.rows.length, 4);
  });
});

test("a view shows the list of its channel only, and starts again with a new session", async () => {
  const { client, clock, login } = world();
  const hidden = [overwrite("10", "0", VIEW)];
  const guild = { id: "10", roles: [{ id: "10", permissions: VIEW }], channels: [{ id: "20", guild_id: "10", permission_overwrites: [] }, { id: "21", guild_id: "10", permission_overwrites: hidden }] };
  const connection = await login({ guilds: [guild] });
  const view = client.memberList("10", "21");
  view.setRanges([[0, 10]]);
  clock.advance(100);
  assert.deepEqual(connection.take(37)?.d, { subscriptions: { 10: { channels: { 21: [[0, 99]] } } } });
  const items = [{ group: { id: "online", count: 1 } }, { member: { user: { id: "1", username: "ana" }, roles: [], presence: { user: { id: "1" }, status: "online" } } }];
  const body = { guild_id: "10", member_count: 1, online_count: 1, groups: [{ id: "online", count: 1 }], ops: [{ op: "SYNC", range: [0, 99], items }] };
  connection.dispatch("GUILD_MEMBER_LIST_UPDATE", 2, { ...body, id: "everyone" });
  assert.equal(view.rows.length, 0);
  connection.dispatch("GUILD_MEMBER_LIST_UPDATE", 3, { ...body, id: String(murmur3("deny:10")) });
  assert.equal(view.rows.length, 2);
  assert.equal(view.length, 2);
  assert.equal(client.cache?.guilds.get("10")?.presences.get("1")?.status, "online");
  connection.payload(9, false);
  clock.advance(1_000);
  connection.dispatch("READY", 1, { user: { id: "1" }, session_id: "S2", resume_gateway_url: "", guilds: [guild], private_channels: [] });
  assert.equal(view.rows.length, 0);
  view.close();
  clock.advance(100);
  assert.deepEqual(connection.take(37)?.d.subscriptions[10].channels, {});
});
