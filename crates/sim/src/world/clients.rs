//! The clients' side: connections and decoded dispatches.

use super::{Side, World};
use crate::{
    checker::{Fault, fault},
    client::{Claim, ConnInfo, Phase},
};
use guildhall_partition::INVALID_SESSIONS_MAX;
use guildhall_test_kit::{FakeSocket, Received, ServerEnd, TestClient};
use std::collections::VecDeque;

impl World {
    /// A client's upgrade is answered by one of the partitions.
    pub fn connect(&mut self, client: usize, side: usize) {
        let socket = FakeSocket::default();
        self.actions.shape(&mut self.rng, self.is_calm, &socket);
        let now = self.now();
        let serial = self.conns.len() as u64;
        self.conns.push(ConnInfo { client, claim: Claim::None, token: None, subscriptions: VecDeque::new() });
        let params = self.clients[client].params;
        let Side { partition, link, serials, .. } = &mut self.sides[side];
        let key = partition.next_conn_key();
        link.insert(key, socket.clone());
        serials.insert(key, serial);
        partition.accept(now, params.conn, link);
        let client = &mut self.clients[client];
        client.wire = Some(TestClient::new(params, socket));
        client.serial = serial;
        client.phase = Phase::Connected;
        client.beats.clear();
        client.is_bad = false;
        client.invalid_sessions = 0;
        client.is_close_received = false;
    }

    pub(super) fn read_clients(&mut self) -> Result<(), Fault> {
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            let Some(wire) = &client.wire else { continue };
            let has_news = wire.socket().unread_bytes() > 0 || wire.socket().server_end() != ServerEnd::Open;
            if !has_news {
                continue;
            }
            let is_slow = client.is_slow && !self.is_calm;
            if !self.luck(if is_slow { 0.1 } else { 0.7 }) {
                continue;
            }
            let max = if is_slow { 1 + self.rng.below(2_000) as usize } else { usize::MAX };
            self.read_client(at, max)?;
        }
        Ok(())
    }

    fn read_client(&mut self, at: usize, max: usize) -> Result<(), Fault> {
        self.at_client = Some(at);
        let Some(wire) = &mut self.clients[at].wire else { return Ok(()) };
        if self.options.trace {
            eprintln!(
                "      client {at} reads {} of {}",
                max.min(wire.socket().unread_bytes()),
                wire.socket().unread_bytes()
            );
        }
        let received = wire.read(max).map_err(|error| Fault(error.0))?;
        for received in received {
            self.receive(at, received)?;
        }
        self.at_client = None;
        Ok(())
    }

    fn receive(&mut self, at: usize, received: Received) -> Result<(), Fault> {
        if self.options.trace {
            eprintln!("      client {at} {:?} got {received:?}", self.clients[at].phase);
        }
        let client = &mut self.clients[at];
        match received {
            Received::Hello { .. } if client.phase == Phase::Connected => client.phase = Phase::Greeted,
            Received::Hello { .. } => return fault("a second HELLO"),
            Received::Dispatch(dispatch) => {
                if client.phase == Phase::Greeted || client.phase == Phase::Connected {
                    return fault(format!("{} without a session", dispatch.name));
                }
                if self.options.trace && dispatch.name.contains("PASSIVE") {
                    eprintln!("      which says {}", dispatch.d());
                }
                let session = self.checker.received(client.session, client.seq, &dispatch)?;
                client.session = Some(session);
                client.seq = dispatch.seq;
                if client.phase != Phase::Closing {
                    client.phase = match (client.phase, dispatch.name.as_str()) {
                        (Phase::Resuming, "RESUMED") | (Phase::Identifying, "READY") => Phase::Live,
                        (phase, _) => phase,
                    };
                }
            }
            Received::HeartbeatAck => {
                let Some((session, seq)) = client.beats.pop_front() else { return fault("an answer to no heartbeat") };
                if let Some(session) = session {
                    self.checker.sessions[session].acknowledged(seq);
                }
            }
            Received::InvalidSession(false) => self.invalid_session(at)?,
            Received::InvalidSession(true) => return fault("op 9 true"),
            Received::Reconnect => {}
            Received::Pong(_) => return fault("an answer to no ping"),
            Received::Close(code, reason) => {
                client.is_close_received = true;
                let client = &self.clients[at];
                let is_expected = match client.phase {
                    Phase::Closing => true,
                    _ => {
                        code == Some(4000)
                            || client.is_bad && code == Some(4001)
                            || self.is_late(at) && code == Some(4003)
                            || client.invalid_sessions == INVALID_SESSIONS_MAX && code == Some(4008)
                            || code.is_some_and(|code| self.may_be_sent_away(at, code))
                    }
                };
                if !is_expected {
                    return fault(format!("closed with {code:?}, {reason}"));
                }
            }
            Received::End => {
                if let Some(wire) = client.wire.take() {
                    if wire.socket().server_end() == ServerEnd::Finished && !client.is_close_received {
                        return fault("the connection was finished without a close frame");
                    }
                    wire.socket().client_close();
                }
                client.phase = Phase::Offline;
            }
        }
        Ok(())
    }

    /// Whether this client may be closed as not authenticated: it did not identify in time, or its session was
    /// invalidated and it does not know yet.
    fn is_late(&self, at: usize) -> bool {
        let client = &self.clients[at];
        let is_gone = client.session.is_some_and(|session| self.checker.sessions[session].gone.is_some());
        !matches!(client.phase, Phase::Live) || is_gone
    }

    fn invalid_session(&mut self, at: usize) -> Result<(), Fault> {
        let client = &mut self.clients[at];
        client.invalid_sessions += 1;
        if client.invalid_sessions > INVALID_SESSIONS_MAX {
            return fault("op 9 in place of a close");
        }
        match client.phase {
            // Judged when the partition decided.
            Phase::Resuming => client.forget_session(),
            Phase::Identifying => {}
            Phase::Live => {
                let gone = client.session.and_then(|session| self.checker.sessions[session].gone);
                if gone.is_none() {
                    return fault("op 9 for a session that is there");
                }
                client.forget_session();
            }
            Phase::Closing => return Ok(()),
            phase => return fault(format!("op 9 while {phase:?}")),
        }
        client.phase = Phase::Greeted;
        Ok(())
    }
}
