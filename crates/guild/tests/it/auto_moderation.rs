//! Auto moderation: blocked messages, and the actions that follow.

use crate::fixture::*;
use guildhall_guild::{
    AutoModPatch, Command, Forward, Guild, GuildLimits, MessagePatch, NewMessage, NewPoll, NewThread, Refusal, Reply,
};
use guildhall_guild_protocol::{AudienceRule, Payload, Published, ResourcePayload};
use guildhall_model::{
    AutoModAction, AutoModExecution, AutoModTrigger, ChannelId, EventName, GuildId, Id, Message, Permissions,
    PollAnswer, User, UserId,
};
use std::sync::Arc;

const BLOCK: AutoModAction = AutoModAction::BlockMessage { custom_message: None };

fn keywords(words: &[&str], actions: &[AutoModAction]) -> AutoModPatch {
    let keyword_filter = words.iter().map(|word| (*word).to_owned()).collect();
    AutoModPatch {
        name: Some("rule".to_owned()),
        trigger: Some(AutoModTrigger::Keyword { keyword_filter, regex_patterns: Vec::new(), allow_list: Vec::new() }),
        actions: Some(actions.to_vec()),
        enabled: Some(true),
        ..AutoModPatch::default()
    }
}

fn create(world: &mut World, by: UserId, new: AutoModPatch) -> Result<Id<()>, Refusal> {
    match world.by(by, Command::CreateAutoModRule(Box::new(new)))? {
        Reply::AutoModRule(rule) => Ok(rule.id),
        other => panic!("{other:?}"),
    }
}

fn execution(published: &Arc<Published>) -> Option<AutoModExecution> {
    let Payload::Resource(resource) = &published.event.payload else { return None };
    let ResourcePayload::AutoModExecution(execution) = &**resource else { return None };
    assert_eq!(published.event.audience.rule, AudienceRule::GuildPermission(Permissions::MANAGE_GUILD));
    Some(AutoModExecution::clone(execution))
}

fn executions(world: &mut World) -> Vec<AutoModExecution> {
    world.timer();
    let events = world.events();
    world.sent.clear();
    events.iter().filter_map(execution).collect()
}

/// A guild with this rule and a channel.
fn scene(new: AutoModPatch) -> (World, ChannelId, Id<()>) {
    let mut world = World::populated();
    let channel = world.text_channel();
    let rule = create(&mut world, OWNER, new).expect("she may");
    world.sent.clear();
    (world, channel, rule)
}

#[test]
fn t1_a_blocked_message_is_nowhere() {
    let (mut world, channel, rule) = scene(keywords(&["bad"], &[BLOCK]));
    let before = world.store.messages.clone();
    assert_eq!(world.try_say(ANA, channel, text("so BAD!")).unwrap_err(), Refusal::Blocked);
    assert!(world.events().is_empty() && world.store.messages == before);
    let taken = executions(&mut world);
    assert_eq!(taken.len(), 1);
    let AutoModExecution { rule_id, user_id, message_id, matched_keyword, matched_content, content, .. } = &taken[0];
    assert_eq!((*rule_id, *user_id, *message_id), (rule, ANA, None));
    assert_eq!((matched_keyword.as_deref(), matched_content.as_deref()), (Some("bad"), Some("bad")));
    assert_eq!(content, "so BAD!");
    // Neither by an edit, nor by a thread.
    let good = world.say(ANA, channel, "good");
    let patch = MessagePatch { content: Some("bad".to_owned()), ..MessagePatch::default() };
    let edit = Command::EditMessage(channel, good, Box::new(patch));
    assert_eq!(world.by(ANA, edit).unwrap_err(), Refusal::Blocked);
    let thread = NewThread { name: "a bad name".to_owned(), ..NewThread::default() };
    assert_eq!(world.by(ANA, Command::CreateThread(channel, Box::new(thread))).unwrap_err(), Refusal::Blocked);
    assert_eq!(world.store.message(channel, good).unwrap().message.content, "good");
    let custom = AutoModAction::BlockMessage { custom_message: Some("be nice".to_owned()) };
    let patch = AutoModPatch { actions: Some(vec![custom]), ..AutoModPatch::default() };
    world.by(OWNER, Command::UpdateAutoModRule(rule, Box::new(patch))).expect("she may");
    assert_eq!(world.try_say(ANA, channel, text("bad")).unwrap_err().to_string(), "be nice");
}

#[test]
fn t2_each_action_is_published_and_logged() {
    let mut world = World::populated();
    let (channel, alerts) = (world.text_channel(), world.text_channel());
    let actions = [AutoModAction::SendAlert { channel_id: alerts }, AutoModAction::Timeout { duration_s: 60 }];
    create(&mut world, OWNER, keywords(&["bad"], &actions)).expect("she may");
    let sent = world.try_say(ANA, channel, text("bad")).expect("it is not blocked").message.id;
    world.sent.clear();
    world.timer();
    let events = world.all_events();
    let logged = events.iter().filter_map(|published| match &published.event.payload {
        Payload::Resource(resource) => match &**resource {
            ResourcePayload::AuditEntry(entry) => Some((entry.action as u8, entry.target_id)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(logged.collect::<Vec<_>>(), [(144, Some(ANA.cast())), (145, Some(ANA.cast()))]);
    let alert = events.iter().find_map(|published| match &published.event.payload {
        Payload::Message(event) => Some(event.message.clone()),
        _ => None,
    });
    let alert = alert.expect("there is an alert");
    assert_eq!((alert.channel_id, alert.kind), (alerts, Message::KIND_AUTO_MODERATION_ACTION));
    let taken: Vec<_> = events.iter().filter_map(execution).collect();
    assert_eq!((taken.len(), taken[0].message_id, taken[0].alert_message_id), (2, Some(sent), Some(alert.id)));
    let until = world.member(ANA).communication_disabled_until.expect("she is timed out");
    assert_eq!(until.0, world.now.unix.0 + 60_000);
    assert_eq!(world.try_say(ANA, channel, text("hi")).unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn t3_bots_managers_and_exempt_places() {
    let (mut world, channel, rule) = scene(keywords(&["bad"], &[BLOCK]));
    world.grant(BOB, Permissions::MANAGE_GUILD, 1);
    world.try_say(BOB, channel, text("bad")).expect("he manages the guild");
    let robot = guildhall_model::User { bot: true, ..guildhall_model::User::new(NOBODY, "robot") };
    world.system(Command::AddMember(Arc::new(robot)));
    world.try_say(NOBODY, channel, text("bad")).expect("it is a bot");
    let role = world.grant(EVE, Permissions::NONE, 1);
    let other = world.text_channel();
    let change = |patch| Command::UpdateAutoModRule(rule, Box::new(patch));
    let patch =
        AutoModPatch { exempt_roles: Some(vec![role]), exempt_channels: Some(vec![other]), ..AutoModPatch::default() };
    world.by(OWNER, change(patch)).expect("she may");
    world.try_say(EVE, channel, text("bad")).expect("her role is exempt");
    world.try_say(ANA, other, text("bad")).expect("the channel is exempt");
    assert_eq!(world.try_say(ANA, channel, text("bad")).unwrap_err(), Refusal::Blocked);
    world.by(OWNER, change(AutoModPatch { enabled: Some(false), ..AutoModPatch::default() })).expect("she may");
    world.try_say(ANA, channel, text("bad")).expect("the rule is off");
}

#[test]
fn mentions_are_counted() {
    let trigger = Some(AutoModTrigger::MentionSpam { mention_total_limit: 2 });
    let (mut world, channel, _) = scene(AutoModPatch { trigger, ..keywords(&[], &[BLOCK]) });
    world.try_say(ANA, channel, text("<@100> <@101> <@101>")).expect("two are allowed");
    let many = text("<@100> <@101> <@&7>");
    assert_eq!(world.try_say(ANA, channel, many).unwrap_err(), Refusal::Blocked);
    assert_eq!(executions(&mut world)[0].matched_keyword, None);
}

/// A rule with this trigger that blocks.
fn blocking(trigger: AutoModTrigger) -> AutoModPatch {
    AutoModPatch { trigger: Some(trigger), ..keywords(&[], &[BLOCK]) }
}

#[test]
fn patterns_and_lists_block() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let pattern = |pattern: &str| AutoModTrigger::Keyword {
        keyword_filter: Vec::new(),
        regex_patterns: vec![pattern.to_owned()],
        allow_list: Vec::new(),
    };
    create(&mut world, OWNER, blocking(pattern(r"fr[e3]{2}\s+nitro"))).expect("she may");
    assert_eq!(
        create(&mut world, OWNER, blocking(pattern("a("))).unwrap_err(),
        Refusal::InvalidForm("trigger_metadata")
    );
    let presets = AutoModTrigger::KeywordPreset { presets: vec![1], allow_list: Vec::new() };
    create(&mut world, OWNER, blocking(presets.clone())).expect("she may");
    assert_eq!(create(&mut world, OWNER, blocking(presets)).unwrap_err(), Refusal::TooManyRules);
    assert_eq!(world.try_say(ANA, channel, text("get fr33 nitro!")).unwrap_err(), Refusal::Blocked);
    assert_eq!(world.try_say(ANA, channel, text("Bullshit")).unwrap_err(), Refusal::Blocked);
    let taken = executions(&mut world);
    let found: Vec<_> = taken.iter().map(|of| (of.trigger_kind, of.matched_content.as_deref())).collect();
    assert_eq!(found, [(1, Some("fr33 nitro")), (4, Some("bullshit"))]);
    world.say(ANA, channel, "free of it");
}

#[test]
fn repetitions_are_spam() {
    let (mut world, channel, _) = scene(blocking(AutoModTrigger::Spam));
    let other = world.text_channel();
    for channel in [channel, other, channel] {
        world.try_say(ANA, channel, text("buy my fine hats")).expect("three are allowed");
    }
    assert_eq!(world.try_say(ANA, other, text("Buy my  FINE hats")).unwrap_err(), Refusal::Blocked);
    assert_eq!(executions(&mut world)[0].trigger_kind, AutoModTrigger::SPAM);
    world.try_say(BOB, channel, text("buy my fine hats")).expect("his first");
    world.pass_ms(60_000);
    world.try_say(ANA, channel, text("buy my fine hats")).expect("a minute is over");
}

#[test]
fn forwarded_texts_and_polls_are_judged() {
    let (mut world, channel, _) = scene(keywords(&["bad"], &[BLOCK]));
    let poll = |question: &str, answer_text: &str| {
        let answer = |text: &str| PollAnswer { id: 0, text: Some(text.to_owned()), emoji: None };
        let poll = NewPoll {
            question: question.to_owned(),
            answers: vec![answer("yes"), answer(answer_text)],
            duration_h: 1,
            allow_multiselect: false,
        };
        NewMessage { poll: Some(Box::new(poll)), ..NewMessage::default() }
    };
    for (question, answer) in [("how bad?", "no"), ("how?", "so bad")] {
        assert_eq!(world.try_say(ANA, channel, poll(question, answer)).unwrap_err(), Refusal::Blocked);
    }
    world.try_say(ANA, channel, poll("how?", "well")).expect("nothing matches");
    let elsewhere = |text: &str| Message {
        content: text.to_owned(),
        ..Message::new(Id::new(9), ChannelId::new(6), GuildId::new(5), Arc::new(User::new(NOBODY, "somebody")))
    };
    let forward = |text: &str| {
        let (guild_id, snapshot) = (Some(GuildId::new(5)), Some((&elsewhere(text)).into()));
        let forward = Forward { channel_id: ChannelId::new(6), message_id: Id::new(9), guild_id, snapshot };
        NewMessage { forward: Some(Box::new(forward)), ..NewMessage::default() }
    };
    assert_eq!(world.try_say(ANA, channel, forward("very bad")).unwrap_err(), Refusal::Blocked);
    world.try_say(ANA, channel, forward("very good")).expect("nothing matches");
}

#[test]
fn rules_are_managed_kept_and_bounded() {
    let (mut world, channel, first) = scene(keywords(&["bad"], &[BLOCK]));
    let new = || keywords(&["worse"], &[BLOCK]);
    assert_eq!(create(&mut world, ANA, new()).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(world.by(ANA, Command::ListAutoModRules).unwrap_err(), Refusal::MissingPermissions);
    world.grant(ANA, Permissions::MANAGE_GUILD, 1);
    let timeout = keywords(&["worse"], &[AutoModAction::Timeout { duration_s: 60 }]);
    assert_eq!(create(&mut world, ANA, timeout).unwrap_err(), Refusal::MissingPermissions, "nor may she");
    let alert = AutoModAction::SendAlert { channel_id: ChannelId::new(5) };
    assert_eq!(create(&mut world, ANA, keywords(&[], &[alert])).unwrap_err(), Refusal::InvalidForm("actions"));
    world.sent.clear();
    let second = create(&mut world, ANA, new()).expect("she may");
    world.only_event(EventName::AutoModerationRuleCreate);
    for _ in 2..6 {
        create(&mut world, ANA, new()).expect("there is room");
    }
    assert_eq!(create(&mut world, ANA, new()).unwrap_err(), Refusal::TooManyRules);
    world.sent.clear();
    world.by(ANA, Command::DeleteAutoModRule(second)).expect("she may");
    world.only_event(EventName::AutoModerationRuleDelete);
    let gone = Command::DeleteAutoModRule(second);
    assert_eq!(world.by(ANA, gone).unwrap_err(), Refusal::UnknownAutoModRule);
    let trigger = Some(AutoModTrigger::MentionSpam { mention_total_limit: 2 });
    let other = Command::UpdateAutoModRule(first, Box::new(AutoModPatch { trigger, ..AutoModPatch::default() }));
    assert_eq!(world.by(ANA, other).unwrap_err(), Refusal::InvalidForm("trigger_metadata"));

    let loaded = Guild::load(world.store.record(), GuildLimits::default(), 3);
    world.begin_again(loaded);
    let Ok(Reply::AutoModRules(rules)) = world.by(ANA, Command::ListAutoModRules) else { panic!() };
    assert_eq!((rules.len(), rules[0].id), (5, first));
    assert_eq!(world.try_say(BOB, channel, text("worse")).unwrap_err(), Refusal::Blocked);
}
