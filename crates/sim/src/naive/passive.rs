//! Passive updates, as they must be (docs/protocol.md §8.5).

use super::{Change, PassiveForm, State, text::list};
use guildhall_relay::Payload;
use std::collections::BTreeSet;

/// What a session is told of `changes`, with the guild as it is now. None: nothing.
pub fn passive_text(form: PassiveForm, state: &State, user: u64, changes: &[Change]) -> Option<String> {
    let views = |channel: u64| state.viewers(channel).contains(&user);
    let mut channels: BTreeSet<u64> = BTreeSet::new();
    let mut voice: BTreeSet<u64> = BTreeSet::new();
    let mut left: BTreeSet<u64> = BTreeSet::new();
    for change in changes {
        match change {
            Change::Message(channel) if views(*channel) => drop(channels.insert(*channel)),
            Change::Voice(who, was_in) => {
                if state.voice.get(who).is_some_and(|(channel, _)| views(*channel)) {
                    voice.insert(*who);
                } else if was_in.is_some_and(views) {
                    left.insert(*who);
                }
            }
            Change::Message(_) => {}
        }
    }
    let newest = |channel: &u64| format!("{channel}:{}", state.last_messages.get(channel).copied().unwrap_or(0));
    let in_voice = |who: &u64| {
        let (channel, session) = &state.voice[who];
        format!("{who}:{channel}:{session}")
    };
    if channels.is_empty() && voice.is_empty() && left.is_empty() {
        return None;
    }
    Some(match form {
        PassiveForm::Unreads if channels.is_empty() => return None,
        PassiveForm::Unreads => format!("CHANNEL_UNREAD_UPDATE channels={}", list(channels.iter().map(newest))),
        PassiveForm::V2 => format!(
            "PASSIVE_UPDATE_V2 channels={} voice={} members={} left={}",
            list(channels.iter().map(newest)),
            list(voice.iter().map(in_voice)),
            list(&voice),
            list(&left)
        ),
        PassiveForm::V1 => {
            let all: Vec<u64> = state.channels.keys().copied().filter(|channel| views(*channel)).collect();
            let people: Vec<u64> =
                state.voice.iter().filter(|(_, (channel, _))| views(*channel)).map(|(who, _)| *who).collect();
            format!(
                "PASSIVE_UPDATE_V1 channels={} voice={} members={}",
                list(all.iter().map(newest)),
                list(people.iter().map(in_voice)),
                list(&people)
            )
        }
    })
}

/// What an update says that a relay made.
pub fn made_text(payload: &Payload) -> Option<String> {
    let voice = |entries: &[guildhall_relay::VoiceEntry]| {
        let of = |entry: &guildhall_relay::VoiceEntry| {
            let state = &entry.state;
            format!("{}:{}:{}", state.user_id, state.channel_id.map_or(0, |id| id.get()), state.session_id)
        };
        let members = entries.iter().map(|entry| entry.member.user.id);
        format!("voice={} members={}", list(entries.iter().map(of)), list(members))
    };
    Some(match payload {
        Payload::PassiveDelta(delta) => format!(
            "PASSIVE_UPDATE_V2 channels={} {} left={}",
            list(delta.channels.iter().map(|(channel, message)| format!("{channel}:{message}"))),
            voice(&delta.voice),
            list(&delta.left)
        ),
        Payload::PassiveSnapshot(snapshot) => {
            let newest = |(channel, message): &(guildhall_model::ChannelId, Option<guildhall_model::MessageId>)| {
                format!("{channel}:{}", message.map_or(0, |message| message.get()))
            };
            format!(
                "PASSIVE_UPDATE_V1 channels={} {}",
                list(snapshot.channels.iter().map(newest)),
                voice(&snapshot.voice)
            )
        }
        Payload::Unread(channels) => format!(
            "CHANNEL_UNREAD_UPDATE channels={}",
            list(channels.iter().map(|(channel, message)| format!("{channel}:{message}")))
        ),
        _ => return None,
    })
}
