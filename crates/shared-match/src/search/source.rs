//! Source: the bytes that a match copies.

use crate::history::BodyId;

/// The bytes that a match copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The body in front of the match.
    Itself,
    /// The dictionary that the stream began with.
    Dictionary,
    /// An earlier body.
    Body(BodyId),
}

/// Ids of bodies are below this: it and the id 0 encode the other references.
pub const BODY_ID_END: BodyId = BodyId::MAX;

/// A [`Reference`] in four bytes, for a search holds thousands of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(u32);

impl Source {
    pub const ITSELF: Self = Self(0);
    pub const DICTIONARY: Self = Self(BODY_ID_END);

    /// An earlier body.
    #[inline]
    pub const fn body(id: BodyId) -> Self {
        debug_assert!(id != Self::ITSELF.0 && id < BODY_ID_END);
        Self(id)
    }

    #[inline]
    pub const fn reference(self) -> Reference {
        match self {
            Self::ITSELF => Reference::Itself,
            Self::DICTIONARY => Reference::Dictionary,
            Self(id) => Reference::Body(id),
        }
    }

    /// Differs from that of most others.
    #[inline]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// The body, if it is an earlier one.
    #[inline]
    pub const fn body_id(self) -> Option<BodyId> {
        match self.reference() {
            Reference::Body(id) => Some(id),
            Reference::Itself | Reference::Dictionary => None,
        }
    }
}
