//! What clients do.

use super::GUILD;
use crate::{
    client::{Claim, Phase, Sent},
    world::{SIDES, World},
};
use guildhall_model::to_gateway::{GuildSubscriptions, RequestGuildMembers};
use guildhall_test_kit::identify_payload;
use serde_json::{Value, json};

impl World {
    pub(super) fn client_acts(&mut self, at: usize) {
        match self.clients[at].phase {
            Phase::Offline => {
                let side = self.rng.below(SIDES as u64) as usize;
                self.connect(at, side);
            }
            Phase::Greeted => self.introduce(at),
            Phase::Live => self.live(at),
            Phase::Connected | Phase::Identifying | Phase::Resuming | Phase::Closing => {
                if self.rng.chance(0.1) {
                    self.vanish(at);
                }
            }
        }
    }

    /// Identifies or resumes.
    fn introduce(&mut self, at: usize) {
        let now = self.now().instant.0;
        let spoils = !self.is_calm && self.rng.chance(0.06);
        if self.rng.chance(0.1) {
            // By another token of the account.
            let user_id = self.clients[at].user.id;
            let tokens = self.clients.iter().filter(|client| client.user.id == user_id).map(|client| &client.token);
            let tokens: Vec<String> = tokens.cloned().collect();
            self.clients[at].token.clone_from(self.rng.pick(&tokens).expect("its own is among them"));
        }
        let client = &mut self.clients[at];
        let Some(wire) = &mut client.wire else { return };
        let known = client.session.map(|session| self.checker.sessions[session].id.to_string());
        client.last_beat_ms = now;
        let claim = match known {
            Some(mut session_id) => {
                if spoils {
                    match self.rng.below(4) {
                        0 => client.seq += 100_000,
                        1 => {
                            client.seq = self.rng.below(client.seq + 1);
                            if let Some(session) = client.session {
                                self.checker.sessions[session].is_confused = true;
                            }
                        }
                        2 => session_id.replace_range(..4, "0001"),
                        _ => session_id = "f".repeat(32),
                    }
                }
                let seq = client.seq;
                wire.send(6, &json!({"token": client.token, "session_id": session_id, "seq": seq}));
                client.phase = Phase::Resuming;
                Claim::Resume { session_id, seq }
            }
            None => {
                let mut d = identify_payload(&client.token, client.intents);
                if let Some((id, count)) = client.shard {
                    d["shard"] = json!([id, count]);
                }
                d["large_threshold"] = client.large_threshold.into();
                if let Some(capabilities) = client.capabilities {
                    d["capabilities"] = capabilities.into();
                }
                let status = *self.rng.pick(&["online", "idle", "dnd", "invisible"]).expect("there are some");
                d["presence"] = json!({"status": status, "activities": [], "since": null, "afk": false});
                wire.identify(d);
                client.phase = Phase::Identifying;
                Claim::Identify
            }
        };
        let serial = client.serial as usize;
        self.trace(|| format!("client {at} sends {claim:?}"));
        self.conns[serial].claim = claim;
        self.conns[serial].token = Some(self.clients[at].token.clone());
    }

    fn live(&mut self, at: usize) {
        match self.rng.below(100) {
            0..18 => self.vanish(at),
            18..22 => self.say_goodbye(at),
            22..28 => self.close_for_now(at),
            28..31 => {
                // Without closing the old connection.
                let side = self.rng.below(SIDES as u64) as usize;
                self.clients[at].wire = None;
                self.connect(at, side);
            }
            31..40 => self.show(at),
            40..54 => self.move_in_voice(at),
            54..64 => self.ask_for_members(at),
            64..85 => self.subscribe(at),
            85..87 => {
                let client = &mut self.clients[at];
                client.is_bad = true;
                if let Some(wire) = &mut client.wire {
                    wire.send(99, &json!(null));
                }
            }
            87..90 => self.clients[at].is_slow ^= true,
            _ => {
                let client = &mut self.clients[at];
                let Some(wire) = &mut client.wire else { return };
                client.beats.push_back((client.session, client.seq));
                wire.send(1, &client.seq.into());
                if let Some(session) = client.session {
                    self.checker.sessions[session].claims(client.seq);
                }
            }
        }
    }

    /// The client's network fails; data in flight is lost.
    pub fn vanish(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(wire) = client.wire.take() else { return };
        wire.socket().cut();
        client.phase = Phase::Offline;
    }

    fn say_goodbye(&mut self, at: usize) {
        let code = *self.rng.pick(&[1000, 1001]).expect("there are two");
        let client = &mut self.clients[at];
        if let Some(session) = client.session {
            self.checker.sessions[session].goodbye_on = Some(client.serial);
        }
        let Some(wire) = &mut client.wire else { return };
        wire.close(Some(code));
        client.phase = Phase::Closing;
    }

    fn close_for_now(&mut self, at: usize) {
        let code = *self.rng.pick(&[Some(4000), Some(4200), Some(3000), None]).expect("there are some");
        let client = &mut self.clients[at];
        let Some(wire) = &mut client.wire else { return };
        wire.close(code);
        client.phase = Phase::Closing;
    }

    pub(super) fn show(&mut self, at: usize) {
        let status = *self.rng.pick(&["online", "idle", "dnd", "invisible"]).expect("there are some");
        let activities = if self.rng.chance(0.3) { json!([{"name": "chess", "type": 0}]) } else { json!([]) };
        if let Some(wire) = &mut self.clients[at].wire {
            wire.send(3, &json!({"status": status, "activities": activities, "since": null, "afk": false}));
        }
    }

    fn move_in_voice(&mut self, at: usize) {
        let state = self.checker.state.clone();
        let voice: Vec<u64> = state.channels.iter().filter(|(_, c)| c.kind == 2).map(|(id, _)| *id).collect();
        let to = if self.rng.chance(0.25) { None } else { self.rng.pick(&voice).map(u64::to_string) };
        let is_muted = self.rng.chance(0.5);
        let d = json!({"guild_id": GUILD.to_string(), "channel_id": to, "self_mute": is_muted, "self_deaf": false});
        if let Some(wire) = &mut self.clients[at].wire {
            wire.send(4, &d);
        }
    }

    /// Looks at the guild, or away from it; op 14 or op 37.
    fn subscribe(&mut self, at: usize) {
        let mut sub = json!({});
        if self.rng.chance(0.6) {
            sub["typing"] = self.rng.chance(0.6).into();
        }
        if self.rng.chance(0.4) {
            sub["threads"] = self.rng.chance(0.6).into();
        }
        if self.rng.chance(0.3) {
            sub["member_updates"] = self.rng.chance(0.5).into();
        }
        if self.rng.chance(0.4) {
            let count = self.rng.below(5) as usize;
            let first = self.rng.below(self.accounts.len() as u64) as usize;
            sub["members"] = self.accounts.iter().skip(first).take(count).map(|user| user.id.to_string()).collect();
        }
        if self.rng.chance(0.4) {
            sub["channels"] = self.some_rows();
        }
        let is_bulk = self.rng.chance(0.5);
        let (op, d) = match is_bulk {
            true => (37, json!({"subscriptions": {GUILD.to_string(): sub}})),
            false => {
                sub["guild_id"] = GUILD.to_string().into();
                (14, sub)
            }
        };
        let parsed = if is_bulk { GuildSubscriptions::parse_bulk(&d) } else { GuildSubscriptions::parse_single(&d) };
        let patches = parsed.map(|parsed| parsed.patches).unwrap_or_default();
        let client = &mut self.clients[at];
        let Some(wire) = &mut client.wire else { return };
        let first = wire.socket().to_server_bytes();
        wire.send(op, &d);
        let end = wire.socket().to_server_bytes();
        let sent =
            patches.into_iter().map(|(_, patch)| Sent { first, end, is_begun: false, patch }).filter(|_| end > first);
        self.conns[client.serial as usize].subscriptions.extend(sent);
    }

    /// Rows of the member lists of some channels.
    fn some_rows(&mut self) -> Value {
        let state = self.checker.state.clone();
        let channels: Vec<u64> = state.channels.keys().copied().collect();
        let mut rows = json!({});
        for _ in 0..self.rng.below(3) {
            let Some(channel) = self.rng.pick(&channels) else { continue };
            let ranges = if self.rng.chance(0.8) { json!([[0, 99]]) } else { json!([[0, 99], [100, 199]]) };
            rows[channel.to_string()] = ranges;
        }
        rows
    }

    fn ask_for_members(&mut self, at: usize) {
        let presences = self.rng.chance(0.5);
        let mut d = json!({"guild_id": GUILD.to_string(), "presences": presences});
        let is_whole = self.rng.chance(0.4);
        match self.rng.below(2) {
            _ if is_whole => (d["query"], d["limit"]) = (json!(""), json!(0)),
            0 => {
                let prefix = *self.rng.pick(&["us", "User 70", "BOT", "nick", "zz"]).expect("there are some");
                (d["query"], d["limit"]) = (json!(prefix), json!(1 + self.rng.below(5)));
            }
            _ => {
                let first = self.rng.below(self.accounts.len() as u64) as usize;
                let wanted = self.accounts.iter().skip(first).take(3).map(|user| user.id.to_string());
                d["user_ids"] = wanted.collect();
            }
        }
        let client = &mut self.clients[at];
        client.nonces += 1;
        let nonce = format!("{at}-{}", client.nonces);
        d["nonce"] = nonce.clone().into();
        let Some(wire) = &mut client.wire else { return };
        wire.send(8, &d);
        if let (Some(session), Ok(request)) = (client.session, RequestGuildMembers::parse(&d)) {
            self.checker.sessions[session].requests.push((nonce, request));
        }
    }

    /// Connects every client that is offline.
    pub fn bring_back(&mut self) {
        for at in 0..self.clients.len() {
            match self.clients[at].phase {
                Phase::Offline => {
                    let side = at % SIDES;
                    self.connect(at, side);
                }
                Phase::Greeted => self.introduce(at),
                _ => {}
            }
        }
    }
}
