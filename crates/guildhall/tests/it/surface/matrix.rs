//! The permission matrix: every mutating REST route, called by every kind of account.
//!
//! Owns        the table: per route and kind of caller, the expected status and code.
//! Invariants  a route that changes something has a row here, or the reason for none in its row of
//!             `crates/rest/src/routes/table.rs`.

use super::uploads::Form;
use crate::{
    support::{Answer, exchange},
    test_node::{Person, TestNode},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const NOTHING: Value = Value::Null;
const FIRE: &str = "%F0%9F%94%A5";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Status and JSON error code; code 0 with a status below 300 means success.
type Cell = (u16, u64);

const OK: Cell = (200, 0);
const MADE: Cell = (201, 0);
const DONE: Cell = (204, 0);
const FORM: Cell = (400, 50035);
const NO_TEXT: Cell = (400, 50008);
const HIDDEN: Cell = (403, 50001);
const FORBIDDEN: Cell = (403, 50013);
const LOCKED: Cell = (403, 160_005);
const NO_GUILD: Cell = (404, 10004);
const NO_CHANNEL: Cell = (404, 10003);

/// Kinds of caller, in the order of `Row::expected`. `InLockedThread`: a member whose channel is a locked, open thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Stranger,
    Member,
    TimedOut,
    InLockedThread,
    Moderator,
    Owner,
}

const EVERYBODY: [Who; 6] =
    [Who::Stranger, Who::Member, Who::TimedOut, Who::InLockedThread, Who::Moderator, Who::Owner];

struct Row {
    method: &'static str,
    /// As in the router. `{channel_id}` and the like are filled in by `Scene::value`.
    route: &'static str,
    /// Names of objects for variables of the route; the others have the variable's name.
    with: &'static [(&'static str, &'static str)],
    body: Value,
    expected: [Cell; 6],
}

/// In a guild: only moderators.
fn by_moderators(done: Cell) -> [Cell; 6] {
    [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, done, done]
}

/// In a channel: only moderators.
fn by_moderators_of_channel(done: Cell) -> [Cell; 6] {
    [HIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, done, done]
}

/// The caller's place in the guild does not matter.
fn by_anybody(done: Cell) -> [Cell; 6] {
    [done; 6]
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    const M: &str = "/channels/{channel_id}/messages/{message_id}";
    let row = |method, route, with, body, expected| Row { method, route, with, body, expected };
    let event = json!({"name": "party", "scheduled_start_time": "2030-05-01T12:00:00Z",
        "scheduled_end_time": "2030-05-01T14:00:00Z", "entity_type": 3,
        "privacy_level": 2, "entity_metadata": {"location": "here"}});
    let reactions: &[_] = &[("message_id", "reacted"), ("emoji", "fire")];
    vec![
        // Channels.
        row("PATCH", "/channels/{channel_id}", &[], json!({"name": "other"}), by_moderators_of_channel(OK)),
        row("DELETE", "/channels/{channel_id}", &[("channel_id", "fresh_place")], NOTHING, by_moderators_of_channel(OK)),
        row("PUT", "/channels/{channel_id}/permissions/{overwrite_id}", &[("overwrite_id", "role")],
            json!({"type": 0, "allow": "0", "deny": "2048"}), [HIDDEN, FORBIDDEN, FORBIDDEN, FORM, DONE, DONE]),
        row("DELETE", "/channels/{channel_id}/permissions/{overwrite_id}", &[("channel_id", "overwritten"), ("overwrite_id", "overwrite")],
            NOTHING, by_moderators_of_channel(DONE)),
        row("POST", "/channels/{channel_id}/typing", &[], NOTHING, [HIDDEN, DONE, FORBIDDEN, FORBIDDEN, DONE, DONE]),
        row("POST", "/channels/{channel_id}/threads", &[], json!({"name": "t", "type": 11}),
            [HIDDEN, MADE, FORBIDDEN, NO_TEXT, MADE, MADE]),
        row("POST", "/channels/{channel_id}/messages/{message_id}/threads", &[("message_id", "other")], json!({"name": "t"}),
            [HIDDEN, MADE, FORBIDDEN, NO_TEXT, MADE, MADE]),
        row("PUT", "/channels/{channel_id}/thread-members/{user_id}", &[("channel_id", "thread"), ("user_id", "@me")], NOTHING,
            [HIDDEN, DONE, FORBIDDEN, DONE, DONE, DONE]),
        row("PUT", "/channels/{channel_id}/thread-members/{user_id}", &[("channel_id", "thread"), ("user_id", "victim")], NOTHING,
            [HIDDEN, DONE, FORBIDDEN, FORBIDDEN, DONE, DONE]),
        row("DELETE", "/channels/{channel_id}/thread-members/{user_id}", &[("channel_id", "joined_thread"), ("user_id", "@me")], NOTHING,
            [HIDDEN, DONE, DONE, DONE, DONE, DONE]),
        row("DELETE", "/channels/{channel_id}/thread-members/{user_id}", &[("channel_id", "joined_thread"), ("user_id", "victim")], NOTHING,
            by_moderators_of_channel(DONE)),
        row("POST", "/channels/{channel_id}/invites", &[], json!({"unique": true}), [HIDDEN, OK, FORBIDDEN, FORBIDDEN, OK, OK]),
        row("POST", "/channels/{channel_id}/webhooks", &[("channel_id", "fresh_place")], json!({"name": "hook"}), by_moderators_of_channel(OK)),
        row("PUT", "/channels/{channel_id}/recipients/{user_id}", &[("user_id", "victim")], NOTHING,
            [(403, 50007), NO_CHANNEL, NO_CHANNEL, NO_CHANNEL, NO_CHANNEL, NO_CHANNEL]),
        row("DELETE", "/channels/{channel_id}/recipients/{user_id}", &[("user_id", "victim")], NOTHING, by_anybody(NO_CHANNEL)),
        row("PUT", "/channels/{channel_id}/pins/{message_id}", &[("message_id", "other")], NOTHING, by_moderators_of_channel(DONE)),
        row("DELETE", "/channels/{channel_id}/pins/{message_id}", &[("message_id", "pinned")], NOTHING, by_moderators_of_channel(DONE)),
        row("PUT", "/channels/{channel_id}/messages/pins/{message_id}", &[("message_id", "other")], NOTHING, by_moderators_of_channel(DONE)),
        row("DELETE", "/channels/{channel_id}/messages/pins/{message_id}", &[("message_id", "pinned")], NOTHING, by_moderators_of_channel(DONE)),
        // Messages.
        row("POST", "/channels/{channel_id}/messages/{message_id}/ack", &[("message_id", "other")], NOTHING,
            [HIDDEN, OK, OK, OK, OK, OK]),
        row("DELETE", "/channels/{channel_id}/messages/ack", &[], NOTHING, by_anybody(DONE)),
        row("POST", "/channels/{channel_id}/pins/ack", &[], NOTHING, [HIDDEN, DONE, DONE, DONE, DONE, DONE]),
        row("POST", "/read-states/ack-bulk", &[], json!({"read_states": [{"channel_id": "{channel_id}", "message_id": "5"}]}),
            by_anybody(DONE)),
        row("PATCH", "/users/@me/guilds/settings", &[], json!({"guilds": {}}), by_anybody(OK)),
        row("PATCH", "/users/@me/guilds/{guild_id}/settings", &[], json!({"muted": true}), [NO_GUILD, OK, OK, OK, OK, OK]),
        row("PATCH", "/users/@me/settings-proto/{kind}", &[("kind", "1")], json!({"settings": "EgFh"}), by_anybody(OK)),
        row("POST", "/channels/{channel_id}/messages", &[], json!({"content": "x"}), [HIDDEN, OK, FORBIDDEN, LOCKED, OK, OK]),
        row("POST", "/channels/{channel_id}/messages/bulk-delete", &[], json!({"messages": ["{other}", "{own}"]}), by_moderators_of_channel(DONE)),
        row("PATCH", M, &[("message_id", "own")], json!({"content": "y"}), [HIDDEN, OK, FORBIDDEN, LOCKED, OK, OK]),
        row("PATCH", M, &[("message_id", "others")], json!({"content": "y"}), [HIDDEN, (403, 50005), (403, 50005), (403, 50005), (403, 50005), (403, 50005)]),
        row("PATCH", M, &[("message_id", "others")], json!({"flags": 4}), by_moderators_of_channel(OK)),
        row("DELETE", M, &[("message_id", "own")], NOTHING, [HIDDEN, DONE, DONE, DONE, DONE, DONE]),
        row("DELETE", M, &[("message_id", "others")], NOTHING, by_moderators_of_channel(DONE)),
        row("DELETE", "/channels/{channel_id}/messages/{message_id}/reactions", &[("message_id", "reacted")], NOTHING, by_moderators_of_channel(DONE)),
        row("DELETE", "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}", reactions, NOTHING, by_moderators_of_channel(DONE)),
        row("PUT", "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me", &[("message_id", "other"), ("emoji", "fire")], NOTHING,
            [HIDDEN, DONE, FORBIDDEN, DONE, DONE, DONE]),
        row("DELETE", "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me", reactions, NOTHING, [HIDDEN, DONE, DONE, DONE, DONE, DONE]),
        row("DELETE", "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/{user_id}",
            &[("message_id", "reacted"), ("emoji", "fire"), ("user_id", "victim")], NOTHING, by_moderators_of_channel(DONE)),
        // Announcements.
        row("POST", "/channels/{channel_id}/messages/{message_id}/crosspost", &[("channel_id", "news"), ("message_id", "own")], NOTHING,
            [HIDDEN, OK, FORBIDDEN, OK, OK, OK]),
        row("POST", "/channels/{channel_id}/messages/{message_id}/crosspost", &[("channel_id", "news"), ("message_id", "others")], NOTHING,
            [HIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK, OK]),
        row("POST", "/channels/{channel_id}/followers", &[("channel_id", "news")], json!({"webhook_channel_id": "{fresh_channel}"}),
            by_moderators_of_channel(OK)),
        // Polls.
        row("PUT", "/channels/{channel_id}/polls/{message_id}/answers/@me", &[("message_id", "polled")], json!({"answer_ids": ["1"]}),
            [HIDDEN, DONE, FORBIDDEN, DONE, DONE, DONE]),
        row("POST", "/channels/{channel_id}/polls/{message_id}/expire", &[("message_id", "polled")], NOTHING,
            [HIDDEN, OK, FORBIDDEN, LOCKED, OK, OK]),
        row("POST", "/channels/{channel_id}/polls/{message_id}/expire", &[("message_id", "other")], NOTHING,
            [HIDDEN, (403, 50005), FORBIDDEN, LOCKED, (403, 50005), (400, 520_006)]),
        // Guilds.
        row("POST", "/guilds", &[], json!({"name": "mine"}), by_anybody(MADE)),
        row("PATCH", "/guilds/{guild_id}", &[], json!({"description": "d"}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}", &[], json!({"owner_id": "{owner}"}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}", &[("guild_id", "given_away")], json!({"owner_id": "{victim}"}),
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK]),
        row("DELETE", "/guilds/{guild_id}", &[("guild_id", "given_away")], NOTHING, [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, DONE]),
        row("POST", "/guilds/{guild_id}/channels", &[], json!({"name": "new"}), by_moderators(MADE)),
        row("PATCH", "/guilds/{guild_id}/channels", &[], json!([{"id": "{fresh_channel}", "position": 3}]), by_moderators(DONE)),
        row("POST", "/guilds/{guild_id}/roles", &[], json!({"name": "new"}), by_moderators(OK)),
        row("POST", "/guilds/{guild_id}/roles", &[], json!({"name": "new", "permissions": "8"}),
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK]),
        row("PATCH", "/guilds/{guild_id}/roles", &[], json!([{"id": "{role}", "position": 1}]), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/roles/{role_id}", &[("role_id", "role")], json!({"name": "other"}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/roles/{role_id}", &[("role_id", "top_role")], json!({"color": 5}),
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK]),
        row("DELETE", "/guilds/{guild_id}/roles/{role_id}", &[("role_id", "role")], NOTHING, by_moderators(DONE)),
        row("PATCH", "/guilds/{guild_id}/members/@me", &[], json!({"nick": "n"}), [NO_GUILD, OK, FORBIDDEN, OK, OK, OK]),
        row("PUT", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "outsider")], json!({"access_token": "{outsider_token}"}),
            [NO_GUILD, MADE, FORBIDDEN, MADE, MADE, MADE]),
        row("PUT", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "outsider")], json!({"access_token": "{outsider_token}", "nick": "n"}),
            by_moderators(MADE)),
        row("PATCH", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "victim")], json!({"nick": "n"}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "owner")], json!({"nick": "n"}),
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK]),
        row("PATCH", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "victim")], json!({"communication_disabled_until": null}), by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "victim")], NOTHING, by_moderators(DONE)),
        row("DELETE", "/guilds/{guild_id}/members/{user_id}", &[("user_id", "owner")], NOTHING,
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
        row("PUT", "/guilds/{guild_id}/members/{user_id}/roles/{role_id}", &[("user_id", "victim"), ("role_id", "role")], NOTHING, by_moderators(DONE)),
        row("PUT", "/guilds/{guild_id}/members/{user_id}/roles/{role_id}", &[("user_id", "victim"), ("role_id", "top_role")], NOTHING,
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, DONE]),
        row("DELETE", "/guilds/{guild_id}/members/{user_id}/roles/{role_id}", &[("user_id", "victim"), ("role_id", "role")], NOTHING, by_moderators(DONE)),
        row("POST", "/guilds/{guild_id}/emojis", &[], json!({"name": "party", "image": PICTURE}), by_moderators(MADE)),
        row("PATCH", "/guilds/{guild_id}/emojis/{emoji_id}", &[], json!({"name": "feast"}), by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/emojis/{emoji_id}", &[], NOTHING, by_moderators(DONE)),
        row("POST", "/guilds/{guild_id}/stickers", &[], json!({"name": "wave", "tags": "wave"}), by_moderators(MADE)),
        row("PATCH", "/guilds/{guild_id}/stickers/{sticker_id}", &[], json!({"name": "waves"}), by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/stickers/{sticker_id}", &[], NOTHING, by_moderators(DONE)),
        row("POST", "/guilds/{guild_id}/scheduled-events", &[], event, by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/scheduled-events/{event_id}", &[], json!({"status": 2}), by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/scheduled-events/{event_id}", &[], NOTHING, by_moderators(DONE)),
        row("PUT", "/guilds/{guild_id}/scheduled-events/{event_id}/users/@me", &[], NOTHING, [NO_GUILD, DONE, FORBIDDEN, DONE, DONE, DONE]),
        row("DELETE", "/guilds/{guild_id}/scheduled-events/{event_id}/users/@me", &[("event_id", "followed")], NOTHING,
            [NO_GUILD, DONE, DONE, DONE, DONE, DONE]),
        row("PATCH", "/guilds/{guild_id}/voice-states/{user_id}", &[("user_id", "on_stage")], json!({"suppress": true}),
            [NO_GUILD, DONE, DONE, DONE, DONE, DONE]),
        row("PATCH", "/guilds/{guild_id}/voice-states/{user_id}", &[("user_id", "on_stage")],
            json!({"request_to_speak_timestamp": "2100-01-01T00:00:00Z"}), [NO_GUILD, DONE, FORBIDDEN, DONE, DONE, DONE]),
        row("PATCH", "/guilds/{guild_id}/voice-states/{user_id}", &[("user_id", "on_stage")], json!({"suppress": false}), by_moderators(DONE)),
        row("PATCH", "/guilds/{guild_id}/voice-states/{user_id}", &[("user_id", "victim_on_stage")], json!({"suppress": true}), by_moderators(DONE)),
        row("PUT", "/guilds/{guild_id}/bans/{user_id}", &[("user_id", "victim")], json!({}), by_moderators(DONE)),
        row("PUT", "/guilds/{guild_id}/bans/{user_id}", &[("user_id", "owner")], json!({}),
            [NO_GUILD, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
        row("DELETE", "/guilds/{guild_id}/bans/{user_id}", &[("user_id", "banned")], NOTHING, by_moderators(DONE)),
        row("POST", "/guilds/{guild_id}/bulk-ban", &[], json!({"user_ids": ["{victim}"]}), by_moderators(OK)),
        row("POST", "/guilds/{guild_id}/prune", &[], json!({"days": 7}), by_moderators(OK)),
        row("POST", "/guilds/{guild_id}/auto-moderation/rules", &[],
            json!({"name": "r", "event_type": 1, "trigger_type": 1, "actions": [{"type": 1}]}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/auto-moderation/rules/{rule_id}", &[], json!({"name": "other"}), by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/auto-moderation/rules/{rule_id}", &[], NOTHING, by_moderators(DONE)),
        row("PATCH", "/guilds/{guild_id}/widget", &[], json!({"enabled": true}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/welcome-screen", &[], json!({"description": "hello"}), by_moderators(OK)),
        row("PUT", "/guilds/{guild_id}/onboarding", &[], json!({"mode": 1}), by_moderators(OK)),
        row("POST", "/guilds/{guild_id}/onboarding-responses", &[], json!({"onboarding_responses": []}),
            [NO_GUILD, FORM, FORBIDDEN, FORM, FORM, FORM]),
        row("PUT", "/guilds/{guild_id}/onboarding-responses", &[], json!({"onboarding_responses": []}),
            [NO_GUILD, FORM, FORBIDDEN, FORM, FORM, FORM]),
        row("PATCH", "/guilds/{guild_id}/vanity-url", &[], json!({"code": "ours"}), by_moderators(OK)),
        row("POST", "/guilds/{guild_id}/templates", &[("guild_id", "without_template")], json!({"name": "t"}), by_moderators(OK)),
        row("PATCH", "/guilds/{guild_id}/templates/{code}", &[("code", "template")], json!({"name": "u"}), by_moderators(OK)),
        row("PUT", "/guilds/{guild_id}/templates/{code}", &[("code", "template")], NOTHING, by_moderators(OK)),
        row("DELETE", "/guilds/{guild_id}/templates/{code}", &[("code", "template")], NOTHING, by_moderators(OK)),
        row("POST", "/guilds/templates/{code}", &[("code", "template")], json!({"name": "mine"}), by_anybody(MADE)),
        // One's own.
        row("PATCH", "/users/@me", &[], json!({"global_name": "G"}), by_anybody(OK)),
        row("POST", "/attachments/refresh-urls", &[], json!({"attachment_urls": ["https://example.net/"]}), by_anybody(OK)),
        row("POST", "/users/@me/channels", &[], json!({"recipient_id": "{victim}"}), [(403, 50007), OK, OK, OK, OK, OK]),
        row("DELETE", "/users/@me/guilds/{guild_id}", &[], NOTHING, [NO_GUILD, DONE, DONE, DONE, DONE, FORBIDDEN]),
        row("PATCH", "/applications/@me", &[], json!({}), by_anybody((403, 20002))),
        row("PUT", "/applications/{application_id}/commands", &[], json!([]), by_anybody((403, 20012))),
        row("POST", "/applications/{application_id}/commands", &[], json!({"name": "c"}), by_anybody((403, 20012))),
        row("PATCH", "/applications/{application_id}/commands/{command_id}", &[("command_id", "event_id")], json!({}), by_anybody((403, 20012))),
        row("DELETE", "/applications/{application_id}/commands/{command_id}", &[("command_id", "event_id")], NOTHING, by_anybody((403, 20012))),
        row("PUT", "/applications/{application_id}/guilds/{guild_id}/commands", &[], json!([]), by_anybody((403, 20012))),
        row("POST", "/applications/{application_id}/guilds/{guild_id}/commands", &[], json!({"name": "c"}), by_anybody((403, 20012))),
        row("PATCH", "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}", &[("command_id", "event_id")], json!({}), by_anybody((403, 20012))),
        row("DELETE", "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}", &[("command_id", "event_id")], NOTHING, by_anybody((403, 20012))),
        // Objects with an id or a code of their own.
        row("POST", "/stage-instances", &[], json!({"channel_id": "{stage_channel}", "topic": "t"}), by_moderators_of_channel(OK)),
        row("PATCH", "/stage-instances/{channel_id}", &[("channel_id", "stage")], json!({"topic": "other"}), by_moderators_of_channel(OK)),
        row("DELETE", "/stage-instances/{channel_id}", &[("channel_id", "stage")], NOTHING, by_moderators_of_channel(DONE)),
        row("POST", "/invites/{code}", &[], NOTHING, by_anybody(OK)),
        row("DELETE", "/invites/{code}", &[], NOTHING, [HIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, OK, OK]),
        row("PATCH", "/webhooks/{webhook_id}", &[], json!({"name": "other"}), by_moderators_of_channel(OK)),
        row("DELETE", "/webhooks/{webhook_id}", &[], NOTHING, by_moderators_of_channel(DONE)),
        row("PUT", "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}/permissions", &[("command_id", "event_id")],
            json!({"permissions": []}), [HIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, (404, 10063), (404, 10063)]),
        row("POST", "/interactions", &[], json!({"type": 2, "application_id": "{victim}", "channel_id": "{channel_id}", "data": {"id": "1"}}),
            [HIDDEN, (404, 10002), (404, 10002), (404, 10002), (404, 10002), (404, 10002)]),
        row("POST", "/interactions/{interaction_id}/{interaction_token}/callback",
            &[("interaction_id", "event_id"), ("interaction_token", "fire")], json!({"type": 4}), by_anybody((404, 10062))),
        row("PATCH", "/webhooks/{webhook_id}/{webhook_token}", &[], json!({"name": "other"}), by_anybody(OK)),
        row("DELETE", "/webhooks/{webhook_id}/{webhook_token}", &[], NOTHING, by_anybody(DONE)),
        row("POST", "/webhooks/{webhook_id}/{webhook_token}", &[], json!({"content": "x"}), by_anybody(DONE)),
        row("POST", "/webhooks/{webhook_id}/{webhook_token}/slack", &[], json!({"text": "x"}), by_anybody(OK)),
        row("POST", "/webhooks/{webhook_id}/{webhook_token}/github", &[], json!({}), by_anybody(DONE)),
        row("PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}", &[("message_id", "posted")], json!({"content": "y"}), by_anybody(OK)),
        row("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}", &[("message_id", "posted")], NOTHING, by_anybody(DONE)),
    ]
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

/// A guild with one of each kind of caller, and what a request needs to be about something.
struct Scene {
    node: TestNode,
    guild: String,
    general: String,
    /// The muted member's place.
    thread: String,
    moderators: String,
    people: BTreeMap<Who, Person>,
    victim: Person,
    outsider: Person,
    top_role: String,
    names_count: usize,
}

impl Scene {
    fn new() -> Self {
        let node = TestNode::new();
        let people = EVERYBODY.into_iter().enumerate();
        let people: BTreeMap<Who, Person> =
            people.map(|(n, who)| (who, node.user(100 + n as u64, &format!("{who:?}").to_lowercase()))).collect();
        let (victim, outsider) = (node.user(200, "victim"), node.user(201, "outsider"));
        let owner = &people[&Who::Owner];
        let (guild, general) = node.guild(owner, &[&victim]);
        // Everything but ADMINISTRATOR.
        let all = 0x1F_7FFF_FFFF_FFFF_u64 & !(1 << 3);
        let role = |name: &str, permissions: u64| {
            let body = json!({"name": name, "permissions": permissions.to_string()});
            id_of(&owner.done("POST", &format!("/guilds/{guild}/roles"), body))
        };
        let (moderators, top_role) = (role("moderators", all), role("top", 0));
        let places = json!([{"id": top_role, "position": 3}, {"id": moderators, "position": 2}]);
        owner.done("PATCH", &format!("/guilds/{guild}/roles"), places);
        let thread =
            id_of(&owner.done("POST", &format!("/channels/{general}/threads"), json!({"name": "t", "type": 11})));
        Self { guild, general, thread, moderators, people, victim, outsider, top_role, names_count: 0, node }
    }

    fn owner(&self) -> &Person {
        &self.people[&Who::Owner]
    }

    fn join(&self, person: &Person) {
        let path = format!("/guilds/{}/members/{}", self.guild, person.id);
        self.owner().done("PUT", &path, json!({"access_token": person.token}));
    }

    /// Every account has its initial state: no ban, time-out or mute is in force.
    fn free(&self, who: Who) {
        let (owner, guild) = (self.owner(), &self.guild);
        owner.request("DELETE", &format!("/guilds/{guild}/bans/{}", self.victim.id), NOTHING);
        self.join(&self.victim);
        owner.done("PATCH", &format!("/guilds/{guild}/members/{}", self.victim.id), json!({"roles": []}));
        for outside in [&self.outsider, &self.people[&Who::Stranger]] {
            owner.request("DELETE", &format!("/guilds/{guild}/members/{}", outside.id), NOTHING);
        }
        if who != Who::Stranger {
            self.join(&self.people[&who]);
        }
        if who == Who::Moderator {
            let role = format!("/guilds/{guild}/members/{}/roles/{}", self.people[&who].id, self.moderators);
            owner.done("PUT", &role, NOTHING);
        }
        self.restrict(who, false);
    }

    fn restrict(&self, who: Who, on: bool) {
        let owner = self.owner();
        match who {
            Who::TimedOut => {
                let unix_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
                let until = guildhall_stdx::Timestamp(unix_ms as i64 + 86_400_000).to_string();
                let until = if on { json!(until) } else { NOTHING };
                let path = format!("/guilds/{}/members/{}", self.guild, self.people[&who].id);
                owner.done("PATCH", &path, json!({"communication_disabled_until": until}));
            }
            Who::InLockedThread => {
                owner.done("PATCH", &format!("/channels/{}", self.thread), json!({"locked": on}));
            }
            _ => {}
        }
    }

    fn place(&self, who: Who) -> &str {
        if who == Who::InLockedThread { &self.thread } else { &self.general }
    }

    fn say(&self, by: &Person, channel: &str) -> String {
        id_of(&by.done("POST", &format!("/channels/{channel}/messages"), json!({"content": "x"})))
    }

    /// The caller while nothing is in force against them; the owner for strangers.
    fn caller(&self, who: Who) -> &Person {
        if who == Who::Stranger { self.owner() } else { &self.people[&who] }
    }

    fn channel(&mut self, kind: u8) -> String {
        self.names_count += 1;
        let body = json!({"name": format!("c{}", self.names_count), "type": kind});
        id_of(&self.owner().done("POST", &format!("/guilds/{}/channels", self.guild), body))
    }

    fn role(&self) -> String {
        id_of(&self.owner().done("POST", &format!("/guilds/{}/roles", self.guild), json!({"name": "role"})))
    }

    fn new_thread(&self) -> String {
        let path = format!("/channels/{}/threads", self.general);
        id_of(&self.owner().done("POST", &path, json!({"name": "t", "type": 11})))
    }

    /// Value of a variable, made if need be. `made` keeps the values of one request.
    fn value(&mut self, name: &str, who: Who, made: &mut BTreeMap<String, String>) -> String {
        if let Some(value) = made.get(name) {
            return value.clone();
        }
        let (owner, guild) = (self.owner().clone(), self.guild.clone());
        let place = made.get("channel_id").cloned().unwrap_or_else(|| self.place(who).to_owned());
        let value = match name {
            "fire" => FIRE.to_owned(),
            "@me" | "1" => name.to_owned(),
            "guild_id" => guild,
            "channel_id" => place,
            "owner" => owner.id,
            "victim" => self.victim.id.clone(),
            "outsider" => self.outsider.id.clone(),
            "outsider_token" => self.outsider.token.clone(),
            "application_id" => "5".to_owned(),
            "top_role" => self.top_role.clone(),
            "role" => self.role(),
            "fresh_channel" => self.channel(0),
            "fresh_place" if who == Who::InLockedThread => {
                let thread = self.new_thread();
                owner.done("PATCH", &format!("/channels/{thread}"), json!({"locked": true}));
                thread
            }
            "fresh_place" => self.channel(0),
            "news" => self.channel(5),
            "overwritten" => {
                let (channel, role) = (self.channel(0), self.role());
                let path = format!("/channels/{channel}/permissions/{role}");
                owner.done("PUT", &path, json!({"type": 0, "deny": "2048"}));
                made.insert("overwrite".to_owned(), role);
                channel
            }
            "thread" if who == Who::InLockedThread => self.thread.clone(),
            "thread" => self.new_thread(),
            "joined_thread" => {
                let thread = if who == Who::InLockedThread { self.thread.clone() } else { self.new_thread() };
                for person in [self.caller(who), &self.victim] {
                    person.done("PUT", &format!("/channels/{thread}/thread-members/@me"), NOTHING);
                }
                thread
            }
            "own" => self.say(self.caller(who), &place),
            "other" => self.say(&owner, &place),
            // Of whoever is not the caller.
            "others" => self.say(&self.victim, &place),
            "polled" => {
                let answers = json!([{"poll_media": {"text": "red"}}, {"poll_media": {"text": "green"}}]);
                let body = json!({"poll": {"question": {"text": "colour?"}, "answers": answers}});
                id_of(&self.caller(who).done("POST", &format!("/channels/{place}/messages"), body))
            }
            "pinned" => {
                let message = self.say(&owner, &place);
                owner.done("PUT", &format!("/channels/{place}/pins/{message}"), NOTHING);
                message
            }
            "reacted" => {
                let message = self.say(&owner, &place);
                for person in [self.caller(who), &self.victim] {
                    let path = format!("/channels/{place}/messages/{message}/reactions/{FIRE}/@me");
                    person.done("PUT", &path, NOTHING);
                }
                message
            }
            // A guild that only its owner could lose.
            "given_away" if who == Who::Owner => self.node.guild(&owner, &[&self.victim]).0,
            "given_away" => guild,
            "rule_id" => {
                let path = format!("/guilds/{guild}/auto-moderation/rules");
                // A guild has at most six.
                for rule in owner.get(&path).as_array().expect("a list") {
                    owner.done("DELETE", &format!("{path}/{}", id_of(rule)), NOTHING);
                }
                let body = json!({"name": "r", "event_type": 1, "trigger_type": 1, "actions": [{"type": 1}]});
                id_of(&owner.done("POST", &path, body))
            }
            "without_template" | "template" => {
                let path = format!("/guilds/{guild}/templates");
                for template in owner.get(&path).as_array().expect("a list") {
                    owner.done("DELETE", &format!("{path}/{}", template["code"].as_str().expect("a code")), NOTHING);
                }
                if name == "template" {
                    let template = owner.done("POST", &path, json!({"name": "t"}));
                    template["code"].as_str().expect("a code").to_owned()
                } else {
                    guild
                }
            }
            "emoji_id" => {
                let body = json!({"name": "party", "image": PICTURE});
                id_of(&owner.done("POST", &format!("/guilds/{guild}/emojis"), body))
            }
            "sticker_id" => self.node.sticker(&guild, &owner, "wave"),
            "event_id" | "followed" => {
                let body = json!({"name": "party", "scheduled_start_time": "2030-05-01T12:00:00Z",
                    "scheduled_end_time": "2030-05-01T14:00:00Z", "entity_type": 3,
                    "privacy_level": 2, "entity_metadata": {"location": "here"}});
                let path = format!("/guilds/{guild}/scheduled-events");
                let event = id_of(&owner.done("POST", &path, body));
                if name == "followed" {
                    self.caller(who).done("PUT", &format!("{path}/{event}/users/@me"), NOTHING);
                }
                event
            }
            "banned" => {
                owner.done("PUT", &format!("/guilds/{guild}/bans/{}", self.victim.id), json!({}));
                self.victim.id.clone()
            }
            // The caller, or the victim, in the audience.
            "on_stage" | "victim_on_stage" => {
                let stage = self.channel(13);
                let (person, called) = match name {
                    "on_stage" => (self.caller(who), "@me"),
                    _ => (&self.victim, self.victim.id.as_str()),
                };
                self.node.in_voice(&guild, person, &stage);
                called.to_owned()
            }
            "stage_channel" | "stage" => {
                let channel = self.channel(13);
                if name == "stage" {
                    owner.done("POST", "/stage-instances", json!({"channel_id": channel, "topic": "t"}));
                }
                channel
            }
            "code" => {
                let path = format!("/channels/{}/invites", self.general);
                let invite = owner.done("POST", &path, json!({"unique": true}));
                invite["code"].as_str().expect("a code").to_owned()
            }
            "webhook_id" => {
                let channel = self.channel(0);
                let webhook = owner.done("POST", &format!("/channels/{channel}/webhooks"), json!({"name": "hook"}));
                made.insert("webhook_token".to_owned(), webhook["token"].as_str().expect("a token").to_owned());
                id_of(&webhook)
            }
            "posted" => {
                let (id, token) = (&made["webhook_id"], &made["webhook_token"]);
                id_of(&owner.done("POST", &format!("/webhooks/{id}/{token}?wait=true"), json!({"content": "x"})))
            }
            other => panic!("nothing is called {other}"),
        };
        made.insert(name.to_owned(), value.clone());
        value
    }

    fn request(&mut self, row: &Row, who: Who) -> Answer {
        self.free(who);
        let mut made = BTreeMap::new();
        let mut path = String::new();
        for piece in row.route.split_inclusive(['/', '}']) {
            let Some((before, variable)) = piece.strip_suffix('}').and_then(|piece| piece.split_once('{')) else {
                path.push_str(piece);
                continue;
            };
            let name = row.with.iter().find(|(of, _)| *of == variable).map_or(variable, |(_, name)| name);
            let value = self.value(name, who, &mut made);
            made.insert(variable.to_owned(), value.clone());
            path.push_str(before);
            path.push_str(&value);
        }
        let mut body = row.body.to_string();
        while let Some((start, end)) = variable_in(&body) {
            let value = self.value(&body[start + 1..end], who, &mut made);
            body.replace_range(start..=end, &value);
        }
        let body: Value = serde_json::from_str(&body).expect("JSON still");
        self.restrict(who, true);
        let caller = &self.people[&who];
        if row.route.ends_with("/stickers") {
            let mut form = Form::default();
            for (name, value) in body.as_object().expect("an object") {
                form = form.text(name, value.as_str().expect("text"));
            }
            let form = form.file("file", "wave.png", b"\x89PNG\r\n\x1a\n");
            let raw = exchange(caller.addr, &form.request(caller, row.method, &path)).expect("an answer");
            return Answer { status: raw.status, body: raw.json() };
        }
        caller.request(row.method, &path, body)
    }
}

/// Position of the first `{name}` in a JSON text.
fn variable_in(text: &str) -> Option<(usize, usize)> {
    let start = text.find("\"{").filter(|at| text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()))? + 1;
    Some((start, start + text[start..].find('}')?))
}

#[test]
fn every_mutating_route_has_a_row_or_says_why_not() {
    let is_tested = |route: &&guildhall_rest::Route| route.is_change() && route.no_matrix.is_none();
    let routes: BTreeSet<_> = guildhall_rest::routes().iter().filter(is_tested).map(named).collect();
    assert!(routes.len() > 70, "{} routes change something", routes.len());
    let rows: BTreeSet<_> = rows().iter().map(|row| format!("{} {}", row.method, row.route)).collect();
    assert_eq!(routes.difference(&rows).collect::<Vec<_>>(), Vec::<&String>::new(), "routes without a row");
    assert_eq!(rows.difference(&routes).collect::<Vec<_>>(), Vec::<&String>::new(), "rows without a route");
}

fn named(route: &guildhall_rest::Route) -> String {
    format!("{} {}", route.method, route.path)
}

#[test]
fn every_mutating_route_by_every_kind_of_account() {
    let mut scene = Scene::new();
    let mut wrong = Vec::new();
    for row in rows() {
        for (who, expected) in EVERYBODY.into_iter().zip(row.expected) {
            let answer = scene.request(&row, who);
            let code = if answer.status < 300 { 0 } else { answer.body["code"].as_u64().unwrap_or(0) };
            if (answer.status, code) != expected {
                let Row { method, route, with, .. } = &row;
                wrong.push(format!("{method} {route} {with:?} by {who:?}: {expected:?} expected, got {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
