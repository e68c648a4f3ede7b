//! Expired messages: those that the operator's retention deletes.
//!
//! Owns        `ExpireMessages`.
//! Invariants  X1 from the command on, no other command finds an expired message, so nothing is written that refers to
//!             one. The store deletes them only after the command was answered, a slice at a time. X2 an expired
//!             message is not pinned. (test `x1_*`)
//! Limits      a channel has `pins_per_channel_max` pins.
//! Not here    when messages expire, and deleting them: `guildhall-node`.

use crate::{
    command::{Actor, CommandResult, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_model::{ChannelId, MessageId};

impl Guild {
    /// Forgets the messages of a channel below `before`. No event: they are old, and can be millions.
    pub(crate) fn expire_messages(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        before: MessageId,
    ) -> CommandResult<()> {
        if turn.actor != Actor::System {
            return Err(Refusal::MissingPermissions.into());
        }
        let context = self.message_channel(turn, channel_id)?;
        self.messages.expire(channel_id, before);
        self.forget_polls_in(channel_id, Some(before));
        let pins = self.resources.pins.get(&channel_id);
        let pins: Vec<MessageId> = pins.map_or_else(Vec::new, |pins| pins.range(..before).map(|(id, _)| *id).collect());
        for message_id in &pins {
            self.forget_pin((channel_id, *message_id));
        }
        if !pins.is_empty() {
            let newest = self.resources.pins.get(&channel_id).and_then(|pins| pins.values().max().copied());
            self.publish_pins(turn.now, &context, newest);
        }
        Ok(())
    }
}
