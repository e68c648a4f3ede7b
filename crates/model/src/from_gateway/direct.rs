//! Direct messages and groups. Spec  docs/protocol/reference.md §6.4.

use super::UserBody;
use crate::{
    channel::ChannelType,
    direct::Direct,
    id::{ChannelId, MessageId, UserId},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A direct message or a group. The recipient of the body is not listed in it.
#[derive(Clone, Debug, Serialize)]
pub struct DirectBody<'a> {
    id: ChannelId,
    #[serde(rename = "type")]
    kind: ChannelType,
    flags: u32,
    last_message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_pin_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<Vec<UserBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient_ids: Option<Vec<UserId>>,
    #[serde(flatten)]
    group: Option<GroupFields<'a>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct GroupFields<'a> {
    name: Option<&'a str>,
    icon: (),
    owner_id: Option<UserId>,
}

impl<'a> DirectBody<'a> {
    /// Body for one of the recipients.
    #[must_use]
    pub fn new(direct: &'a Direct, reader: UserId) -> Self {
        let others = direct.recipients.iter().filter(|user| user.id != reader);
        Self { recipients: Some(others.map(|user| (&**user).into()).collect()), ..Self::without_recipients(direct) }
    }

    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(mut self) -> Self {
        for recipient in self.recipients.iter_mut().flatten() {
            *recipient = recipient.for_rest();
        }
        self
    }

    /// Body in READY for a client with DEDUPE_USER_OBJECTS.
    #[must_use]
    pub fn deduplicated(direct: &'a Direct, reader: UserId) -> Self {
        let others = direct.recipients.iter().map(|user| user.id).filter(|id| *id != reader);
        Self { recipient_ids: Some(others.collect()), ..Self::without_recipients(direct) }
    }

    fn without_recipients(direct: &'a Direct) -> Self {
        let channel = &direct.channel;
        let group = (channel.kind == ChannelType::GroupDm).then(|| GroupFields {
            name: (!channel.name.is_empty()).then_some(&*channel.name),
            icon: (),
            owner_id: channel.direct.as_ref().and_then(|fields| fields.owner_id),
        });
        Self {
            id: channel.id,
            kind: channel.kind,
            flags: 0,
            last_message_id: channel.last_message_id,
            last_pin_timestamp: channel.last_pin_timestamp,
            recipients: None,
            recipient_ids: None,
            group,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, DirectFields, Id, User};
    use serde_json::json;
    use std::sync::Arc;

    fn direct(kind: ChannelType, name: &str, owner_id: Option<UserId>) -> Direct {
        let user = |id| Arc::new(User::new(UserId::new(id), "somebody"));
        let mut channel = Channel::new(Id::new(9), Id::new(9), kind, name);
        channel.direct = Some(Box::new(DirectFields { owner_id, ..DirectFields::default() }));
        Direct { channel: Arc::new(channel), recipients: [user(1), user(2)].into() }
    }

    #[test]
    fn the_reader_is_not_among_the_recipients() {
        let between_two = direct(ChannelType::Dm, "", None);
        let body = serde_json::to_value(DirectBody::new(&between_two, UserId::new(1))).unwrap();
        assert_eq!((&body["type"], &body["recipients"][0]["id"]), (&json!(1), &json!("2")));
        assert_eq!(body["recipients"].as_array().unwrap().len(), 1);
        assert_eq!(body["last_message_id"], json!(null));
        for absent in ["name", "owner_id", "icon", "recipient_ids", "guild_id"] {
            assert!(body.get(absent).is_none(), "{absent}");
        }
        let body = serde_json::to_value(DirectBody::deduplicated(&between_two, UserId::new(2))).unwrap();
        assert_eq!(body["recipient_ids"], json!(["1"]));
        assert!(body.get("recipients").is_none());
    }

    #[test]
    fn a_group_has_a_name_or_none() {
        let owner = UserId::new(2);
        let body = direct(ChannelType::GroupDm, "", Some(owner));
        let body = serde_json::to_value(DirectBody::new(&body, UserId::new(1))).unwrap();
        assert_eq!((&body["name"], &body["icon"], &body["owner_id"]), (&json!(null), &json!(null), &json!("2")));
        let body = direct(ChannelType::GroupDm, "us", Some(owner));
        assert_eq!(serde_json::to_value(DirectBody::new(&body, owner)).unwrap()["name"], "us");
    }
}
