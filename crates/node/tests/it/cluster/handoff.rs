//! A guild moves between nodes while it is used.

use super::*;
use crate::support::FaultStore;
use guildhall_guild::BackendCommand;
use guildhall_node::{HandoffFault, HandoffReport, MoveReason};

impl Site {
    /// Moves a guild from its owner to node `to`.
    async fn move_guild(&self, guild_id: GuildId, from: usize, to: usize) -> Result<HandoffReport, HandoffFault> {
        let number = self.place(to).membership.number();
        let membership = self.place(from).membership.clone();
        // On the node's own runtime, as the backend API does.
        let moved = self
            .place(from)
            .runtime
            .spawn(async move { membership.move_guild(guild_id, number, MoveReason::Requested).await });
        bounded(moved).await.unwrap()
    }
}

/// Posts messages through a node, one after the other, until it is stopped. Returns ids and texts.
pub(super) fn talk(
    site: &Site,
    through: usize,
    guild_id: GuildId,
    channel_id: ChannelId,
    is_over: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<Vec<(MessageId, String)>> {
    let (node, is_over) = (site.place(through).node.clone(), is_over.clone());
    tokio::spawn(async move {
        let mut sent = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            let text = format!("{through} {}", sent.len());
            let command = message(channel_id, &text);
            match bounded(node.command(guild_id, Actor::User(OWNER), command)).await {
                Ok(Reply::Message(reply)) => sent.push((reply.message.id, text)),
                other => panic!("message {text} through node {through}: {other:?}"),
            }
        }
        sent
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guild_in_use_moves_and_nothing_is_lost_doubled_or_reset() {
    let site = Site::new(3).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listeners = site.listen_everywhere(guild_id).await;
    site.attach_owner(0, guild_id, &mut listeners[0]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let talks: Vec<_> = (0..3).map(|through| talk(&site, through, guild_id, channel_id, &is_over)).collect();
    let path = [1, 0, 2, 1, 2, 0, 1];
    for hop in path.windows(2) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let report = site.move_guild(guild_id, hop[0], hop[1]).await.unwrap();
        println!("{} to {}: {report:?}", hop[0], hop[1]);
        assert!(report.bytes > 0 && report.members == 1, "{report:?}");
        assert_eq!(site.place(hop[1]).membership.owner_of(guild_id), Some(site.place(hop[1]).membership.number()));
    }
    is_over.store(true, Ordering::SeqCst);
    let mut sent = Vec::new();
    for talk in talks {
        let of_one = talk.await.unwrap();
        assert!(of_one.len() > 10, "it went on: {}", of_one.len());
        assert!(of_one.is_sorted(), "its messages are in its order");
        sent.extend(of_one);
    }
    sent.sort();
    // Longer than a relay waits for a confirmation that does not come.
    tokio::time::sleep(Duration::from_millis(guildhall_cluster::CONFIRM_MS_MAX + 500)).await;
    for listener in &mut listeners {
        for expected in &sent {
            assert_eq!(listener.next_message().await, *expected);
        }
        assert!(listener.try_next().is_none(), "no relay was reset");
    }
    // The session that attached at the first owner is known to the last.
    let command = Command::ReadMembers;
    let Ok(Reply::Members(members)) = bounded(site.place(2).node.command(guild_id, Actor::System, command)).await
    else {
        panic!()
    };
    assert!(members.entry(OWNER).unwrap().presence.is_some(), "its session is online");
    let figures = site.nodes.iter().flatten().map(|place| place.membership.report().handoffs);
    assert_eq!(figures.map(|of| (of.left, of.arrived, of.failed)).collect::<Vec<_>>(), [(2, 2, 0); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_made_no_id_reads_the_newest_one_while_the_guild_works_on() {
    let mut site = Site::new(0).await;
    let store = Arc::new(FaultStore::new(site.store.clone()));
    site.store = store.clone();
    for _ in 0..2 {
        site.add(LEASE_MS, NodeLimits::default()).await;
    }
    let (guild_id, channel_id) = site.guild_of(0, 0).await;
    site.say(0, guild_id, channel_id, "before").await.unwrap();
    let started = store.counts().largest_ids_begun;
    store.set(|faults| faults.hold_largest_id = true);
    let (to, membership) = (site.place(1).membership.number(), site.place(0).membership.clone());
    let moving = membership.clone();
    let moving = async move { moving.move_guild(guild_id, to, MoveReason::Requested).await };
    let moving = site.place(0).runtime.spawn(moving);
    store.wait(|counts| counts.largest_ids_begun > started).await;
    let leaving = membership.moves().leaving;
    assert!(matches!(&leaving[..], [leave] if leave.step == MoveStep::Members), "{leaving:?}");
    assert!(site.say(0, guild_id, channel_id, "meanwhile").await.is_ok(), "it works on");
    store.set(|faults| faults.hold_largest_id = false);
    let report = bounded(moving).await.unwrap().unwrap();
    let ended = membership.moves().ended;
    assert!(matches!(&ended[..], [moved] if moved.report == report && moved.fault.is_none()), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_and_publications_move_with_their_guild() {
    let site = Site::new(2).await;
    let (guild_id, channel_id) = site.guild_of(0, 0).await;
    let say = |nonce: i64| {
        let new = NewMessage {
            content: "once".to_owned(),
            nonce: Some(Nonce::Number(nonce)),
            enforce_nonce: true,
            ..NewMessage::default()
        };
        Command::CreateMessage(channel_id, Box::new(new))
    };
    let by = Actor::User(OWNER);
    let id_of = |reply: Result<Reply, Refusal>| match reply.unwrap() {
        Reply::Message(reply) => reply.message.id,
        other => panic!("{other:?}"),
    };
    let first = id_of(bounded(site.place(1).node.command(guild_id, by, say(7))).await);
    let publish = || {
        let body = RawValue::from_string("{}".to_owned()).unwrap();
        let event = Arc::new(BackendEvent::new("ROUND", &body, None).unwrap());
        let id = Some(PublicationId([1, 2]));
        Command::Backend(Box::new(BackendCommand::Publish { rule: AudienceRule::Members, event, id }))
    };
    let counted = |reply: Result<Reply, Refusal>| matches!(reply.unwrap(), Reply::Count(_));
    assert!(counted(bounded(site.place(1).node.command(guild_id, Actor::System, publish())).await));
    site.move_guild(guild_id, 0, 1).await.unwrap();
    assert_eq!(id_of(bounded(site.place(0).node.command(guild_id, by, say(7))).await), first);
    assert_ne!(id_of(bounded(site.place(0).node.command(guild_id, by, say(8))).await), first);
    assert!(!counted(bounded(site.place(0).node.command(guild_id, Actor::System, publish())).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_cannot_be_leaves_the_guild_where_it_is() {
    let site = Site::new(3).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    assert_eq!(site.move_guild(guild_id, 0, 1).await, Err(HandoffFault::NotHere));
    assert_eq!(site.move_guild(guild_id, 1, 1).await, Err(HandoffFault::There));
    // A node that drains takes none.
    site.place(2).membership.drain();
    let number = site.place(2).membership.number();
    let sees_drain = || {
        let report = site.place(1).membership.report();
        report.nodes.iter().any(|node| node.number == number.0 && node.record.state == NodeState::Draining)
    };
    until(sees_drain, || site.place(1).membership.report()).await;
    assert_eq!(site.move_guild(guild_id, 1, 2).await, Err(HandoffFault::Target));
    // The lease store cannot be reached: the record may name the other node, so the guild is released.
    site.place(1).is_cut.store(true, Ordering::SeqCst);
    let failed = site.move_guild(guild_id, 1, 0).await;
    assert_eq!(failed, Err(HandoffFault::Outage));
    site.place(1).is_cut.store(false, Ordering::SeqCst);
    site.say_until_served(0, guild_id, channel_id).await;
    assert_eq!(site.place(1).membership.report().handoffs.failed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_a_guild_goes_on_if_the_new_owner_does_not_answer_while_inputs_wait() {
    let site = Site::new(2).await;
    let (guild_id, channel_id) = site.guild_of(0, 0).await;
    site.say(0, guild_id, channel_id, "before").await.unwrap();
    site.place(0).is_mute_when_frozen.store(true, Ordering::SeqCst);
    let (to, membership) = (site.place(1).membership.number(), site.place(0).membership.clone());
    let moving = async move { membership.move_guild(guild_id, to, MoveReason::Requested).await };
    let moving = site.place(0).runtime.spawn(moving);
    let leaving = || site.place(0).membership.moves().leaving;
    until(|| leaving().iter().any(|leave| leave.step == MoveStep::Freeze), leaving).await;
    assert!(site.say(0, guild_id, channel_id, "waits").await.is_ok(), "it is carried out here");
    let failed = bounded(moving).await.unwrap();
    assert!(matches!(&failed, Err(HandoffFault::Refused(reason)) if reason.contains("last changes")), "{failed:?}");
    site.place(0).is_mute_when_frozen.store(false, Ordering::SeqCst);
    // The other node had none of it.
    site.move_guild(guild_id, 0, 1).await.unwrap();
    assert!(site.say(0, guild_id, channel_id, "after").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guild_whose_new_owner_is_killed_is_served_again() {
    let mut site = Site::with(3, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    let before = site.say(0, guild_id, channel_id, "before").await.unwrap();
    assert_eq!(listener.next_message().await.0, before);
    site.move_guild(guild_id, 1, 2).await.unwrap();
    site.kill(2);
    let outage = site.say_until_served(0, guild_id, channel_id).await;
    println!("served again after {outage:?}");
    listener.begins_again();
    assert!(listener.snapshot().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_hands_over_its_guilds_with_relays() {
    let site = Site::new(3).await;
    let (used, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, used);
    listener.snapshot().await;
    site.place(1).membership.drain();
    let membership = site.place(1).membership.clone();
    let deadline = Instant::now() + Duration::from_secs(30);
    let moved = bounded(site.place(1).runtime.spawn(async move { membership.move_all(deadline).await })).await.unwrap();
    assert_eq!(moved, (1, 0));
    let after = site.say(2, used, channel_id, "after").await.unwrap();
    assert_eq!(listener.next_message().await.0, after, "no snapshot comes before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_guilds_move_there_and_back() {
    let site = Site::new(2).await;
    let mut guilds = Vec::new();
    for n in 0..12_u64 {
        let guild_id = GuildId::new((1_700_000_000_000 << 22) + (n << 12));
        bounded(site.place(0).node.create_guild(new_guild(guild_id.get(), OWNER))).await.unwrap();
        guilds.push(guild_id);
    }
    let mut moved_count = 0;
    for _ in 0..2 {
        for guild_id in &guilds {
            let owner = site.place(0).membership.find_owner(*guild_id).await.unwrap();
            let from = (0..2).find(|at| site.place(*at).membership.number() == owner).unwrap();
            site.move_guild(*guild_id, from, 1 - from).await.unwrap();
            moved_count += 1;
            let read = site.place(from).node.command(*guild_id, Actor::System, Command::ReadGuild);
            assert!(matches!(bounded(read).await, Ok(Reply::Guild(_))));
        }
    }
    assert_eq!(moved_count, 24);
}
