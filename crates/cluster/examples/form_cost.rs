//! Cost of an event that crosses between nodes as data, against one that crosses as rendered bodies.
//!
//!     cargo run --release -p guildhall-cluster --example form_cost
//!
//! The events are those of a real guild: messages with generated texts, replies and mentions, then members and channels
//! that change. Prints microseconds of one core and bytes, per event:
//!
//! * data: the owner encodes once; each node decodes once and renders the bodies that its sessions need.
//! * bodies: the owner renders both encodings, of messages also without content, and encodes the rest of the event
//!   once; each node decodes the rest and shares the bodies.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures")]

use guildhall_cluster::wire::{VERSION, decode, encode};
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, ChannelPatch, Command, Guild, MemberPatch, NewMessage, Outcome, Output, Reply, ReplyTo};
use guildhall_guild_protocol::{Event, PartitionId, Payload, Published, Redaction, RelayId, RelayMessage, ToGuild};
use guildhall_model::{ChannelType, Permissions};
use guildhall_stdx::Now;
use guildhall_test_kit::{GuildBuilder, id, user};
use guildhall_traffic::Chat;
use std::{hint::black_box, sync::Arc, time::Instant};

const MEMBERS: u64 = 1_000;
const CHANNELS: u64 = 50;
const EVENTS: usize = 2_000;
const ROUNDS: usize = 15;

fn main() {
    let mut guild = guild();
    let mut now_ms = 1_700_000_000_000;
    let chat = Chat::built_in();
    let mut messages = Vec::new();
    let mut previous = None;
    for n in 0..EVENTS {
        now_ms += 500;
        let now = Now::new(now_ms as u64, now_ms);
        let mention = if n.is_multiple_of(12) { format!("<@{}> ", user(n as u64 % MEMBERS).id) } else { String::new() };
        let new = NewMessage {
            content: format!("{mention}{}", chat.line(n)),
            reply_to: previous
                .filter(|_| n.is_multiple_of(7))
                .map(|message_id| ReplyTo { message_id, fail_if_not_exists: false }),
            ..NewMessage::default()
        };
        let author = Actor::User(user(1 + n as u64 % (MEMBERS - 1)).id);
        let outcome = guild.handle_command(now, author, &Command::CreateMessage(id(100), Box::new(new)));
        let Outcome::Reply(Ok(Reply::Message(reply))) = outcome else { panic!("{outcome:?}") };
        previous = Some(reply.message.id);
        messages.extend(published(&mut guild));
    }
    let mut members = Vec::new();
    let mut channels = Vec::new();
    for n in 0..200 {
        now_ms += 500;
        let now = Now::new(now_ms as u64, now_ms);
        let patch = MemberPatch { nick: Some(Some(format!("nick {n}"))), ..MemberPatch::default() };
        guild.handle_command(now, Actor::System, &Command::UpdateMember(user(1 + n).id, Box::new(patch)));
        members.extend(published(&mut guild));
        let patch = ChannelPatch { topic: Some(Some(format!("topic {n}"))), ..ChannelPatch::default() };
        guild.handle_command(now, Actor::System, &Command::UpdateChannel(id(100 + n % CHANNELS), Box::new(patch)));
        channels.extend(published(&mut guild));
    }
    println!(
        "{:26} {:>7} | data: {:>6} {:>7} {:>8} {:>8} | bodies: {:>6} {:>8} {:>7}",
        "event", "json B", "bytes", "owner", "node 1b", "node all", "bytes", "owner", "node"
    );
    for (title, events) in
        [("MESSAGE_CREATE", &messages), ("GUILD_MEMBER_UPDATE", &members), ("CHANNEL_UPDATE, 50 channels", &channels)]
    {
        report(title, events);
    }
}

fn guild() -> Guild {
    let mut builder = GuildBuilder::new(1, &user(0)).everyone(Permissions::DEFAULT_EVERYONE);
    for n in 0..CHANNELS {
        builder = builder.channel(100 + n, ChannelType::Text);
    }
    for role in 0..20 {
        builder = builder.role(900 + role, Permissions::NONE);
    }
    for n in 1..MEMBERS {
        builder = builder.member(&user(n), &[900 + n % 20, 900 + n % 7]);
    }
    let mut guild = builder.load();
    let relay = RelayId::first(PartitionId(0));
    guild.handle_relay(Now::new(0, 1_699_999_999_000), ToGuild::Subscribe { relay, epoch: 1 });
    published(&mut guild);
    guild
}

fn published(guild: &mut Guild) -> Vec<Arc<Published>> {
    let mut found = Vec::new();
    while let Some(output) = guild.poll_output() {
        if let Output::Relay(output) = output
            && let RelayMessage::Published(event) = output.message
        {
            found.push(event);
        }
    }
    let version = guild.version();
    guild.handle_committed(version);
    found
}

fn bodies(event: &Event) -> Vec<(Encoding, Redaction)> {
    let redactions =
        std::iter::once(Redaction::None).chain(event.content_readers.as_ref().map(Redaction::for_strangers));
    redactions.flat_map(|redaction| [(Encoding::Json, redaction), (Encoding::Etf, redaction)]).collect()
}

fn render(event: &Event, (encoding, redaction): (Encoding, Redaction)) -> Vec<u8> {
    let mut body = Vec::new();
    event.render(encoding, redaction, &mut body);
    body
}

/// The event without its payload.
fn rest_of(published: &Published) -> Published {
    let Event { guild_id, name, audience, .. } = &published.event;
    let event = Event {
        guild_id: *guild_id,
        name: *name,
        audience: audience.clone(),
        content_readers: None,
        payload: Payload::GuildGone,
    };
    Published { event, replica_update: published.replica_update.clone() }
}

/// Microseconds per event: the median of the rounds.
fn time<T, R>(items: &[T], work: impl Fn(&T) -> R) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            items.iter().for_each(|item| drop(black_box(work(black_box(item)))));
            start.elapsed().as_secs_f64() * 1e6 / items.len() as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn report(title: &str, events: &[Arc<Published>]) {
    let mean = |bytes: usize| bytes / events.len();
    let json: usize = events.iter().map(|p| render(&p.event, (Encoding::Json, Redaction::None)).len()).sum();
    let as_data: Vec<Vec<u8>> = events.iter().map(|published| encode(&**published)).collect();
    let rests: Vec<(Published, Vec<u8>)> = events
        .iter()
        .map(|published| {
            let rest = rest_of(published);
            let bytes = encode(&rest);
            (rest, bytes)
        })
        .collect();
    let bodies_bytes: usize = events
        .iter()
        .flat_map(|published| bodies(&published.event).into_iter().map(|form| 4 + render(&published.event, form).len()))
        .sum();
    let rests_bytes: usize = rests.iter().map(|(_, bytes)| bytes.len()).sum();

    let encode_data = time(events, |published| encode(&**published));
    let decode_data = time(&as_data, |bytes| decode::<Published>(VERSION, bytes));
    let render_one = time(events, |published| render(&published.event, (Encoding::Json, Redaction::None)));
    let render_all = time(events, |published| {
        bodies(&published.event).into_iter().map(|form| render(&published.event, form)).collect::<Vec<_>>()
    });
    let encode_rest = time(&rests, |(rest, _)| encode(rest));
    let decode_rest = time(&rests, |(_, bytes)| decode::<Published>(VERSION, bytes));
    println!(
        "{title:26} {:>7} | data: {:>6} {:>7.1} {:>8.1} {:>8.1} | bodies: {:>6} {:>8.1} {:>7.1}",
        mean(json),
        mean(as_data.iter().map(Vec::len).sum()),
        encode_data,
        decode_data + render_one,
        decode_data + render_all,
        mean(bodies_bytes + rests_bytes),
        render_all + encode_rest,
        decode_rest,
    );
    println!(
        "{:26} encode {encode_data:.2}, decode {decode_data:.2}, render one {render_one:.2}, render all {render_all:.2}, \
         encode rest {encode_rest:.2}, decode rest {decode_rest:.2} µs",
        ""
    );
}
