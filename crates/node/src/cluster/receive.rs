//! Receive: messages of the other nodes.
//!
//! Invariants  G1 nothing is stored of a frame that no node of this cluster has sealed, or that comes from no member.
//!             G2 when a member has left, nothing is left of its frames.
//! Limits      those of `Incoming`; parts of a message that gets no further part for `PARTS_AGE` to twice that time are
//!             dropped.

use super::{Membership, subject_of};
use guildhall_bus::{Event, Incoming, IncomingLimits, Received, sender_of};
use guildhall_cluster::{Incarnation, PeerMessage, ReadMessage, wire};
use std::{sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// Pause before a subscription that ended begins again.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);
/// A sender publishes the parts of a message one after the other.
const PARTS_AGE: Duration = Duration::from_secs(15);

/// Receives until the runtime ends. Messages lost without a subscription leave a gap in the numbers of frames.
pub(super) async fn run(membership: Arc<Membership>) {
    let Some(subject) = subject_of(membership.number) else { return };
    let mut incoming = Incoming::new(IncomingLimits::default());
    let mut age = tokio::time::interval(PARTS_AGE);
    age.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        match membership.bus.subscribe(&subject).await {
            Ok(mut subscription) => loop {
                let delivery = tokio::select! {
                    biased;
                    () = membership.member_left.notified() => {
                        forget_others(&membership, &mut incoming);
                        continue;
                    }
                    _ = age.tick() => {
                        incoming.drop_stale();
                        continue;
                    }
                    delivery = subscription.next() => delivery,
                };
                match delivery {
                    Ok(delivery) => match membership.seal.open(subject.as_str().as_bytes(), &delivery.payload) {
                        Some((frame, _)) => receive(&membership, &mut incoming, &frame),
                        None => membership.note_stranger(),
                    },
                    Err(end) => {
                        tracing::warn!(?end, "the messages of other nodes were interrupted");
                        break;
                    }
                }
            },
            Err(error) => tracing::warn!(%error, "messages of other nodes cannot be received; trying again"),
        }
        if membership.lease.has_left() {
            return;
        }
        tokio::time::sleep(AGAIN_PAUSE).await;
    }
}

/// Drops the frames of members that left (G2).
fn forget_others(membership: &Membership, incoming: &mut Incoming) {
    let machine = membership.lock();
    let is_member = |incarnation| machine.peer_of(incarnation).is_some();
    incoming.retain(|sender| is_member(Incarnation(sender.0)));
    membership.taken.retain(is_member);
}

fn receive(membership: &Arc<Membership>, incoming: &mut Incoming, frame: &bytes::Bytes) {
    // G1. The `Hello` of a node whose record has not arrived is repeated.
    if sender_of(frame).is_some_and(|sender| membership.lock().peer_of(Incarnation(sender.0)).is_none()) {
        return;
    }
    let (gap, event) = match incoming.accept(frame) {
        Ok(events) => events,
        Err(error) => return tracing::error!(%error, "a frame of another node is refused"),
    };
    for event in gap.into_iter().chain(event) {
        match event {
            Event::Gap(sender, stream) => {
                membership.with(|machine, now| machine.handle_gap(now, Incarnation(sender.0), stream.0 >> 8));
            }
            Event::Message(Received { sender, stream, version, payload }) => {
                let (sender, stream) = (Incarnation(sender.0), stream.0 >> 8);
                match wire::decode::<Vec<PeerMessage>>(version, &payload) {
                    Ok(messages) => membership.with(|machine, now| {
                        messages.into_iter().for_each(|message| {
                            membership.attach(&message);
                            machine.handle_message(now, sender, stream, message);
                        });
                    }),
                    Err(_) => receive_each(membership, (sender, stream), version, &payload),
                }
            }
        }
    }
}

/// Handles the messages of a frame that cannot be read as a whole. Requests of a later release are refused.
fn receive_each(
    membership: &Arc<Membership>,
    (sender, stream): (Incarnation, u64),
    version: u16,
    payload: &bytes::Bytes,
) {
    let (messages, error) = ReadMessage::each(version, payload);
    membership.with(|machine, now| {
        for message in messages {
            match message {
                ReadMessage::Known(message) => {
                    membership.attach(&message);
                    machine.handle_message(now, sender, stream, message);
                }
                ReadMessage::UnknownRequest(request) => {
                    tracing::warn!(
                        "a node of a later release sent a request that this one does not know: it is answered with 503 \
                         until this node is upgraded"
                    );
                    machine.handle_unknown_request(now, sender, stream, request);
                }
            }
        }
    });
    if let Some(error) = error {
        tracing::error!(%error, "a message of another node is refused");
        membership.with(|machine, now| machine.handle_gap(now, sender, stream));
    }
}
