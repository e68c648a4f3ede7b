import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { StateCache, type Change } from "../../src/core/cache.js";

const user = (id: string, username = `u${id}`) => ({ id, username });
const member = (id: string, roles: string[] = []) => ({ user: user(id), roles, nick: null });
const guild = (overrides: object = {}) => ({
  id: "10", name: "Guild", unavailable: false, member_count: 2, joined_at: "2024", large: false, emojis: [], stickers: [],
  roles: [{ id: "10", name: "@everyone" }, { id: "11", name: "mods" }],
  channels: [{ id: "20", guild_id: "10", name: "general", type: 0, last_message_id: "1" }], threads: [],
  members: [member("1", ["11"])], presences: [], voice_states: [], stage_instances: [], guild_scheduled_events: [], ...overrides,
});

function filled(body: object = {}, options = {}) {
  const changes: Change[] = [];
  const cache = new StateCache((change) => changes.push(change), options);
  cache.apply("READY", { user: user("1"), guilds: [guild()], private_channels: [], ...body });
  changes.length = 0;
  const kinds = () => changes.map((of) => `${of.kind} ${of.id}${of.value === null ? " gone" : ""}`);
  return { cache, changes, kinds, state: cache.guilds.get("10")! };
}

describe("identity", () => {
  test("objects stay the same over updates, a new READY and an outage", () => {
    const { cache, state } = filled();
    const channel = state.channels.get("20");
    const role = state.roles.get("11");
    cache.apply("CHANNEL_UPDATE", { id: "20", guild_id: "10", name: "renamed", type: 0, topic: "t" });
    assert.equal(state.channels.get("20"), channel);
    assert.equal(channel?.name, "renamed");
    assert.ok(!("last_message_id" in channel!), "keys that an update lacks are gone");
    cache.apply("READY", { user: user("1"), guilds: [guild({ name: "Other" })], private_channels: [] });
    assert.equal(cache.guilds.get("10"), state);
    assert.equal(state.channels.get("20"), channel);
    assert.equal(state.roles.get("11"), role);
    assert.equal(state.name, "Other");
    cache.apply("GUILD_DELETE", { id: "10", unavailable: true });
    assert.equal(cache.guilds.get("10"), state);
    assert.deepEqual([state.isAvailable, state.channels.size, state.members.size], [false, 0, 0]);
    cache.apply("GUILD_CREATE", guild());
    assert.deepEqual([state.isAvailable, state.channels.size, state.members.size], [true, 1, 1]);
  });

  test("guilds share users", () => {
    const { cache, state } = filled();
    cache.apply("GUILD_CREATE", guild({ id: "30" }));
    cache.apply("GUILD_MEMBER_UPDATE", { guild_id: "30", ...member("1"), user: user("1", "renamed") });
    assert.equal(state.members.get("1")?.user.username, "renamed");
    assert.equal(state.members.get("1")?.user, cache.users.get("1"));
  });
});

describe("guilds", () => {
  test("a guild that is gone from READY is gone", () => {
    const { cache } = filled();
    cache.apply("READY", { user: user("1"), guilds: [], private_channels: [] });
    assert.equal(cache.guilds.size, 0);
  });

  test("the shape of CLIENT_STATE_V2", () => {
    const { cache } = filled();
    const { name, ...rest } = guild({ id: "40" });
    cache.apply("GUILD_CREATE", { ...rest, properties: { id: "40", name } });
    assert.equal(cache.guilds.get("40")?.name, "Guild");
    assert.ok(!("roles" in cache.guilds.get("40")!.properties));
  });

  test("merged members and presences, in one READY or two", () => {
    const { members: _, ...bare } = guild();
    const merged = { users: [user("1"), user("2")], merged_members: [[{ user_id: "1", roles: [] }]] };
    const { cache, state } = filled({ guilds: [bare], ...merged });
    assert.deepEqual([...state.members.keys()], ["1"]);
    cache.apply("READY_SUPPLEMENTAL", {
      guilds: [{ id: "10", voice_states: [{ user_id: "2", channel_id: "20" }] }],
      merged_members: [[{ user_id: "2", roles: ["11"] }]],
      merged_presences: { friends: [], guilds: [[{ user_id: "2", status: "idle" }]] },
    });
    assert.deepEqual(state.members.get("2")?.user.username, "u2");
    assert.equal(state.presences.get("2")?.status, "idle");
    assert.equal(state.voiceStates.get("2")?.channel_id, "20");
  });

  test("a deleted role leaves its members, a deleted channel takes its threads", () => {
    const { cache, state, kinds } = filled();
    cache.apply("THREAD_CREATE", { id: "25", guild_id: "10", parent_id: "20", name: "thread" });
    cache.apply("GUILD_ROLE_DELETE", { guild_id: "10", role_id: "11" });
    cache.apply("CHANNEL_DELETE", { id: "20", guild_id: "10" });
    assert.deepEqual(state.members.get("1")?.roles, []);
    assert.equal(state.threads.size, 0);
    assert.deepEqual(kinds(), ["thread 25", "role 11 gone", "thread 25 gone", "channel 20 gone"]);
  });

  test("THREAD_LIST_SYNC replaces the threads of its channels only", () => {
    const { cache, state } = filled();
    for (const [id, parent_id] of [["25", "20"], ["26", "21"]]) cache.apply("THREAD_CREATE", { id, guild_id: "10", parent_id });
    cache.apply("THREAD_LIST_SYNC", { guild_id: "10", channel_ids: ["20"], threads: [{ id: "27", guild_id: "10", parent_id: "20" }], members: [] });
    assert.deepEqual([...state.threads.keys()].sort(), ["26", "27"]);
  });
});

describe("passive updates", () => {
  const unread = (id: string, last_message_id: string) => ({ id, last_message_id });

  test("V2 changes channels and voice", () => {
    const { cache, state, kinds } = filled();
    const update = { guild_id: "10", updated_channels: [unread("20", "99"), unread("21", "5")], updated_voice_states: [{ user_id: "2", channel_id: "30" }], removed_voice_states: [], updated_members: [member("2")] };
    cache.apply("PASSIVE_UPDATE_V2", update);
    assert.equal(state.channels.get("20")?.last_message_id, "99");
    assert.ok(state.voiceStates.has("2") && state.members.has("2"));
    cache.apply("PASSIVE_UPDATE_V2", { ...update, updated_channels: [], updated_voice_states: [], updated_members: [], removed_voice_states: ["2"] });
    assert.equal(state.voiceStates.size, 0);
    assert.deepEqual(kinds(), ["channel 20", "voice 2", "voice 2 gone"]);
  });

  test("V1 is the whole state: voice states that it lacks are gone", () => {
    const { cache, state } = filled();
    cache.apply("VOICE_STATE_UPDATE", { guild_id: "10", user_id: "5", channel_id: "30" });
    cache.apply("PASSIVE_UPDATE_V1", { guild_id: "10", channels: [unread("20", "7")] });
    assert.equal(state.voiceStates.size, 0);
    assert.equal(state.channels.get("20")?.last_message_id, "7");
  });

  test("CHANNEL_UNREAD_UPDATE and messages move the newest message", () => {
    const { cache, state } = filled();
    cache.apply("CHANNEL_UNREAD_UPDATE", { guild_id: "10", channel_unread_updates: [unread("20", "8")] });
    assert.equal(state.channels.get("20")?.last_message_id, "8");
    cache.apply("MESSAGE_CREATE", { id: "9", guild_id: "10", channel_id: "20" });
    assert.equal(state.channels.get("20")?.last_message_id, "9");
  });

  test("the author of a message becomes a cached member", () => {
    const { cache, state, kinds } = filled();
    const { user: author, ...rest } = member("7", ["11"]);
    const message = { id: "9", guild_id: "10", channel_id: "20", author, member: rest };
    cache.apply("MESSAGE_CREATE", message);
    assert.deepEqual(state.members.get("7")?.roles, ["11"]);
    assert.equal(state.members.get("7")?.user.username, "u7");
    assert.deepEqual(kinds(), ["channel 20", "member 7"]);
    // The member of a message lacks fields, so it does not replace a cached member.
    cache.apply("MESSAGE_CREATE", { ...message, id: "10", member: { ...rest, roles: [] } });
    assert.deepEqual(state.members.get("7")?.roles, ["11"]);
    assert.deepEqual(message.member, rest, "the message is as it came");
  });

  test("threads know their guild", () => {
    const { cache, state } = filled();
    cache.apply("GUILD_CREATE", guild({ threads: [{ id: "30", name: "t", parent_id: "20", type: 11 }] }));
    assert.equal(state.threads.get("30")?.guild_id, "10");
  });
});

describe("direct messages", () => {
  test("come, change and go", () => {
    const { cache, kinds } = filled();
    cache.apply("CHANNEL_CREATE", { id: "50", type: 3, recipients: [user("2")] });
    cache.apply("CHANNEL_RECIPIENT_ADD", { channel_id: "50", user: user("3") });
    cache.apply("MESSAGE_CREATE", { id: "9", channel_id: "50" });
    const direct = cache.directs.get("50");
    assert.deepEqual(direct?.recipients?.map((of) => of.id), ["2", "3"]);
    assert.equal(direct?.last_message_id, "9");
    cache.apply("CHANNEL_DELETE", { id: "50", type: 3 });
    assert.equal(cache.directs.size, 0);
    assert.deepEqual(kinds(), ["direct 50", "direct 50", "direct 50", "direct 50 gone"]);
  });
});

describe("limits", () => {
  test("members past the limit push out the first", () => {
    const { cache, state } = filled({}, { membersMax: 3 });
    for (const id of ["2", "3", "4", "5"]) cache.apply("GUILD_MEMBER_ADD", { guild_id: "10", ...member(id) });
    assert.deepEqual([...state.members.keys()], ["3", "4", "5"]);
    assert.ok(cache.users.size <= 3);
    assert.equal(state.memberCount, 6);
  });
});
