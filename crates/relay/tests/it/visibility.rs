//! Domains of events, compared with the permission algorithm on random guilds.

use crate::fixture::*;
use guildhall_guild_protocol::{
    AccessChange, AudienceRule, Clearance, Event, GuildStructure, Payload, Redaction, Viewer, Visibility,
};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Intents, MessageId, Overwrite, OverwriteKind, Permissions, UserId,
};
use guildhall_relay::AudienceIndex;
use guildhall_stdx::Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const USERS: u64 = 8;
const ROLES: [u64; 4] = [1, 21, 22, 23];
const CHANNELS: u64 = 5;

fn some_structure(rng: &mut Rng) -> Arc<GuildStructure> {
    let roles: Vec<_> = ROLES.iter().map(|id| role(*id, some_bits(rng))).collect();
    let channels: Vec<_> = (0..CHANNELS)
        .map(|n| {
            let mut overwrites: Vec<Overwrite> = Vec::new();
            for _ in 0..rng.below(4) {
                let target = match rng.below(3) {
                    0 => OverwriteKind::Member(UserId::new(50 + rng.below(USERS))),
                    _ => OverwriteKind::Role(id(*rng.pick(&ROLES).expect("there are some"))),
                };
                overwrites.retain(|other| other.target != target);
                overwrites.push(Overwrite { target, allow: some_bits(rng), deny: some_bits(rng) });
            }
            channel(100 + n, ChannelType::Text, overwrites)
        })
        .collect();
    structure(50, &roles, &channels)
}

fn some_members(rng: &mut Rng) -> Members {
    let mut some = |user: u64| {
        let roles: Vec<u64> = ROLES[1..].iter().copied().filter(|_| rng.chance(0.4)).collect();
        (UserId::new(user), member(user, &roles))
    };
    (50..50 + USERS).map(&mut some).collect()
}

fn rules(structure: &GuildStructure) -> Vec<AudienceRule> {
    let channel = |n: u64| ChannelId::new(100 + n);
    let mut rules = vec![AudienceRule::Members, AudienceRule::Channels([].into())];
    for n in 0..CHANNELS {
        rules.push(AudienceRule::Channel(channel(n)));
        rules.push(AudienceRule::Channels([channel(n), channel((n + 1) % CHANNELS)].into()));
        rules.extend(structure.list_of(channel(n)).map(AudienceRule::List));
    }
    rules
}

fn viewers(structure: &GuildStructure, members: &Members, rule: &AudienceRule) -> BTreeSet<UserId> {
    let admitted = members.values().filter(|member| naive_admits(structure, member, rule));
    admitted.map(|member| member.user.id).collect()
}

/// Domain and viewers, by gate.
fn domains(
    structure: &Arc<GuildStructure>,
    members: &Members,
) -> BTreeMap<String, (AudienceRule, Visibility, BTreeSet<UserId>)> {
    let index = AudienceIndex::new(structure.clone());
    let of_rule = |rule: AudienceRule| {
        let visibility = index.visibility(&event(rule.clone()));
        (format!("{rule:?}"), (rule.clone(), visibility, viewers(structure, members, &rule)))
    };
    rules(structure).into_iter().map(of_rule).collect()
}

#[test]
fn d1_d2_events_of_a_domain_have_the_same_viewers() {
    let (mut restricted, mut public, mut equal) = (0, 0, 0);
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let (structure, members) = (some_structure(&mut rng), some_members(&mut rng));
        let domains: Vec<_> = domains(&structure, &members).into_values().collect();
        for (rule, visibility, viewers) in &domains {
            match visibility {
                Visibility::Public(_) if matches!(rule, AudienceRule::List(_)) => {}
                Visibility::Public(_) => {
                    public += 1;
                    assert_eq!(viewers.len(), members.len(), "seed {seed}: {rule:?} is not open to everyone");
                }
                Visibility::Restricted { .. } => restricted += 1,
                Visibility::Direct(_) | Visibility::Alone => continue,
            }
            for (other_rule, other, others) in &domains {
                if other == visibility
                    && matches!(rule, AudienceRule::List(_)) == matches!(other_rule, AudienceRule::List(_))
                {
                    equal += usize::from(rule != other_rule);
                    assert_eq!(viewers, others, "seed {seed}: {rule:?} and {other_rule:?} share {visibility:?}");
                }
            }
        }
    }
    assert!(restricted > 1_000 && public > 300 && equal > 300, "{restricted} {public} {equal}");
}

#[test]
fn d3_a_key_ends_with_the_rules_behind_it() {
    let (mut kept, mut narrowed, mut ended) = (0, 0, 0);
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let (before, members) = (some_structure(&mut rng), some_members(&mut rng));
        let mut after = GuildStructure::clone(&before);
        let other = some_structure(&mut rng);
        if rng.chance(0.5) {
            let target = *rng.pick(&ROLES).expect("there are some");
            Arc::make_mut(&mut after.roles).insert(id(target), other.roles[&id(target)].clone());
        } else {
            let target = ChannelId::new(100 + rng.below(CHANNELS));
            Arc::make_mut(&mut after.channels).insert(target, other.channels[&target].clone());
        }
        let after = Arc::new(after);
        let mut index = AudienceIndex::new(before.clone());
        let change = index.set_structure(after.clone(), &mut ());
        let (then, now) = (domains(&before, &members), domains(&after, &members));
        for (_, visibility, viewers) in then.values() {
            if !matches!(visibility, Visibility::Restricted { .. }) {
                continue;
            }
            for (rule, later, viewers_now) in now.values().filter(|(_, later, _)| later == visibility) {
                kept += 1;
                assert_eq!(viewers, viewers_now, "seed {seed}: {rule:?} keeps {later:?} for other viewers");
            }
        }
        for n in 0..CHANNELS {
            let rule = format!("{:?}", AudienceRule::Channel(ChannelId::new(100 + n)));
            let was_public = matches!(then[&rule].1, Visibility::Public(_));
            let is_public = matches!(now[&rule].1, Visibility::Public(_));
            let id = ChannelId::new(100 + n);
            assert_eq!(
                change.narrowed.iter().any(|(narrowed, _)| *narrowed == id),
                was_public && !is_public,
                "seed {seed}"
            );
            assert_eq!(change.opened.contains(&id), !was_public && is_public, "seed {seed}");
            narrowed += usize::from(was_public && !is_public);
            if let (Visibility::Restricted { key, .. }, false) = (then[&rule].1, then[&rule].1 == now[&rule].1) {
                ended += 1;
                assert!(change.ended.contains(&key), "seed {seed}");
            }
        }
    }
    assert!(kept > 1_000 && narrowed > 20 && ended > 300, "{kept} {narrowed} {ended}");
}

#[test]
fn a_channel_that_is_gone_is_narrowed() {
    let everyone = [role(1, Permissions::VIEW_CHANNEL)];
    let both = structure(50, &everyone, &[100, 101].map(|id| channel(id, ChannelType::Text, Vec::new())));
    let one = structure(50, &everyone, &[channel(100, ChannelType::Text, Vec::new())]);
    let mut index = AudienceIndex::new(both);
    let narrowed = AccessChange { narrowed: vec![(id(101), None)], ..AccessChange::default() };
    assert_eq!(index.set_structure(one.clone(), &mut ()), narrowed);
    assert!(index.set_structure(one, &mut ()).is_empty());
    assert_eq!(index.visibility(&event(AudienceRule::Channel(id(101)))), Visibility::Alone);
}

#[derive(Clone, Copy)]
struct Somebody {
    user_id: UserId,
    intents: Option<Intents>,
}

impl Viewer for Somebody {
    fn user_id(&self) -> UserId {
        self.user_id
    }
    fn is_user_account(&self) -> bool {
        self.intents.is_none()
    }
    fn intents(&self) -> Intents {
        self.intents.unwrap_or(Intents::ALL)
    }
}

#[test]
fn privileged_events_have_domains_of_their_own() {
    let everyone = [role(1, Permissions::VIEW_CHANNEL)];
    let index = AudienceIndex::new(structure(50, &everyone, &[channel(100, ChannelType::Text, Vec::new())]));
    let user = Somebody { user_id: id(51), intents: None };
    let bot = |intents| Somebody { user_id: id(52), intents: Some(intents) };
    let plain = bot(Intents(Intents::ALL.0 & !Intents::PRIVILEGED.0));
    let named = |name| Event::new(GUILD, name, AudienceRule::Members, Payload::GuildGone);
    for (event, clearance, intent) in [
        (named(EventName::GuildUpdate), Clearance::None, Intents::NONE),
        (named(EventName::GuildMemberAdd), Clearance::Members, Intents::GUILD_MEMBERS),
        (named(EventName::PresenceUpdate), Clearance::Presences, Intents::GUILD_PRESENCES),
        (said_in(id(100), MessageId::new(9), id(60), &[id(52)], false), Clearance::Content, Intents::MESSAGE_CONTENT),
    ] {
        let visibility = index.visibility(&event);
        assert_eq!(visibility, Visibility::Public(clearance), "{:?}", event.name);
        assert_eq!(visibility.in_form(&event, Redaction::None), visibility);
        assert!(visibility.covers(&event, &user) && visibility.covers(&event, &bot(plain.intents() | intent)));
        // A bot without it receives such an event only because it names the bot.
        assert_eq!(visibility.covers(&event, &plain), clearance == Clearance::None, "{:?}", event.name);
    }
    let event = said_in(id(100), MessageId::new(9), id(60), &[id(52)], false);
    let strangers = Redaction::for_strangers(event.content_readers.as_ref().expect("a message has readers"));
    let visibility = index.visibility(&event).in_form(&event, strangers);
    assert_eq!(visibility, Visibility::Public(Clearance::None));
    assert!(visibility.covers(&event, &plain));
    let about = named(EventName::GuildUpdate).always_to(id(51));
    assert!(!index.visibility(&about).covers(&about, &user), "a recipient whom the gate may not admit");
}
