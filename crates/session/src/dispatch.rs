//! Dispatch: an event on one partition, encoded at most once per form, held by every replay buffer that needs it.
//!
//! Owns        the frames of an event: one per (encoding, redaction), made when the first recipient needs it.
//! Invariants  the content never changes; a frame's bytes depend only on the seq and framing asked for.
//! Not here    threads: a dispatch belongs to one partition, and is counted without atomics.

use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_model::EventName;
use guildhall_relay::{Event, Published, Redaction};
use serde::Serialize;
use std::{
    cell::{RefCell, RefMut},
    rc::Rc,
    sync::Arc,
};

#[derive(Debug)]
enum Source {
    /// Shared with the other partitions.
    Published(Arc<Published>),
    /// For one session, made by the guild.
    Direct(Arc<Event>),
    /// For one session, made here; its only frame is there from the start.
    Own,
    /// Was one of the above until the session lost the right to see it.
    Withheld,
}

/// What a session is sent under one sequence number.
#[derive(Debug)]
pub struct Dispatch {
    source: Source,
    frames: [[RefCell<Option<Box<DispatchFrame>>>; Redaction::COUNT]; 2],
}

impl Dispatch {
    fn new(source: Source) -> Rc<Self> {
        Rc::new(Self { source, frames: Default::default() })
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

    /// A dispatch made here for one session, in its encoding.
    #[must_use]
    pub fn own(encoding: Encoding, name: EventName, body: &impl Serialize) -> Rc<Self> {
        let frame = DispatchFrame::new(encoding, name.as_str(), body)
            .expect("event names are plain, and bodies are made of structs, strings and numbers");
        let dispatch = Self::new(Source::Own);
        *dispatch.cell(encoding, Redaction::NONE).borrow_mut() = Some(Box::new(frame));
        dispatch
    }

    /// Stands in for what a session may no longer see; never written.
    #[must_use]
    pub fn withheld() -> Rc<Self> {
        Self::new(Source::Withheld)
    }

    /// The event, if it was made by a guild.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        match &self.source {
            Source::Published(published) => Some(&published.event),
            Source::Direct(event) => Some(event),
            Source::Own | Source::Withheld => None,
        }
    }

    /// Made here for one session, so nobody else's copy is spoilt by compressing it apart.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.source, Source::Own)
    }

    /// Nothing to write.
    #[must_use]
    pub fn is_withheld(&self) -> bool {
        matches!(self.source, Source::Withheld)
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
                let event = self.event().expect("own dispatches have their frame, withheld ones are not written");
                let mut body = Vec::with_capacity(1024);
                event.render(encoding, redaction, &mut body);
                let frame = DispatchFrame::from_body(encoding, event.name.as_str(), &body);
                Box::new(frame.expect("event names are plain"))
            })
        })
    }
}
