//! Audit log: entries, eviction, and listing.

use crate::fixture::*;
use guildhall_guild::{
    Actor, AuditQuery, ChannelMove, Command, Guild, GuildLimits, MemberPatch, NewBan, NewInvite, Outcome, Refusal,
    Reply, RolePatch,
};
use guildhall_model::{AuditAction, AuditEntry, ChannelId, ChannelType, EventName, InviteCode, Permissions, UserId};
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;

fn world(limits: GuildLimits) -> World {
    let mut world = World::with_limits(limits);
    [ANA, BOB, EVE].into_iter().for_each(|id| world.join(id));
    world.sent.clear();
    world
}

fn list(world: &mut World, query: AuditQuery) -> Vec<Arc<AuditEntry>> {
    match world.by(OWNER, Command::ReadAuditLog(query)) {
        Ok(Reply::AuditLog(entries)) => entries,
        other => panic!("{other:?}"),
    }
}

fn all() -> AuditQuery {
    AuditQuery { limit: 100, ..AuditQuery::default() }
}

fn actions(entries: &[Arc<AuditEntry>]) -> Vec<AuditAction> {
    entries.iter().map(|entry| entry.action).collect()
}

fn ban(user_id: UserId) -> Command {
    Command::Ban(Box::new(NewBan { user: user(user_id), reason: None, delete_message_s: 0 }))
}

fn invite(channel: ChannelId, n: u8) -> Command {
    let code = format!("AAAAAAA{}", char::from(b'a' + n)).parse::<InviteCode>().unwrap();
    let new = NewInvite { code, max_age_s: 60, max_uses: 0, temporary: false, is_unique: true };
    Command::CreateInvite(channel, Box::new(new))
}

#[test]
fn l1_an_entry_is_stored_and_published_with_its_change() {
    let mut world = world(GuildLimits::default());
    world.by(OWNER, Command::WithReason("rude".into(), Box::new(ban(EVE)))).unwrap();
    let [entry] = &world.audit_events()[..] else { panic!("one entry") };
    assert_eq!((entry.action, entry.user_id), (AuditAction::MemberBanAdd, OWNER));
    assert_eq!((entry.target_id, entry.reason.as_deref()), (Some(EVE.cast()), Some("rude")));
    assert_eq!(list(&mut world, all())[0], *entry);
    // The reason is of that command only.
    world.by(OWNER, Command::Unban(EVE)).unwrap();
    assert_eq!(world.audit_events()[0].reason, None);
    let patch = MemberPatch { nick: Some(Some("n".to_owned())), ..MemberPatch::default() };
    world.by(OWNER, Command::UpdateMember(BOB, Box::new(patch.clone()))).unwrap();
    let entry = &world.audit_events()[0];
    assert_eq!((entry.changes[0].key.as_str(), &entry.changes[0].new_value), ("nick", &Some("n".into())));
    assert_eq!((entry.changes.len(), &entry.changes[0].old_value), (1, &None));
    // Refused, without effect, by the system, or about one's own name: nothing.
    world.by(BOB, Command::RemoveMember(ANA)).unwrap_err();
    world.by(OWNER, Command::UpdateMember(BOB, Box::new(patch.clone()))).unwrap();
    world.system(Command::RemoveMember(ANA));
    world.by(BOB, Command::UpdateMember(BOB, Box::new(MemberPatch { nick: Some(None), ..patch }))).unwrap();
    world.by(BOB, Command::RemoveMember(BOB)).unwrap();
    assert!(world.audit_events().is_empty());
    let listed = list(&mut world, all());
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 3);
    let Outcome::Reply(Ok(Reply::AuditLog(again))) =
        loaded.handle_command(world.now, Actor::User(OWNER), &Command::ReadAuditLog(all()))
    else {
        panic!("it is kept")
    };
    assert_eq!(again, listed);
    assert!(loaded.newest_id() >= listed[0].id.get(), "no other object gets its id");
}

#[test]
fn pages_and_filters() {
    let mut world = world(GuildLimits::default());
    world.grant(ANA, Permissions::BAN_MEMBERS, 5);
    for (by, command) in [(OWNER, ban(EVE)), (ANA, Command::Unban(EVE)), (OWNER, ban(EVE))] {
        world.by(by, command).unwrap();
    }
    use AuditAction::{MemberBanAdd, MemberBanRemove};
    let everything = list(&mut world, all());
    assert_eq!(actions(&everything), [MemberBanAdd, MemberBanRemove, MemberBanAdd]);
    let page = list(&mut world, AuditQuery { before: Some(everything[0].id), limit: 1, ..all() });
    assert_eq!(page, everything[1..2]);
    let page = list(&mut world, AuditQuery { after: Some(everything[2].id), ..all() });
    assert_eq!(page.iter().rev().cloned().collect::<Vec<_>>(), everything[..2], "oldest first");
    let of_ana = list(&mut world, AuditQuery { user_id: Some(ANA), ..all() });
    assert_eq!(actions(&of_ana), [MemberBanRemove]);
    let bans = list(&mut world, AuditQuery { action: Some(MemberBanAdd), ..all() });
    assert_eq!(bans.len(), 2);
    let about = |target: UserId| AuditQuery { target_id: Some(target.cast()), ..all() };
    assert_eq!((list(&mut world, about(EVE)).len(), list(&mut world, about(BOB)).len()), (3, 0));
    let refused = world.by(ANA, Command::ReadAuditLog(all()));
    assert_eq!(refused.unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn l2_the_oldest_go_and_members_push_out_only_members() {
    let limits = GuildLimits { audit_entries_max: 3, audit_member_entries_max: 2, ..GuildLimits::default() };
    let mut world = world(limits);
    let channel = world.text_channel();
    world.by(OWNER, ban(EVE)).unwrap();
    for n in 0..5 {
        world.by(BOB, invite(channel, n)).unwrap();
    }
    let listed = list(&mut world, all());
    assert_eq!(actions(&listed), [AuditAction::InviteCreate, AuditAction::InviteCreate, AuditAction::MemberBanAdd]);
    for _ in 0..2 {
        world.by(OWNER, Command::Unban(EVE)).unwrap();
        world.by(OWNER, ban(EVE)).unwrap();
    }
    let listed = list(&mut world, all());
    assert_eq!(listed.len(), 5, "three, and two of members");
    assert_eq!(world.store.resources.values().filter(|b| b.key().kind as u8 == 7).count(), 5, "no more are stored");
    // After 45 days none are listed, and they go when another comes.
    world.pass_ms(46 * DAY_MS);
    assert!(list(&mut world, all()).is_empty());
    world.by(OWNER, Command::Unban(EVE)).unwrap();
    assert_eq!(world.store.resources.values().filter(|b| b.key().kind as u8 == 7).count(), 1);
}

#[test]
fn there_may_be_no_log() {
    let mut world = world(GuildLimits { audit_entries_max: 0, ..GuildLimits::default() });
    world.by(OWNER, ban(EVE)).unwrap();
    assert!(world.audit_events().is_empty() && list(&mut world, all()).is_empty());
}

#[test]
fn deletions_by_one_moderator_are_one_entry() {
    let mut world = world(GuildLimits::default());
    let channel = world.text_channel();
    for n in 0..3 {
        let message = world.say(ANA, channel, &n.to_string());
        world.by(OWNER, Command::DeleteMessage(channel, message)).unwrap();
    }
    let own = world.say(ANA, channel, "x");
    world.by(ANA, Command::DeleteMessage(channel, own)).unwrap();
    let others = world.say(BOB, channel, "y");
    world.by(OWNER, Command::DeleteMessage(channel, others)).unwrap();
    assert_eq!(world.audit_events().len(), 2, "merging into an entry publishes no second event");
    let listed = list(&mut world, all());
    let counts: Vec<_> = listed.iter().map(|entry| (entry.target_id.unwrap().get(), &entry.options["count"])).collect();
    assert_eq!(counts, [(BOB.get(), &"1".into()), (ANA.get(), &"3".into())]);
    assert_eq!(listed[1].options["channel_id"], channel.to_string());
}

#[test]
fn texts_are_cut_and_roles_are_named() {
    let mut world = world(GuildLimits::default());
    let role = world.role(Permissions::NONE, 1);
    world.by(OWNER, Command::AddMemberRole(ANA, role)).unwrap();
    let entry = world.audit_events().remove(0);
    assert_eq!((entry.action, entry.changes[0].key.as_str()), (AuditAction::MemberRoleUpdate, "$add"));
    let named = serde_json::json!([{"id": role, "name": "role"}]);
    assert_eq!(entry.changes[0].new_value, Some(named));
    let patch = RolePatch { name: Some("ä".repeat(10_000)), ..RolePatch::default() };
    world.by(OWNER, Command::UpdateRole(role, Box::new(patch))).unwrap();
    let entry = world.audit_events().remove(0);
    let name = entry.changes[0].new_value.as_ref().and_then(|name| name.as_str()).unwrap();
    assert_eq!(name.chars().count(), 512);
}

/// The first update carries the whole move: a relay that has it knows all the new places, so the other
/// updates follow at once.
#[test]
fn nothing_comes_between_the_updates_of_one_move() {
    let mut world = world(GuildLimits::default());
    let category = world.channel(new_channel("category", ChannelType::Category));
    let channels = [world.text_channel(), world.text_channel(), world.text_channel()];
    world.sent.clear();
    let into = |id| ChannelMove { id, position: None, parent_id: Some(Some(category)), lock_permissions: false };
    world.by(OWNER, Command::MoveChannels(channels.map(into).to_vec())).unwrap();
    let names: Vec<EventName> = world.all_events().iter().map(|published| published.event.name).collect();
    let (updates, entries) = names.split_at(channels.len());
    assert_eq!(updates, [EventName::ChannelUpdate; 3]);
    assert_eq!(entries, [EventName::GuildAuditLogEntryCreate; 3]);
}
