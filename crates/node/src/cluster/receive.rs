//! Receive: messages of the other nodes.

use super::{Membership, subject_of};
use guildhall_bus::{Event, Incoming, IncomingLimits, Received};
use guildhall_cluster::{Incarnation, PeerMessage, wire};
use std::{sync::Arc, time::Duration};

/// Pause before a subscription that ended begins again.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// Receives until the runtime ends. Messages lost without a subscription leave a gap in the numbers of frames.
pub(super) async fn run(membership: Arc<Membership>) {
    let Some(subject) = subject_of(membership.number) else { return };
    let mut incoming = Incoming::new(IncomingLimits::default());
    loop {
        match membership.bus.subscribe(&subject).await {
            Ok(mut subscription) => loop {
                match subscription.next().await {
                    Ok(delivery) => receive(&membership, &mut incoming, &delivery.payload),
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

fn receive(membership: &Arc<Membership>, incoming: &mut Incoming, frame: &bytes::Bytes) {
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
                    Err(error) => {
                        tracing::error!(%error, "a message of another node is refused");
                        membership.with(|machine, now| machine.handle_gap(now, sender, stream));
                    }
                }
            }
        }
    }
}
