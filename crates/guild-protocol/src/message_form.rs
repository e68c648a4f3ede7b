//! Message form: a message as it crosses between nodes, with its nonce.
//!
//! Owns        `serialize` and `deserialize` for `#[serde(with = …)]`.
//! Invariants  nothing is left out. `Message` itself serializes as the store keeps it, without the nonce.

use guildhall_model::{Message, Nonce};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
struct Form<M, N> {
    message: M,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    nonce: Option<N>,
}

fn none<N>() -> Option<N> {
    None
}

/// A message with its nonce.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(message: &Arc<Message>, serializer: S) -> Result<S::Ok, S::Error> {
    Form { message: &**message, nonce: message.nonce.as_ref() }.serialize(serializer)
}

/// A message with its nonce.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Message>, D::Error> {
    let Form { mut message, nonce } = Form::<Message, Nonce>::deserialize(deserializer)?;
    message.nonce = nonce;
    Ok(Arc::new(message))
}

/// For `Option<Arc<Message>>`.
pub mod option {
    use super::{Arc, Deserialize, Deserializer, Message, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Whole(#[serde(with = "super")] Arc<Message>);

    /// A message with its nonce, or none.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(message: &Option<Arc<Message>>, serializer: S) -> Result<S::Ok, S::Error> {
        message.clone().map(Whole).serialize(serializer)
    }

    /// A message with its nonce, or none.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Message>>, D::Error> {
        Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(message)| message))
    }
}

/// For the message that another answers: `Option<Option<Arc<Message>>>`, in a field that is left out if it is none.
pub mod answered {
    use super::{Arc, Deserializer, Message, Serializer, option};

    /// The message, or that it was deleted.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(message: &Option<Option<Arc<Message>>>, serializer: S) -> Result<S::Ok, S::Error> {
        match message {
            Some(message) => option::serialize(message, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// The message, or that it was deleted.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Arc<Message>>>, D::Error> {
        option::deserialize(deserializer).map(Some)
    }
}
