//! Dispatch: an event on one partition, encoded at most once per form, held by every replay buffer that needs it.
//!
//! Owns        the frames of an event: one per (encoding, redaction), made when the first recipient needs it.
//! Invariants  the content never changes; a frame's bytes depend only on the seq and framing asked for.
//! Not here    threads: a dispatch belongs to one partition, and is counted without atomics.

use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_guild_protocol::{Event, Published, Redaction, Retention, Visibility};
use guildhall_model::{ChannelId, EventName, GuildId};
use serde::Serialize;
use std::{
    borrow::Cow,
    cell::{Cell, RefCell, RefMut},
    num::NonZeroU32,
    rc::Rc,
    sync::Arc,
};

enum Source {
    /// Shared with the other partitions.
    Published(Arc<Published>),
    /// For one session, made by the guild.
    Direct(Arc<Event>),
    /// For one session, made here; its only frame is there from the start.
    Own(Option<Box<About>>),
    /// For one session, large: its frame is made when it is written, and can be made again.
    Lazy(Box<dyn Fn() -> DispatchFrame>, Option<Box<About>>),
    /// Of the process before this one, in its only form: an event, or what was made for one session.
    Kept(Option<Box<Event>>, Option<Box<About>>),
    /// Placeholder for a dispatch that the session may no longer see, or that was dropped for lack of room. `is_owed`: the current
    /// value of its state has to be sent.
    Withheld { is_owed: bool },
}

/// What a dispatch tells that was made for one session: asked at replay, when that session may know less than before.
pub struct About {
    /// Of this guild.
    pub guild_id: GuildId,
    channels: Channels,
    is_whole: bool,
    direct: Option<OfDirect>,
    threads: Option<OfThreads>,
}

/// It is a list of threads, of which there may be less to tell by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfThreads {
    /// Whose threads; none: the whole guild's.
    pub channel_ids: Option<Arc<[ChannelId]>>,
    /// Others than its reader joined are not in it.
    pub joined_only: bool,
}

/// What is told of a direct message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfDirect {
    /// Which.
    pub channel_id: ChannelId,
    /// It is a group, and whoever is told has left it.
    pub is_left: bool,
}

enum Channels {
    These(Vec<ChannelId>),
    /// Found when somebody asks, which is seldom.
    Found(Box<dyn Fn() -> Vec<ChannelId>>),
}

impl About {
    /// Of a guild, whatever its reader may view there.
    #[must_use]
    pub fn guild(guild_id: GuildId) -> Self {
        Self::channels_of(guild_id, Vec::new())
    }

    /// Of what is in these channels of a guild.
    #[must_use]
    pub fn channels_of(guild_id: GuildId, channels: Vec<ChannelId>) -> Self {
        Self { guild_id, channels: Channels::These(channels), is_whole: false, direct: None, threads: None }
    }

    /// The guild itself, with what `find` says of channels and threads that not everybody can view.
    #[must_use]
    pub fn whole(guild_id: GuildId, find: impl Fn() -> Vec<ChannelId> + 'static) -> Self {
        Self { guild_id, channels: Channels::Found(Box::new(find)), is_whole: true, direct: None, threads: None }
    }

    /// As it was before the process began: the guild itself, or else of what is in these channels.
    #[must_use]
    pub fn kept(guild_id: GuildId, channels: Vec<ChannelId>, is_whole: bool) -> Self {
        Self { is_whole, ..Self::channels_of(guild_id, channels) }
    }

    /// Of a list of threads; `channels` as well as threads that it tells of.
    #[must_use]
    pub fn of_threads(guild_id: GuildId, channels: Vec<ChannelId>, threads: OfThreads) -> Self {
        Self { threads: Some(threads), ..Self::channels_of(guild_id, channels) }
    }

    /// Of a direct message, which is no guild's.
    #[must_use]
    pub fn of_direct(direct: OfDirect) -> Self {
        Self { direct: Some(direct), ..Self::guild(GuildId::new(0)) }
    }

    /// It is the guild itself: without it, what follows makes no sense to a client.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// It is a list of threads.
    #[must_use]
    pub fn threads(&self) -> Option<&OfThreads> {
        self.threads.as_ref()
    }

    /// The channels and threads whose content it tells.
    #[must_use]
    pub fn channels(&self) -> Cow<'_, [ChannelId]> {
        match &self.channels {
            Channels::These(channels) => channels.into(),
            Channels::Found(find) => find().into(),
        }
    }
}

/// A frame around a body.
#[must_use]
pub fn frame_of(encoding: Encoding, name: EventName, body: &impl Serialize) -> DispatchFrame {
    DispatchFrame::new(encoding, name.as_str(), body)
        .expect("event names are plain, and bodies are made of structs, strings and numbers")
}

/// What a session is sent under one sequence number.
pub struct Dispatch {
    source: Source,
    frames: [[RefCell<Option<Box<DispatchFrame>>>; Redaction::COUNT]; 2],
    texts: [[Cell<Option<SharedText>>; Redaction::COUNT]; 2],
    sharing: Cell<Sharing>,
    audiences: [[Cell<u32>; Redaction::COUNT]; 2],
    /// A newer dispatch with the same recipients replaces it.
    is_superseded: Cell<bool>,
}

/// How far recipients of an event may share the search for matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// The event's domain.
    pub visibility: Visibility,
    /// The partition's turn in which it was delivered last. A form that nobody was written in that turn is not shared later:
    /// its domain may be another by then.
    pub turn: u64,
}

/// What a partition's matcher knows a body as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedText(Option<NonZeroU32>);

impl SharedText {
    /// Its number; none if it is too long to be shared.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        self.0.map(NonZeroU32::get)
    }
}

impl From<Option<u32>> for SharedText {
    fn from(id: Option<u32>) -> Self {
        Self(id.and_then(NonZeroU32::new))
    }
}

impl Dispatch {
    fn new(source: Source) -> Rc<Self> {
        Rc::new(Self {
            source,
            frames: Default::default(),
            texts: Default::default(),
            sharing: Cell::default(),
            audiences: Default::default(),
            is_superseded: Cell::default(),
        })
    }

    /// An event that many sessions get.
    #[must_use]
    pub fn published(published: &Arc<Published>) -> Rc<Self> {
        Self::new(Source::Published(published.clone()))
    }

    /// An event that the guild made for one session.
    #[must_use]
    pub fn direct(event: &Arc<Event>) -> Rc<Self> {
        Self::new(Source::Direct(event.clone()))
    }

    /// A dispatch made here for one session, in its encoding. `about`: only for who may know of that.
    #[must_use]
    pub fn own(encoding: Encoding, name: EventName, body: &impl Serialize, about: Option<About>) -> Rc<Self> {
        let dispatch = Self::new(Source::Own(about.map(Box::new)));
        *dispatch.cell(encoding, Redaction::NONE).borrow_mut() = Some(Box::new(frame_of(encoding, name, body)));
        dispatch
    }

    /// A dispatch of the process before this one. None if `name` is none.
    pub(crate) fn restored(
        (event, about): (Option<Event>, Option<About>),
        encoding: Encoding,
        name: &str,
        body: &[u8],
    ) -> Option<Rc<Self>> {
        let frame = DispatchFrame::from_body(encoding, name, body).ok()?;
        let dispatch = Self::new(Source::Kept(event.map(Box::new), about.map(Box::new)));
        *dispatch.cell(encoding, Redaction::NONE).borrow_mut() = Some(Box::new(frame));
        Some(dispatch)
    }

    /// A large dispatch made here for one session: READY, GUILD_CREATE. What `make` makes it from should be cheap to keep.
    #[must_use]
    pub fn lazy(make: impl Fn() -> DispatchFrame + 'static, about: Option<About>) -> Rc<Self> {
        Self::new(Source::Lazy(Box::new(make), about.map(Box::new)))
    }

    /// What it tells of a direct message, if it does.
    #[must_use]
    pub fn told_of_direct(&self) -> Option<OfDirect> {
        match (self.event(), self.about()) {
            (Some(event), _) => {
                let is_left = event.group_left().is_some();
                event.direct_channel().map(|channel_id| OfDirect { channel_id, is_left })
            }
            (None, about) => about?.direct,
        }
    }

    /// What it tells, if it was made here and is not for everybody.
    #[must_use]
    pub fn about(&self) -> Option<&About> {
        match &self.source {
            Source::Own(about) | Source::Lazy(_, about) | Source::Kept(_, about) => about.as_deref(),
            Source::Published(_) | Source::Direct(_) | Source::Withheld { .. } => None,
        }
    }

    /// Stands in for what a session may no longer see; never written.
    #[must_use]
    pub fn withheld() -> Rc<Self> {
        Self::new(Source::Withheld { is_owed: false })
    }

    /// Placeholder for dropped states; the partition sends their current values. Never written.
    #[must_use]
    pub fn owed() -> Rc<Self> {
        Self::new(Source::Withheld { is_owed: true })
    }

    /// A newer dispatch with the same recipients replaces it: from now on replays leave it out. Drops the frames; a connection
    /// that has yet to be written it without a RESUME has them made again.
    pub fn supersede(&self) {
        self.is_superseded.set(true);
        for cell in self.frames.iter().flatten() {
            cell.take();
        }
    }

    /// Its treatment in replay buffers. Dispatches made for one session, or by the previous process, are `Lasting`.
    #[must_use]
    pub fn retention(&self) -> Retention {
        match &self.source {
            Source::Published(published) => published.event.retention(),
            Source::Direct(event) => event.retention(),
            Source::Own(_) | Source::Lazy(..) | Source::Kept(..) | Source::Withheld { .. } => Retention::Lasting,
        }
    }

    /// The event, if it was made by a guild.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        match &self.source {
            Source::Published(published) => Some(&published.event),
            Source::Direct(event) => Some(event),
            Source::Kept(event, _) => event.as_deref(),
            Source::Own(_) | Source::Lazy(..) | Source::Withheld { .. } => None,
        }
    }

    /// The event, if many sessions get it.
    #[must_use]
    pub fn published_event(&self) -> Option<&Event> {
        match &self.source {
            Source::Published(published) => Some(&published.event),
            Source::Direct(_) | Source::Kept(..) | Source::Own(_) | Source::Lazy(..) | Source::Withheld { .. } => None,
        }
    }

    /// What the partition's matcher knows one form's body as, once it does.
    #[must_use]
    pub fn text(&self, encoding: Encoding, redaction: Redaction) -> &Cell<Option<SharedText>> {
        &self.texts[encoding as usize][redaction.index()]
    }

    /// How far its recipients may share the search for matches. Alone until it is set.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.sharing.get()
    }

    /// It is about to be delivered, in this turn and to recipients in this domain.
    pub fn share(&self, sharing: Sharing) {
        self.sharing.set(sharing);
    }

    /// One more connection with a stream that shares the search is about to be written this form.
    pub fn count_recipient(&self, encoding: Encoding, redaction: Redaction) {
        let count = &self.audiences[encoding as usize][redaction.index()];
        count.set(count.get().saturating_add(1));
    }

    /// How many connections were counted for this form.
    #[must_use]
    pub fn audience(&self, encoding: Encoding, redaction: Redaction) -> u32 {
        self.audiences[encoding as usize][redaction.index()].get()
    }

    /// Whether it is this event's.
    #[must_use]
    pub fn is_of(&self, published: &Arc<Published>) -> bool {
        matches!(&self.source, Source::Published(of) if Arc::ptr_eq(of, published))
    }

    /// Made here for one session, so nobody else's copy is spoilt by compressing it apart.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.source, Source::Own(_) | Source::Lazy(..))
    }

    /// Its frame is made when it is written.
    #[must_use]
    pub fn is_lazy(&self) -> bool {
        matches!(self.source, Source::Lazy(..))
    }

    /// It was written: a frame that can be made again is dropped.
    pub fn was_written(&self, encoding: Encoding) {
        if self.is_lazy() {
            *self.cell(encoding, Redaction::NONE).borrow_mut() = None;
        }
    }

    /// Bytes of the bodies that it holds at this moment, for inspection.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let held =
            |cell: &RefCell<Option<Box<DispatchFrame>>>| cell.borrow().as_ref().map_or(0, |frame| frame.body().len());
        self.frames.iter().flatten().map(held).sum()
    }

    /// A replay leaves it out.
    #[must_use]
    pub fn is_withheld(&self) -> bool {
        self.is_superseded.get() || self.is_stand_in()
    }

    /// It is a placeholder, `withheld` or `owed`.
    #[must_use]
    pub fn is_stand_in(&self) -> bool {
        matches!(self.source, Source::Withheld { .. })
    }

    /// It is an `owed` placeholder.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        matches!(self.source, Source::Withheld { is_owed: true })
    }

    fn cell(&self, encoding: Encoding, redaction: Redaction) -> &RefCell<Option<Box<DispatchFrame>>> {
        &self.frames[encoding as usize][redaction.index()]
    }

    /// Its frame in one form, made now if nobody needed it before.
    ///
    /// # Panics
    /// For a withheld dispatch, and for an own one in another encoding than its session's.
    pub fn frame(&self, encoding: Encoding, redaction: Redaction) -> RefMut<'_, DispatchFrame> {
        RefMut::map(self.cell(encoding, redaction).borrow_mut(), |frame| {
            &mut **frame.get_or_insert_with(|| {
                if let Source::Lazy(make, _) = &self.source {
                    return Box::new(make());
                }
                let event = self.event().expect("own dispatches have their frame, withheld ones are not written");
                let mut body = Vec::with_capacity(1024);
                event.render(encoding, redaction, &mut body);
                let frame = DispatchFrame::from_body(encoding, event.wire_name(), &body);
                Box::new(frame.expect("event names are plain"))
            })
        })
    }
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match &self.source {
            Source::Published(_) | Source::Direct(_) => self.event().map_or("", Event::wire_name),
            Source::Own(_) => "own",
            Source::Kept(..) => "kept",
            Source::Lazy(..) => "lazy",
            Source::Withheld { .. } => "withheld",
        };
        formatter.debug_tuple("Dispatch").field(&name).finish()
    }
}
