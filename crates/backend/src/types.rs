//! Types: parts of bodies, with their form in JSON and in the document.
//!
//! Owns        `Snowflake`, `AnyId`, `Bits`, `Time`, and `nullable` for fields whose null differs from their absence.

use super::{V1, error::V1Error, external::PREFIX};
use guildhall_model::{Id, Permissions, smallest_id_at};
use guildhall_stdx::Timestamp;
use guildhall_store::is_external_id;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _, Visitor},
};
use std::{borrow::Cow, fmt};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type, schema::SchemaType},
};

fn text_schema(pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .pattern(Some(pattern))
        .description(Some(description))
        .examples([serde_json::Value::from(example)])
        .into()
}

/// An id of any object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Snowflake(pub u64);

impl Snowflake {
    pub fn id<T>(self) -> Id<T> {
        Id::new(self.0)
    }
}

impl<T> From<Id<T>> for Snowflake {
    fn from(id: Id<T>) -> Self {
        Self(id.get())
    }
}

impl Serialize for Snowflake {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Id::<()>::deserialize(deserializer)?;
        if id.get() == 0 { Err(D::Error::custom("not a snowflake: 0 is no id")) } else { Ok(Self(id.get())) }
    }
}

impl PartialSchema for Snowflake {
    fn schema() -> RefOr<Schema> {
        let description = "A snowflake: a decimal number above 0 and below 2^63. A number is understood as well.";
        text_schema("^[1-9][0-9]{0,18}$", description, "1100000000000000042")
    }
}

impl ToSchema for Snowflake {
    fn name() -> Cow<'static, str> {
        "Snowflake".into()
    }
}

/// An account, guild or channel, by its id or its external id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnyId {
    Id(Snowflake),
    External(String),
}

impl Serialize for AnyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Id(id) => id.serialize(serializer),
            Self::External(text) => serializer.collect_str(&format_args!("{PREFIX}{text}")),
        }
    }
}

impl<T> From<Id<T>> for AnyId {
    fn from(id: Id<T>) -> Self {
        Self::Id(id.into())
    }
}

impl<'de> Deserialize<'de> for AnyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FORM: &str = "expected a snowflake, or `ext:` and an external id";
        struct Form;
        impl Visitor<'_> for Form {
            type Value = AnyId;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a snowflake, or `ext:` and an external id")
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<AnyId, E> {
                let is_id = id > 0 && id >> 63 == 0;
                if is_id { Ok(AnyId::Id(Snowflake(id))) } else { Err(E::custom(FORM)) }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AnyId, E> {
                match text.strip_prefix(PREFIX) {
                    Some(text) if is_external_id(text) => Ok(AnyId::External(text.to_owned())),
                    Some(_) => Err(E::custom(FORM)),
                    None => match text.parse::<Id<()>>() {
                        Ok(id) if id.get() > 0 => Ok(id.into()),
                        _ => Err(E::custom(FORM)),
                    },
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl PartialSchema for AnyId {
    fn schema() -> RefOr<Schema> {
        let description = "A snowflake, or `ext:` and an external id; in paths percent-encoded.";
        text_schema("^([1-9][0-9]{0,18}|ext:[!-~]{1,128})$", description, "1100000000000000042")
    }
}

impl ToSchema for AnyId {
    fn name() -> Cow<'static, str> {
        "AnyId".into()
    }
}

/// A set of permissions, as a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits(pub Permissions);

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.0)
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a permission set as a decimal string or number")]
        enum Form {
            Number(u64),
            Text(String),
        }
        let bits = match Form::deserialize(deserializer)? {
            Form::Number(bits) => bits,
            Form::Text(text) => {
                text.parse().map_err(|_| D::Error::custom("expected a permission set as a decimal string or number"))?
            }
        };
        // Unknown bits are dropped, as for clients.
        Ok(Self(Permissions(bits) & Permissions::ALL))
    }
}

impl PartialSchema for Bits {
    fn schema() -> RefOr<Schema> {
        text_schema(
            "^[0-9]{1,19}$",
            "A set of permission bits, as a decimal number. Bits that mean nothing are dropped.",
            "1024",
        )
    }
}

impl ToSchema for Bits {
    fn name() -> Cow<'static, str> {
        "Permissions".into()
    }
}

/// A point in time, RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Timestamp::parse(&text)
            .map(Self)
            .map_err(|_| D::Error::custom("expected a date and time with an offset, like 2026-05-01T12:00:00Z"))
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let description = "A date and time with an offset (ISO 8601), between the years 1970 and 9999.";
        text_schema(
            r"^(19[7-9]|20[0-9])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$",
            description,
            "2026-05-01T12:00:00Z",
        )
    }
}

impl ToSchema for Time {
    fn name() -> Cow<'static, str> {
        "Time".into()
    }
}

/// For a field that is unchanged if it is missing, and cleared if it is null.
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// How far ahead of the node's clock the time in an id may lie that a caller chose. New ids are above all that are in
/// use, so one from the far future would leave none for the node's own.
const IDS_AHEAD_MS: i64 = 10 * 365 * 86_400_000;

/// Whether a new object may have this id.
pub(crate) fn check_new_id<T>(v1: &V1, name: &str, id: Id<T>) -> Result<(), V1Error> {
    let most = smallest_id_at::<()>(Timestamp(v1.now().unix.0.saturating_add(IDS_AHEAD_MS))).get();
    if id.get() > most {
        let message = format!(
            "A new object's id must be at most {most}: a snowflake contains its time, and this one's is years ahead."
        );
        return Err(V1Error::field(name, message));
    }
    Ok(())
}
