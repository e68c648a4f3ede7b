//! W3 of the pump: a delivery allocates nothing once buffers are warm.

use guildhall_codec::{Encoding, encode_payload_to_gateway};
use guildhall_guild::{Actor, Command, Guild, NewMessage, Output as GuildOutput};
use guildhall_model::ChannelType;
use guildhall_partition::{Account, Compression, ConnParams, Dead, Link, Output, Partition, PartitionConfig};
use guildhall_relay::{PartitionId, ToRelay};
use guildhall_stdx::SlotKey;
use guildhall_test_kit::{FakeClock, GuildBuilder, ScriptedGate, id, identify_payload, privileged, user};
use guildhall_ws_proto::{Opcode, append_masked_frame};
use serde_json::Value;
use std::{collections::VecDeque, io::IoSlice, sync::Arc};

/// Sockets that take everything and keep nothing.
#[derive(Default)]
struct Void {
    bytes: usize,
    sends: usize,
}

impl Link for Void {
    fn send(&mut self, _conn: SlotKey, bytes: &[u8]) -> Result<usize, Dead> {
        self.bytes += bytes.len();
        self.sends += 1;
        Ok(bytes.len())
    }

    fn send_vectored(&mut self, _conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Dead> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.bytes += bytes;
        self.sends += 1;
        Ok(bytes)
    }

    fn set_reading(&mut self, _conn: SlotKey, _reading: bool) {}
    fn finish(&mut self, _conn: SlotKey) {}
    fn drop_conn(&mut self, _conn: SlotKey) {}
}

/// Many plain JSON sessions of one bot, in one guild.
struct Crowd {
    clock: FakeClock,
    partition: Partition,
    guild: Guild,
    link: Void,
    mail: VecDeque<ToRelay>,
    conns: Vec<SlotKey>,
}

fn masked(op: u64, d: &Value) -> Vec<u8> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    encode_payload_to_gateway(Encoding::Json, op, d, &mut payload).expect("it can be encoded");
    append_masked_frame(Opcode::Text, [1, 2, 3, 4], &payload, &mut frame);
    frame
}

impl Crowd {
    fn new(count: usize) -> Self {
        let bot = privileged(800);
        let guild = GuildBuilder::new(1, &user(700)).channel(10, ChannelType::Text).member(&bot, &[]).load();
        let config = PartitionConfig::new(PartitionId(0), "ws://localhost".into(), [1; 32]);
        let mut crowd = Self {
            clock: FakeClock::default(),
            partition: Partition::new(config, Arc::new(ScriptedGate::default())),
            guild,
            link: Void::default(),
            mail: VecDeque::new(),
            conns: Vec::new(),
        };
        let now = crowd.clock.now();
        let params = ConnParams { encoding: Encoding::Json, compression: Compression::None };
        for _ in 0..count {
            let key = crowd.partition.accept(now, params, &mut crowd.link);
            // Messages and members, but no presences: each session would be told of all others.
            let mut identify = masked(2, &identify_payload("token", Some(1 | 1 << 9 | 1 << 15)));
            crowd.partition.handle_bytes(now, key, &mut identify, &mut crowd.link);
            let account = Account { user: bot.clone(), guilds: vec![id(1)] };
            crowd.partition.handle_authenticated(now, key, Ok(account), &mut crowd.link);
            crowd.conns.push(key);
        }
        crowd.go_around();
        assert_eq!(crowd.partition.sessions_count(), count);
        crowd
    }

    fn go_around(&mut self) {
        let now = self.clock.now();
        loop {
            while let Some(output) = self.partition.poll_output() {
                if let Output::ToGuild(_, message) = output {
                    self.guild.handle_relay(now, message);
                }
            }
            self.take_mail();
            if self.mail.is_empty() {
                break;
            }
            while let Some(message) = self.mail.pop_front() {
                self.partition.handle_guild(now, message, false, &mut self.link);
            }
        }
        self.partition.flush(now, &mut self.link);
    }

    fn take_mail(&mut self) {
        while let Some(output) = self.guild.poll_output() {
            if let GuildOutput::Relay(_, message) = output {
                self.mail.push_back(message);
            }
        }
    }

    /// A message on its way to the partition.
    fn say(&mut self) -> ToRelay {
        let new = NewMessage { content: "one of many".to_owned(), ..NewMessage::default() };
        let now = self.clock.now();
        self.guild.handle_command(now, Actor::User(id(700)), &Command::CreateMessage(id(10), Box::new(new)));
        self.take_mail();
        self.mail.pop_front().expect("the relay is told")
    }

    /// Every client acknowledges what it has.
    fn heartbeats(&mut self) {
        self.clock.advance_ms(40_000);
        let now = self.clock.now();
        for key in self.conns.clone() {
            let mut beat = masked(1, &1_000_000.into());
            self.partition.handle_bytes(now, key, &mut beat, &mut self.link);
        }
    }

    /// Allocations while the partition handles a batch of so many messages.
    fn allocations(&mut self, messages: usize) -> u64 {
        let batch: Vec<ToRelay> = (0..messages).map(|_| self.say()).collect();
        let now = self.clock.now();
        let sends = self.link.sends;
        let info = allocation_counter::measure(|| {
            for (n, message) in batch.into_iter().enumerate() {
                self.partition.handle_guild(now, message, n + 1 < messages, &mut self.link);
            }
            self.partition.flush(now, &mut self.link);
        });
        assert_eq!(self.link.sends - sends, self.conns.len(), "everybody got all of it in one call");
        info.count_total
    }

    /// The same once buffers are as large as they get.
    fn warm_allocations(&mut self, messages: usize) -> u64 {
        for _ in 0..3 {
            for _ in 0..8 {
                self.allocations(1);
                self.allocations(messages);
            }
            self.heartbeats();
        }
        self.allocations(messages)
    }
}

#[test]
fn no_allocation_per_delivery() {
    let (mut few, mut many) = (Crowd::new(100), Crowd::new(1_000));
    for messages in [1, 4] {
        let (few, many) = (few.warm_allocations(messages), many.warm_allocations(messages));
        assert_eq!(few, many, "allocations for {messages} messages to 100 and to 1,000 sessions");
        assert!(many <= 10 * messages as u64, "{many} allocations for {messages} messages");
    }
}
