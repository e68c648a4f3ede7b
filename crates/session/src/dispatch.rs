//! Dispatch: an event on one partition, encoded at most once per form, held by every replay buffer that needs it.
//!
//! Owns        the frames of an event: one per (encoding, redaction), made when the first recipient needs it.
//! Invariants  the content never changes; a frame's bytes depend only on the requested seq and framing.
//! Not here    threads: a dispatch belongs to one partition, and is counted without atomics.

use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_guild_protocol::{
    Event, Published, Redaction, Retention, Visibility,
    memory::{event_heap, published_heap},
};
use guildhall_model::{EventName, GuildId};
use guildhall_relay::{GuildPlaces, ReplayVisibility, Replayed};
use guildhall_stdx::heap;
use serde::Serialize;
use std::{
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
    Local(Option<Box<ReplayVisibility>>),
    /// For one session, large: its frame is made when it is written, and can be made again.
    Lazy(Box<dyn Lazy>),
    /// Restored by a hand-over, in its only form.
    Restored(Option<Box<ReplayVisibility>>),
    /// Placeholder for a dispatch that the session may no longer see, or that was dropped for lack of room. `is_owed`:
    /// the current value of its state has to be sent.
    Tombstone { is_owed: bool },
}

/// Source of a large dispatch, which is rendered when it is written.
pub(crate) trait Lazy {
    /// Makes its frame.
    fn frame(&self) -> DispatchFrame;

    /// The guild of a GUILD_CREATE, with its places for a RESUME and for a session's snapshot.
    fn guild(&self) -> Option<(GuildId, &dyn GuildPlaces)> {
        None
    }
}

/// A frame around a body.
#[must_use]
pub fn dispatch_frame(encoding: Encoding, name: EventName, body: &impl Serialize) -> DispatchFrame {
    DispatchFrame::new(encoding, name.as_str(), body)
        .expect("event names are plain, and bodies are made of structs, strings and numbers")
}

/// Event or local payload that a session receives under one sequence number.
pub struct Dispatch {
    source: Source,
    /// None for placeholders, which are never written.
    name: Option<EventName>,
    frames: RefCell<[[Option<Box<DispatchFrame>>; Redaction::COUNT]; 2]>,
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
    /// The partition's turn in which it was delivered last. A form that was not written in that turn is not shared
    /// later, because its domain may have changed by then.
    pub turn: u64,
}

/// Handle of a body in the partition's matcher. The largest number is reserved for `None`, so that an `Option` of a
/// handle takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedText(NonZeroU32);

impl SharedText {
    /// Its number; none if it is too long to be shared.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        (self.0 != NonZeroU32::MAX).then_some(self.0.get())
    }
}

impl From<Option<u32>> for SharedText {
    fn from(id: Option<u32>) -> Self {
        Self(id.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
    }
}

impl Dispatch {
    fn new(name: Option<EventName>, source: Source) -> Rc<Self> {
        Rc::new(Self {
            source,
            name,
            frames: RefCell::default(),
            texts: Default::default(),
            sharing: Cell::default(),
            audiences: Default::default(),
            is_superseded: Cell::default(),
        })
    }

    /// An event that many sessions get.
    #[must_use]
    pub fn published(published: &Arc<Published>) -> Rc<Self> {
        Self::new(Some(published.event.name), Source::Published(published.clone()))
    }

    /// An event that the guild made for one session.
    #[must_use]
    pub fn direct(event: &Arc<Event>) -> Rc<Self> {
        Self::new(Some(event.name), Source::Direct(event.clone()))
    }

    /// A dispatch made here for one session, in its encoding. A replay leaves it out if `visibility` excludes the
    /// reader.
    #[must_use]
    pub fn local(
        encoding: Encoding,
        name: EventName,
        body: &impl Serialize,
        visibility: Option<ReplayVisibility>,
    ) -> Rc<Self> {
        let dispatch = Self::new(Some(name), Source::Local(visibility.map(Box::new)));
        dispatch.set_frame(encoding, dispatch_frame(encoding, name, body));
        dispatch
    }

    /// A dispatch that a hand-over restored. None if `name` is no name of an event.
    pub(crate) fn restored(
        visibility: Option<ReplayVisibility>,
        encoding: Encoding,
        name: &str,
        body: &[u8],
    ) -> Option<Rc<Self>> {
        let frame = DispatchFrame::from_body(encoding, name, body).ok()?;
        // Any other name is one that a backend chose.
        let known = EventName::from_wire(name).unwrap_or(EventName::Backend);
        let dispatch = Self::new(Some(known), Source::Restored(visibility.map(Box::new)));
        dispatch.set_frame(encoding, frame);
        Some(dispatch)
    }

    /// A large dispatch made here for one session: READY or GUILD_CREATE. `parts` should be cheap to keep.
    #[must_use]
    pub(crate) fn lazy(name: EventName, parts: impl Lazy + 'static) -> Rc<Self> {
        Self::new(Some(name), Source::Lazy(Box::new(parts)))
    }

    /// Its dispatch type, for accounting; `Backend` for names that backends chose. None for placeholders.
    #[must_use]
    pub fn name(&self) -> Option<EventName> {
        self.name
    }

    /// What decides at a RESUME whether the session may still see the dispatch; none if it always may.
    #[must_use]
    pub fn replayed(&self) -> Option<Replayed<'_>> {
        match &self.source {
            Source::Published(published) => Some(Replayed::Event(&published.event)),
            Source::Direct(event) => Some(Replayed::Event(event)),
            Source::Local(visibility) | Source::Restored(visibility) => visibility.as_deref().map(Replayed::Rule),
            Source::Lazy(parts) => parts.guild().map(|(guild_id, places)| Replayed::Guild { guild_id, places }),
            Source::Tombstone { .. } => None,
        }
    }

    /// Stands in for what a session may no longer see; never written.
    #[must_use]
    pub fn tombstone() -> Rc<Self> {
        Self::new(None, Source::Tombstone { is_owed: false })
    }

    /// Placeholder for dropped states; the partition sends their current values. Never written.
    #[must_use]
    pub fn owed() -> Rc<Self> {
        Self::new(None, Source::Tombstone { is_owed: true })
    }

    /// A newer dispatch with the same recipients replaces it: from now on replays leave it out. Drops the frames; a
    /// connection that has yet to be written it without a RESUME has them made again.
    pub fn supersede(&self) {
        self.is_superseded.set(true);
        self.frames.take();
    }

    /// Its treatment in replay buffers. Dispatches made for one session, or by the previous process, are `Lasting`.
    #[must_use]
    pub fn retention(&self) -> Retention {
        match &self.source {
            Source::Published(published) => published.event.retention(),
            Source::Direct(event) => event.retention(),
            Source::Local(_) | Source::Lazy(..) | Source::Restored(_) | Source::Tombstone { .. } => Retention::Lasting,
        }
    }

    /// The event, if it was made by a guild.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        match &self.source {
            Source::Published(published) => Some(&published.event),
            Source::Direct(event) => Some(event),
            Source::Local(_) | Source::Lazy(..) | Source::Restored(_) | Source::Tombstone { .. } => None,
        }
    }

    /// The event, if many sessions get it.
    #[must_use]
    pub fn published_event(&self) -> Option<&Event> {
        match &self.source {
            Source::Published(published) => Some(&published.event),
            Source::Direct(_)
            | Source::Restored(_)
            | Source::Local(_)
            | Source::Lazy(..)
            | Source::Tombstone { .. } => None,
        }
    }

    /// Handle of one form's body in the partition's matcher; none before the first compressed write.
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

    /// Made here for one session, so compressing it alone costs no other session a shared frame.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.source, Source::Local(_) | Source::Lazy(..))
    }

    /// Its frame is made when it is written.
    #[must_use]
    pub fn is_lazy(&self) -> bool {
        matches!(self.source, Source::Lazy(..))
    }

    /// It was written: a frame that can be made again is dropped.
    pub fn was_written(&self, encoding: Encoding) {
        if self.is_lazy() {
            self.frames.borrow_mut()[encoding as usize][Redaction::None.index()] = None;
        }
    }

    /// Estimated heap memory: its frames, and its part of the event.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let frame = |frame: &DispatchFrame| heap::boxed::<DispatchFrame>() + heap::allocated(frame.heap_bytes());
        let event = match &self.source {
            Source::Published(published) => heap::part_of(published, published_heap),
            Source::Direct(event) => heap::part_of(event, event_heap),
            Source::Lazy(parts) => heap::allocated(size_of_val(&**parts)),
            Source::Local(_) | Source::Restored(_) | Source::Tombstone { .. } => 0,
        };
        self.frames.borrow().iter().flatten().flatten().map(|held| frame(held)).sum::<usize>() + event
    }

    /// Bytes of the bodies that it holds at this moment, for inspection.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.frames.borrow().iter().flatten().flatten().map(|frame| frame.body().len()).sum()
    }

    /// A replay leaves it out.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.is_superseded.get() || self.is_tombstone()
    }

    /// It is a placeholder, `tombstone` or `owed`.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        matches!(self.source, Source::Tombstone { .. })
    }

    /// It is an `owed` placeholder.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        matches!(self.source, Source::Tombstone { is_owed: true })
    }

    /// Event name, and bytes of the body in one form; 0 where that would have to be made for the question.
    #[must_use]
    pub fn outline(&self, encoding: Encoding, redaction: Redaction) -> (String, usize) {
        let frames = self.frames.borrow();
        let held = &frames[encoding as usize][redaction.index()];
        let name = match (&self.source, held.as_ref()) {
            (Source::Published(_) | Source::Direct(_), _) => self.event().map_or("", Event::wire_name).to_owned(),
            (_, Some(frame)) => String::from_utf8_lossy(frame.name()).into_owned(),
            (Source::Lazy(_), None) => self.name.map_or("", EventName::as_str).to_owned(),
            (_, None) => "(left out)".to_owned(),
        };
        (name, held.as_ref().map_or(0, |frame| frame.body().len()))
    }

    fn set_frame(&self, encoding: Encoding, frame: DispatchFrame) {
        self.frames.borrow_mut()[encoding as usize][Redaction::None.index()] = Some(Box::new(frame));
    }

    /// Its frame in one form, made at the first use.
    ///
    /// # Panics
    /// For a tombstone, and for a local dispatch in another encoding than its session's.
    pub fn frame(&self, encoding: Encoding, redaction: Redaction) -> RefMut<'_, DispatchFrame> {
        RefMut::map(self.frames.borrow_mut(), |frames| {
            &mut **frames[encoding as usize][redaction.index()].get_or_insert_with(|| {
                if let Source::Lazy(parts) = &self.source {
                    return Box::new(parts.frame());
                }
                let event = self.event().expect("local dispatches have their frame, tombstones are not written");
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
            Source::Local(_) => "local",
            Source::Restored(_) => "restored",
            Source::Lazy(..) => "lazy",
            Source::Tombstone { .. } => "tombstone",
        };
        formatter.debug_tuple("Dispatch").field(&name).finish()
    }
}
