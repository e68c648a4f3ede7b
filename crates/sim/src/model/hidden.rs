//! Channels that a member cannot view, in each of the three forms (docs/protocol/choices.md).

use super::{
    Event, State,
    text::{channel_text, stored_channel_text},
};
use guildhall_guild_protocol::HiddenChannels;
use std::rc::Rc;

const CATEGORY: u8 = 4;

/// Treatment of a dispatch in a replay once its channel is out of view.
#[derive(Clone, Debug)]
pub enum OutOfView {
    /// It is sent in full.
    Same,
    /// It is left out.
    Nothing,
    /// This text is sent instead.
    Text(Rc<str>),
}

/// A dispatch about a channel to one session, while hidden channels are not listed.
#[derive(Clone, Debug)]
pub struct ChannelDispatch {
    pub id: u64,
    pub text: Rc<str>,
    pub out_of_view: OutOfView,
}

/// Dispatch to a user for an event that makes, changes or deletes a channel. None: there is none, or
/// `view_changes` has it.
pub fn channel_dispatch(event: &Event, user: u64, hidden: HiddenChannels) -> Option<ChannelDispatch> {
    let channel = event.channel()?;
    let id = channel.id.get();
    let saw = event.viewed_before.viewers(id).contains(&user);
    let sees = event.state.viewers(id).contains(&user);
    let is_known = match event.name {
        "CHANNEL_DELETE" => saw && hidden == HiddenChannels::Absent,
        "CHANNEL_UPDATE" if saw != sees => return None,
        _ => sees,
    };
    let blank: Rc<str> = format!("{} {}", event.name, channel_text(channel, true)).into();
    let is_absent = hidden == HiddenChannels::Absent;
    if !is_known {
        return (!is_absent).then_some(ChannelDispatch { id, text: blank, out_of_view: OutOfView::Same });
    }
    let out_of_view = match event.name {
        "CHANNEL_DELETE" => OutOfView::Same,
        _ if is_absent => OutOfView::Nothing,
        _ => OutOfView::Text(blank),
    };
    Some(ChannelDispatch { id, text: event.text(0), out_of_view })
}

/// Dispatches to a user for channels that entered or left their view with an event.
pub fn view_changes(event: &Event, user: u64, hidden: HiddenChannels) -> Vec<ChannelDispatch> {
    let (before, now) = (&*event.viewed_before, &*event.state);
    // Of several events in a row the first changes the views.
    if hidden == HiddenChannels::Listed || !Rc::ptr_eq(&event.viewed_before, &event.before) {
        return Vec::new();
    }
    let delivered = event.channel().filter(|_| event.name != "CHANNEL_UPDATE").map(|channel| channel.id.get());
    let is_absent = hidden == HiddenChannels::Absent;
    let is_category = |id: &u64| now.channels.get(id).is_some_and(|channel| channel.kind == CATEGORY);
    let views = |state: &State, id: &u64| state.viewers(*id).contains(&user);
    let lost = before.channels.keys().filter(|id| views(before, id) && !views(now, id)).map(|id| (false, *id));
    let gained = now.channels.keys().filter(|id| !views(before, id) && views(now, id)).map(|id| (true, *id));
    let mut changes: Vec<(bool, u64)> = lost.chain(gained).filter(|(_, id)| Some(*id) != delivered).collect();
    changes.sort_by_key(|(is_gained, id)| (*is_gained, !is_category(id), *id));
    let tell = |(is_gained, id): (bool, u64)| {
        let (name, of) = match (is_gained, is_absent) {
            (true, true) => ("CHANNEL_CREATE", now),
            (false, true) => ("CHANNEL_DELETE", before),
            (_, false) => ("CHANNEL_UPDATE", now),
        };
        let channel = of.channels.get(&id)?;
        let text = stored_channel_text(id, channel, !is_gained, now.guild_id);
        let out_of_view = if is_gained { OutOfView::Nothing } else { OutOfView::Same };
        Some(ChannelDispatch { id, text: format!("{name} {text}").into(), out_of_view })
    };
    changes.into_iter().filter_map(tell).collect()
}
