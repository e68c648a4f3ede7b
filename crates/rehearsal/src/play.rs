//! Play: takes the steps of a scenario, and observes the client.
//!
//! Owns        the session of the client, the rules that hold in every scenario, the timeline.
//! Doors       `play`.
//! Invariants  P1 a client's mistake is `Err` with a sentence about the client; the play ends there. P2 the token of
//!             the client is in no verdict.
//! Limits      the scenario's `timeout_ms`, which begins with the client's first request; `EARLY_MAX` payloads
//!             that no step has expected yet; `STORM_COUNT` connections within `STORM_SPAN`; 120 payloads of a
//!             client per minute.
//! Spec        docs/rehearsal.md "What holds in every scenario"; docs/protocol/reference.md §1.

use crate::{
    bodies,
    link::{Link, Query, Received, WRITE_WAIT},
    ops,
    scenario::{
        Close, Connect, Cut, Expect, ExpectEnd, Listener, Refuse, Scenario, Seq, SessionFate, StaysAway, Step, Welcome,
    },
    stage::{Arrival, Exchange, Stage},
    verdict::{ClientInfo, MOMENTS_MAX, Moment, Outcome, StepPlace, Verdict},
};
use guildhall_codec::{DispatchFrame, Encoding, Framing, Inbound, encode_etf};
use guildhall_stdx::Rng;
use serde_json::{Value, json};
use std::{collections::VecDeque, future::Future, time::Duration};
use tokio::time::{Instant, sleep_until, timeout};

/// Payloads that no step has expected yet; older ones are forgotten.
const EARLY_MAX: usize = 256;
const STORM_COUNT: usize = 15;
const STORM_SPAN: Duration = Duration::from_secs(5);
const PAYLOADS_PER_MINUTE: usize = 120;
/// The gateway closes a connection as long after op 7.
const RECONNECT_WAIT: Duration = Duration::from_secs(5);
/// Dispatches that RESUME can replay.
const REPLAY_MAX: usize = 200_000;

/// Of every scenario.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Factor of the heartbeat interval, and of every time that the client has for a step.
    pub patience: f64,
    /// Instead of the scenario's.
    pub timeout: Option<Duration>,
    /// Of session ids.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { patience: 1.0, timeout: None, seed: 1 }
    }
}

/// Plays a scenario with the next client that connects. `command_end` may start that client: its first poll comes when
/// the first step is ready for a request. It resolves when the client's process has ended, with words about it.
pub async fn play(
    scenario: &Scenario,
    stage: &mut Stage,
    params: Params,
    command_end: impl Future<Output = String>,
) -> Verdict {
    stage.clear();
    let mut play = Play::new(scenario, stage, params);
    // The play ends by itself, unless it waits for a socket that takes no bytes.
    let limit = play.limit * 2 + WRITE_WAIT;
    let done = {
        let steps = async {
            tokio::select! {
                biased;
                done = play.run() => Ok(done),
                ended = watch_command(command_end) => Err(ended),
            }
        };
        timeout(limit, steps).await
    };
    let result = match done {
        Ok(Ok(result)) => result,
        // Bytes that the client sent before its process ended have no effect on the verdict.
        Ok(Err(words)) => play.without_command(words).await,
        Err(_) => Err(play.out_of_time()),
    };
    play.verdict(result)
}

async fn watch_command(command_end: impl Future<Output = String>) -> String {
    command_end.await
}

struct Session {
    id: String,
    /// Number of the last dispatch.
    seq: u64,
    /// Encoded without an envelope of a connection: name and body.
    sent: VecDeque<(u64, String, Value)>,
    shard: Option<Value>,
    token: Option<String>,
    /// RESUME is refused.
    is_over: bool,
    /// Close code of the client by which it ended the session.
    ended_by_client: Option<u16>,
}

/// Input of the play.
enum Event {
    Payload(Inbound),
    /// The client ended the connection: its close code, and words.
    Ended(Option<u16>, String),
    Arrived(Arrival),
    Requested(Exchange),
}

struct Play<'a> {
    scenario: &'a Scenario,
    stage: &'a mut Stage,
    params: Params,
    link: Option<Link>,
    frozen: Vec<Link>,
    waiting: VecDeque<Arrival>,
    early: VecDeque<Inbound>,
    session: Session,
    is_authenticated: bool,
    /// IDENTIFY or RESUME that has no answer yet.
    unanswered: Option<u64>,
    acks: bool,
    heartbeat_seq: Option<u64>,
    /// Last number of the session before, until a heartbeat has one of this session.
    stale_seq: u64,
    reconnect_sent: Option<Instant>,
    connected_at: VecDeque<Instant>,
    payloads_at: VecDeque<Instant>,
    rng: Rng,
    messages_count: u64,
    step: usize,
    started: Instant,
    /// The play fails then.
    ends_at: Instant,
    limit: Duration,
    is_client_seen: bool,
    timeline: Vec<Moment>,
    notes: Vec<String>,
    client: Option<ClientInfo>,
    user_agent: Option<String>,
}

type Done = Result<(), String>;

impl<'a> Play<'a> {
    fn new(scenario: &'a Scenario, stage: &'a mut Stage, params: Params) -> Self {
        let scenario_limit = Duration::from_millis(scenario.timeout_ms).mul_f64(params.patience);
        let limit = params.timeout.unwrap_or(scenario_limit);
        let session = Session {
            id: String::new(),
            seq: 0,
            sent: VecDeque::new(),
            shard: None,
            token: None,
            is_over: false,
            ended_by_client: None,
        };
        Self {
            scenario,
            stage,
            params,
            link: None,
            frozen: Vec::new(),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
            session,
            is_authenticated: false,
            unanswered: None,
            acks: true,
            heartbeat_seq: None,
            stale_seq: 0,
            reconnect_sent: None,
            connected_at: VecDeque::new(),
            payloads_at: VecDeque::new(),
            rng: Rng::new(params.seed),
            messages_count: 0,
            step: 0,
            started: Instant::now(),
            ends_at: Instant::now() + limit,
            limit,
            is_client_seen: false,
            timeline: Vec::new(),
            notes: Vec::new(),
            client: None,
            user_agent: None,
        }
    }

    async fn run(&mut self) -> Done {
        let scenario = self.scenario;
        while let Some((_, step)) = scenario.steps.get(self.step) {
            self.take(step).await?;
            self.step += 1;
        }
        match self.waiting.len() {
            0 => Ok(()),
            count => Err(format!("the client opened {count} more connections than the scenario needs")),
        }
    }

    fn out_of_time(&self) -> String {
        let seconds = self.limit.as_secs_f64();
        match self.is_client_seen {
            true => format!("the scenario did not end within {seconds:.1} s"),
            false => format!("no client connected within {seconds:.1} s"),
        }
    }

    /// The time limit begins when the client is seen first.
    fn see_client(&mut self) {
        if !self.is_client_seen {
            self.is_client_seen = true;
            self.ends_at = Instant::now() + self.limit;
        }
    }

    /// The process of the client has ended. That is right if the client has to stay away.
    async fn without_command(&mut self, words: String) -> Done {
        self.note_moment("command", words.clone());
        let rest = &self.scenario.steps[self.step.min(self.scenario.steps.len())..];
        // A client that gives up may end its process before its last bytes are read.
        let is_right = rest.iter().all(|(_, step)| matches!(step, Step::StaysAway(_)));
        match is_right {
            true => Ok(()),
            false => Err(format!("the client's process ended early: {words}")),
        }
    }

    fn verdict(self, result: Done) -> Verdict {
        let step = self.scenario.steps.get(self.step).filter(|_| result.is_err()).map(|(line, step)| StepPlace {
            number: self.step + 1,
            line: *line,
            step: step.words(),
        });
        Verdict {
            format: "guildhall-verdict",
            version: 1,
            scenario: self.scenario.name.clone(),
            outcome: if result.is_ok() { Outcome::Passed } else { Outcome::Failed },
            reason: result.err(),
            rule: self.scenario.rule.clone(),
            step,
            notes: self.notes,
            client: self.client,
            duration_ms: millis(self.started.elapsed()),
            timeline: self.timeline,
        }
    }

    fn note_moment(&mut self, by: &'static str, what: String) {
        if self.timeline.len() == MOMENTS_MAX {
            self.timeline.remove(MOMENTS_MAX / 2);
        }
        self.timeline.push(Moment { at_ms: millis(self.started.elapsed()), by, what });
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) && self.notes.len() < 20 {
            self.notes.push(note);
        }
    }

    fn deadline(&self, within_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(within_ms).mul_f64(self.params.patience)
    }

    async fn take(&mut self, step: &Step) -> Done {
        match step {
            Step::Connect(of) => self.connect(of).await,
            Step::Refuse(of) => self.refuse(of).await,
            Step::Expect(of) => self.expect(of).await,
            Step::ExpectEnd(of) => self.expect_end(of).await,
            Step::StaysAway(of) => self.stays_away(of).await,
            Step::Welcome(of) => self.welcome(of).await,
            Step::Guild(of) => self.dispatch("GUILD_CREATE", bodies::guild(0, of.members)).await,
            Step::Messages(of) => {
                for _ in 0..of.count {
                    self.messages_count += 1;
                    let body = bodies::message(self.messages_count, of.bytes, None);
                    self.dispatch("MESSAGE_CREATE", body).await?;
                }
                Ok(())
            }
            Step::Event(of) => self.dispatch(&of.name, of.d.clone()).await,
            Step::SkipSeq(count) => {
                self.session.seq += count;
                Ok(())
            }
            Step::Repeat(count) => self.repeat(*count).await,
            Step::Send(of) => {
                match of.op.0 {
                    ops::RECONNECT => self.reconnect_sent = Some(Instant::now()),
                    ops::INVALID_SESSION => {
                        self.is_authenticated = false;
                        self.session.is_over |= of.d != Value::Bool(true);
                    }
                    _ => {}
                }
                self.control(of.op.0, &of.d).await
            }
            Step::Raw(text) => {
                self.note_moment("gateway", format!("raw text of {} bytes", text.len()));
                let sent = self.open_link()?.send(text.as_bytes()).await;
                self.sent(sent).await
            }
            Step::Close(of) => self.close(of).await,
            Step::Drop(how) => self.cut(*how).await,
            Step::Freeze(_) => {
                self.note_moment("gateway", "neither reads nor writes".to_owned());
                let link = self.link.take();
                self.frozen.extend(link);
                self.is_authenticated = false;
                Ok(())
            }
            Step::Ack(acks) => {
                self.acks = *acks;
                Ok(())
            }
            Step::Session(SessionFate::Ends) => {
                self.session.is_over = true;
                Ok(())
            }
            Step::WaitMs(ms) => self.wait(Duration::from_millis(*ms)).await,
            Step::Pace(pace) => {
                self.open_link()?.pace = *pace;
                Ok(())
            }
            Step::Fragment(bytes) => {
                self.open_link()?.fragment_bytes = *bytes;
                Ok(())
            }
            Step::Hold(true) => {
                self.open_link()?.hold();
                Ok(())
            }
            Step::Hold(false) => {
                let done = self.open_link()?.release().await;
                self.sent(done).await
            }
            Step::LateFlush(late) => {
                if !self.open_link()?.is_compressed() {
                    self.note("the connection has no compression, so no part of a message was late".to_owned());
                }
                self.open_link()?.late = Some(*late);
                Ok(())
            }
        }
    }

    // Sending

    fn open_link(&mut self) -> Result<&mut Link, String> {
        self.link.as_mut().ok_or_else(|| "the client is not connected".to_owned())
    }

    /// A connection that breaks while the gateway sends is the client's doing.
    async fn sent(&mut self, sent: anyhow::Result<()>) -> Done {
        let Err(error) = sent else { return Ok(()) };
        let code = match &mut self.link {
            Some(link) => link.closed_with().await,
            None => None,
        };
        Err(match code {
            Some(code) => format!("the client closed with code {code} while the gateway sent"),
            None => format!("the client ended the connection while the gateway sent: {error:#}"),
        })
    }

    async fn control(&mut self, op: u64, d: &Value) -> Done {
        let words = match op {
            ops::HEARTBEAT_ACK => ops::name(op),
            _ => format!("{} {}", ops::name(op), short(&d.to_string())),
        };
        self.note_moment("gateway", words);
        let sent = self.open_link()?.send_control(u8::try_from(op).unwrap_or(u8::MAX), d).await;
        self.sent(sent).await
    }

    async fn dispatch(&mut self, name: &str, body: Value) -> Done {
        self.session.seq += 1;
        let seq = self.session.seq;
        self.session.sent.push_back((seq, name.to_owned(), body.clone()));
        if self.session.sent.len() > REPLAY_MAX {
            self.session.sent.pop_front();
        }
        self.send_dispatch(seq, name, &body).await
    }

    async fn send_dispatch(&mut self, seq: u64, name: &str, body: &Value) -> Done {
        let link = self.link.as_mut().ok_or("the client is not connected")?;
        let made = match link.encoding() {
            Encoding::Json => DispatchFrame::new(Encoding::Json, name, body),
            Encoding::Etf => {
                let mut term = Vec::new();
                encode_etf(body, &mut term).and_then(|()| DispatchFrame::from_body(Encoding::Etf, name, &term))
            }
        };
        let mut frame = made.map_err(|error| format!("this scenario cannot be sent: {error}"))?;
        let payload = frame.write_for(seq, Framing::None).to_vec();
        self.note_moment("gateway", format!("{name} s={seq}, {} bytes", payload.len()));
        let sent = self.open_link()?.send(&payload).await;
        self.sent(sent).await
    }

    async fn repeat(&mut self, count: u64) -> Done {
        let sent = &self.session.sent;
        let last: Vec<_> = sent.iter().skip(sent.len().saturating_sub(count as usize)).cloned().collect();
        for (seq, name, body) in last {
            self.send_dispatch(seq, &name, &body).await?;
        }
        Ok(())
    }

    async fn welcome(&mut self, of: &Welcome) -> Done {
        let answered = self.unanswered.take();
        if answered.is_none() && self.is_authenticated {
            return Ok(());
        }
        self.is_authenticated = true;
        if answered == Some(ops::RESUME) {
            return self.dispatch("RESUMED", json!({ "_trace": ["rehearsal"] })).await;
        }
        self.session.id = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        self.stale_seq = self.session.seq;
        self.session.seq = 0;
        self.session.sent.clear();
        self.session.is_over = false;
        self.session.ended_by_client = None;
        let resume_url = match self.scenario.resume_elsewhere {
            true => self.stage.other_url(),
            false => self.stage.gateway_url(),
        };
        let session = &self.session;
        let ready = bodies::ready(&session.id, &resume_url, session.shard.as_ref(), of.guilds, of.bytes);
        self.dispatch("READY", ready).await?;
        if of.guild_create {
            for index in 0..of.guilds {
                self.dispatch("GUILD_CREATE", bodies::guild(index, 2)).await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self, Close { code, reason }: &Close) -> Done {
        self.note_moment("gateway", format!("close {code}"));
        let sent = self.open_link()?.close(*code, reason).await;
        self.sent(sent).await?;
        self.is_authenticated = false;
        if let Some(link) = self.link.take() {
            retire(link);
        }
        Ok(())
    }

    async fn cut(&mut self, how: Cut) -> Done {
        let Some(mut link) = self.link.take() else { return Err("the client is not connected".to_owned()) };
        self.is_authenticated = false;
        match how {
            Cut::Reset => {
                self.note_moment("gateway", "TCP reset".to_owned());
                let _ = link.stream.set_zero_linger();
            }
            Cut::Fin => {
                use tokio::io::AsyncWriteExt as _;
                self.note_moment("gateway", "end of the stream without a close frame".to_owned());
                link.has_closed = true;
                let _ = link.stream.shutdown().await;
                retire(link);
            }
        }
        Ok(())
    }

    // Waiting

    /// The next event before `deadline`.
    async fn next(&mut self, deadline: Instant) -> Result<Option<Event>, String> {
        loop {
            let link = &mut self.link;
            let receive = async {
                match link {
                    Some(link) => link.receive().await,
                    None => std::future::pending().await,
                }
            };
            let close_due = self.reconnect_sent.map(|at| at + RECONNECT_WAIT);
            let wake = close_due.map_or(deadline, |due| due.min(deadline)).min(self.ends_at);
            let received = tokio::select! {
                biased;
                Some(request) = self.stage.requests.recv() => return self.requested(request).map(Some),
                received = receive => received,
                Some(arrival) = self.stage.arrivals.recv() => return self.arrived(arrival).map(Some),
                () = sleep_until(wake) => {
                    if self.ends_at <= Instant::now() {
                        return Err(self.out_of_time());
                    }
                    if close_due.is_some_and(|due| due <= Instant::now()) {
                        self.reconnect_sent = None;
                        if self.link.is_some() {
                            self.note("the client did not reconnect within 5 s of op 7, and was closed with 4000".to_owned());
                            self.close(&Close { code: 4000, reason: String::new() }).await?;
                        }
                        continue;
                    }
                    return Ok(None);
                }
            };
            match received {
                Received::Payload(inbound) => {
                    if let Some(inbound) = self.check(inbound).await? {
                        return Ok(Some(Event::Payload(inbound)));
                    }
                }
                Received::Undecodable(words) => {
                    return Err(format!("the client sent a message that cannot be decoded: {words}"));
                }
                Received::Closed(code) => return Ok(Some(self.ended(code, None))),
                Received::Ended(words) => return Ok(Some(self.ended(None, Some(words)))),
            }
        }
    }

    fn ended(&mut self, code: Option<u16>, words: Option<&str>) -> Event {
        let words = match (code, words) {
            (_, Some(words)) => words.to_owned(),
            (Some(code), None) => format!("the client closed with code {code}"),
            (None, None) => "the client closed without a code".to_owned(),
        };
        self.note_moment("client", words.clone());
        self.is_authenticated = false;
        self.reconnect_sent = None;
        if let Some(link) = self.link.take() {
            if !link.has_closed && matches!(code, Some(1000 | 1001)) {
                self.session.ended_by_client = code;
            }
            tokio::spawn(link.answer_close(code));
        }
        Event::Ended(code, words)
    }

    fn requested(&mut self, exchange: Exchange) -> Result<Event, String> {
        self.see_client();
        let Exchange { request, status, too_early, .. } = &exchange;
        self.user_agent = self.user_agent.take().or_else(|| request.user_agent.clone());
        let what = match request.is_upgrade {
            true => format!("upgrade of {}?{}: {status}", request.path, request.query),
            false => format!("{} {}: {status}", request.method, request.path),
        };
        self.note_moment("rest", short(&what));
        match too_early {
            Some(by) => Err(format!(
                "the client repeated a refused request {} ms before the time that the refusal named ({} {})",
                millis(*by),
                request.method,
                short(&request.path)
            )),
            None => Ok(Event::Requested(exchange)),
        }
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<Event, String> {
        self.see_client();
        let now = Instant::now();
        self.connected_at.push_back(now);
        self.connected_at.retain(|at| now - *at < STORM_SPAN);
        if self.connected_at.len() > STORM_COUNT {
            return Err(format!(
                "the client connected {} times within {} s: it has to wait longer and longer",
                self.connected_at.len(),
                STORM_SPAN.as_secs()
            ));
        }
        Ok(Event::Arrived(arrival))
    }

    /// Rules that hold in every scenario. Heartbeats are acknowledged here.
    async fn check(&mut self, inbound: Inbound) -> Result<Option<Inbound>, String> {
        let now = Instant::now();
        self.payloads_at.push_back(now);
        self.payloads_at.retain(|at| now - *at < Duration::from_secs(60));
        if self.payloads_at.len() > PAYLOADS_PER_MINUTE {
            return Err(format!("the client sent more than {PAYLOADS_PER_MINUTE} payloads within a minute"));
        }
        let Inbound { op, d } = &inbound;
        self.note_moment("client", payload_words(*op, d));
        match *op {
            ops::HEARTBEAT | ops::QOS_HEARTBEAT => {
                let seq = if *op == ops::HEARTBEAT { d } else { &d["seq"] };
                let seq = match seq {
                    Value::Null => None,
                    seq => Some(
                        seq.as_u64()
                            .ok_or_else(|| format!("a heartbeat has d={}: write a number", short(&d.to_string())))?,
                    ),
                };
                match seq {
                    // It may have been under way when READY was sent.
                    Some(seq) if seq > self.session.seq && seq <= self.stale_seq => {}
                    _ => self.stale_seq = 0,
                }
                if self.is_authenticated && seq.is_some_and(|seq| seq > self.session.seq.max(self.stale_seq)) {
                    let (seq, last) = (seq.unwrap_or_default(), self.session.seq);
                    return Err(format!("a heartbeat has d={seq}, and the last dispatch has s={last}"));
                }
                self.heartbeat_seq = seq;
                if self.acks {
                    self.control(ops::HEARTBEAT_ACK, &Value::Null).await?;
                }
            }
            ops::IDENTIFY => self.check_identify(d)?,
            ops::RESUME => self.check_resume(d)?,
            ops::DISPATCH | ops::RECONNECT | ops::INVALID_SESSION | ops::HELLO | ops::HEARTBEAT_ACK => {
                return Err(format!("the client sent {}, which only a gateway sends", ops::name(*op)));
            }
            op if op > 43 => return Err(format!("the client sent op {op}, which the protocol does not have")),
            _ if !self.is_authenticated => {
                return Err(format!(
                    "the client sent {} before READY or RESUMED: a gateway closes with 4003",
                    ops::name(*op)
                ));
            }
            _ => {}
        }
        Ok(Some(inbound))
    }

    fn check_identify(&mut self, d: &Value) -> Done {
        if self.is_authenticated {
            return Err(
                "the client sent IDENTIFY on a connection that has a session: a gateway closes with 4005".to_owned()
            );
        }
        let Some(token) = d["token"].as_str().filter(|token| !token.is_empty()) else {
            return Err("IDENTIFY has no token".to_owned());
        };
        if d.get("intents").is_some_and(|intents| intents.as_u64().is_none()) {
            return Err("IDENTIFY has intents that are no number: a gateway closes with 4013".to_owned());
        }
        self.session.token = Some(plain_token(token).to_owned());
        self.session.shard = d.get("shard").filter(|shard| !shard.is_null()).cloned();
        let properties = &d["properties"];
        let library = properties["browser"].as_str().or_else(|| properties["$browser"].as_str());
        if let Some(client) = &mut self.client {
            client.library = library.map(short);
        }
        Ok(())
    }

    fn check_resume(&mut self, d: &Value) -> Done {
        if self.is_authenticated {
            return Err(
                "the client sent RESUME on a connection that has a session: a gateway closes with 4005".to_owned()
            );
        }
        let seq = d["seq"].as_u64().ok_or("RESUME has no seq")?;
        let id = d["session_id"].as_str().ok_or("RESUME has no session_id")?;
        if id != self.session.id {
            return Err("RESUME has another session_id than the last READY".to_owned());
        }
        let token = d["token"].as_str().ok_or("RESUME has no token")?;
        if self.session.token.as_deref() != Some(plain_token(token)) {
            return Err("RESUME has another token than IDENTIFY".to_owned());
        }
        if let Some(code) = self.session.ended_by_client {
            return Err(format!(
                "the client closed with {code}, which ends the session, and then sent RESUME: close with 4000 to 4999"
            ));
        }
        if seq > self.session.seq {
            return Err(format!("RESUME has seq={seq}, and the last dispatch has s={}", self.session.seq));
        }
        Ok(())
    }

    /// Serves an idle client.
    async fn wait(&mut self, time: Duration) -> Done {
        let until = Instant::now() + time;
        while let Some(event) = self.next(until).await? {
            match event {
                Event::Payload(inbound) => self.remember(inbound),
                Event::Ended(_, words) => return Err(format!("{words}, for no reason")),
                Event::Arrived(arrival) => self.waiting.push_back(arrival),
                Event::Requested(_) => {}
            }
        }
        Ok(())
    }

    fn remember(&mut self, inbound: Inbound) {
        if !matches!(inbound.op, ops::HEARTBEAT | ops::QOS_HEARTBEAT) {
            self.early.push_back(inbound);
            if self.early.len() > EARLY_MAX {
                self.early.pop_front();
            }
        }
    }

    async fn connect(&mut self, of: &Connect) -> Done {
        let started = Instant::now();
        // People start the first client by hand.
        let deadline = if self.client.is_none() { self.ends_at } else { self.deadline(of.within_ms) };
        loop {
            let arrival = match self.waiting.pop_front() {
                Some(arrival) => arrival,
                None => match self.next(deadline).await? {
                    Some(Event::Arrived(arrival)) => arrival,
                    // A connection that is about to end may still have payloads.
                    Some(Event::Payload(_) | Event::Ended(..) | Event::Requested(_)) => continue,
                    None => {
                        return Err(format!("the client did not connect again within {} ms", of.within_ms));
                    }
                },
            };
            if started.elapsed() < Duration::from_millis(of.not_before_ms) {
                let (early, least) = (millis(started.elapsed()), of.not_before_ms);
                return Err(format!("the client connected after {early} ms, before {least} ms have passed"));
            }
            return self.accept(arrival, of.at, of.hello).await;
        }
    }

    async fn accept(&mut self, arrival: Arrival, at: Listener, hello: bool) -> Done {
        let Arrival { request, stream, early } = arrival;
        let is_right = match at {
            Listener::Any => true,
            Listener::First => request.listener == 0,
            Listener::Second => request.listener == 1,
        };
        if !is_right {
            let (right, wrong) = match at {
                Listener::Second => ("resume_gateway_url of READY", "first address"),
                _ => ("first address", "resume_gateway_url"),
            };
            return Err(format!("the client connected to the {wrong}, not to the {right}"));
        }
        let query = Query::parse(&request.query).map_err(|words| format!("the client {words}"))?;
        if query.version.is_none() {
            self.note("the gateway's URL has no v=10".to_owned());
        }
        let library = self.client.take().and_then(|client| client.library);
        self.client = Some(ClientInfo {
            user_agent: self.user_agent.clone().map(|text| short(&text)),
            library,
            query: short(&request.query),
            encoding: query.encoding.name().to_owned(),
            compression: query.compression.name().to_owned(),
        });
        let link = Link::new(stream, early, &query).map_err(|error| format!("no connection: {error:#}"))?;
        if let Some(old) = self.link.replace(link) {
            retire(old);
        }
        self.is_authenticated = false;
        self.unanswered = None;
        self.reconnect_sent = None;
        self.heartbeat_seq = None;
        self.early.clear();
        if hello {
            // A slow machine must not look like a gateway that sends no acknowledgement.
            let interval = Duration::from_millis(self.scenario.heartbeat_interval_ms).mul_f64(self.params.patience);
            let interval = millis(interval).max(1);
            return self.control(ops::HELLO, &json!({ "heartbeat_interval": interval, "_trace": ["rehearsal"] })).await;
        }
        Ok(())
    }

    async fn refuse(&mut self, of: &Refuse) -> Done {
        self.stage.refuse(of.clone());
        let deadline = self.deadline(self.scenario.timeout_ms);
        let refused = loop {
            match self.next(deadline).await? {
                Some(Event::Requested(exchange)) if exchange.is_refused => break exchange,
                Some(Event::Arrived(arrival)) => self.waiting.push_back(arrival),
                Some(_) => {}
                None => return Err("the client sent no request that could be refused".to_owned()),
            }
        };
        let deadline = self.deadline(of.not_before_ms + of.within_ms);
        let is_same = |exchange: &Exchange| {
            let (a, b) = (&exchange.request, &refused.request);
            a.is_upgrade == b.is_upgrade && (a.is_upgrade || a.path == b.path)
        };
        loop {
            match self.next(deadline).await? {
                Some(Event::Requested(exchange)) if is_same(&exchange) => {
                    let waited = millis(exchange.at - refused.at);
                    self.note_moment("rest", format!("the client repeated the request after {waited} ms"));
                    return Ok(());
                }
                Some(Event::Arrived(arrival)) => self.waiting.push_back(arrival),
                Some(_) => {}
                None => {
                    let wait = of.not_before_ms + of.within_ms;
                    return Err(format!("the client did not repeat the refused request within {wait} ms"));
                }
            }
        }
    }

    async fn expect(&mut self, of: &Expect) -> Done {
        let deadline = self.deadline(of.within_ms);
        let wanted = ops::name(of.op.0);
        loop {
            let event = match self.early.pop_front() {
                Some(inbound) => Some(Event::Payload(inbound)),
                None => self.next(deadline).await?,
            };
            match event {
                Some(Event::Payload(inbound)) => {
                    if self.is_expected(of, inbound).await? {
                        return Ok(());
                    }
                }
                Some(Event::Ended(_, words)) if !of.reconnects => {
                    return Err(format!("{words}, and the gateway expected {wanted}"));
                }
                Some(Event::Arrived(arrival)) if of.reconnects => {
                    self.accept(arrival, Listener::Any, true).await?;
                }
                Some(Event::Arrived(arrival)) => self.waiting.push_back(arrival),
                Some(Event::Ended(..) | Event::Requested(_)) => {}
                None => return Err(self.not_expected(of)),
            }
        }
    }

    fn not_expected(&self, of: &Expect) -> String {
        let (wanted, ms) = (ops::name(of.op.0), of.within_ms);
        match (of.op.0, of.seq, self.heartbeat_seq) {
            (ops::HEARTBEAT, Seq::Last, Some(seq)) if seq != self.session.seq => format!(
                "the last heartbeat has d={seq} and not {}: the client did not take the dispatches behind s={seq}",
                self.session.seq
            ),
            _ => format!("the client sent no {wanted} within {ms} ms"),
        }
    }

    async fn is_expected(&mut self, of: &Expect, Inbound { op, d }: Inbound) -> Result<bool, String> {
        let op = if op == ops::QOS_HEARTBEAT { ops::HEARTBEAT } else { op };
        let is_other = of.or.is_some_and(|or| or.0 == op);
        let is_tolerated = of.tolerated.is_some_and(|tolerated| tolerated.0 == op);
        if of.op.0 != op && !is_other && !is_tolerated {
            return match (op, of.op.0) {
                // The scenario's session is over, and the client cannot know.
                (ops::RESUME, ops::IDENTIFY) if self.session.is_over && !self.session.id.is_empty() => {
                    self.note("the client tried to resume a session that had ended".to_owned());
                    self.control(ops::INVALID_SESSION, &Value::Bool(false)).await.map(|()| false)
                }
                (ops::IDENTIFY, ops::RESUME) => {
                    Err("the client sent IDENTIFY, and not RESUME: it misses what happened since its connection ended"
                        .to_owned())
                }
                (ops::IDENTIFY | ops::RESUME, _) => {
                    Err(format!("the client sent {}, and the gateway expected {}", ops::name(op), ops::name(of.op.0)))
                }
                _ => Ok(false),
            };
        }
        match (op, of.seq) {
            _ if is_other => {}
            (ops::HEARTBEAT, Seq::Last) if self.heartbeat_seq != Some(self.session.seq) => return Ok(false),
            (ops::RESUME, Seq::Usual | Seq::Last) => {
                let (seq, last) = (d["seq"].as_u64().unwrap_or_default(), self.session.seq);
                if seq < last {
                    return Err(format!(
                        "RESUME has seq={seq}, and the client had received the dispatch with s={last} before"
                    ));
                }
            }
            _ => {}
        }
        if let Some((name, value)) = of.d.iter().find(|(name, value)| d.get(name.as_str()) != Some(value)) {
            return Err(format!(
                "{} has {name}={}, and not {value}",
                ops::name(op),
                short(&d[name.as_str()].to_string())
            ));
        }
        if is_tolerated {
            let (did, better) = (ops::name(op), ops::name(of.op.0));
            self.note(format!("the client sent {did}; {better} would be better here"));
        }
        if op == ops::RESUME {
            self.resume(&d).await?;
        }
        if matches!(op, ops::IDENTIFY | ops::RESUME) {
            self.unanswered = Some(op);
        }
        Ok(true)
    }

    /// Sends what the client has missed. Later dispatches that it had received come again as well.
    async fn resume(&mut self, d: &Value) -> Done {
        let seq = d["seq"].as_u64().unwrap_or_default();
        let missed: Vec<_> = self.session.sent.iter().filter(|(of, ..)| *of > seq).cloned().collect();
        for (seq, name, body) in missed {
            self.send_dispatch(seq, &name, &body).await?;
        }
        Ok(())
    }

    async fn expect_end(&mut self, of: &ExpectEnd) -> Done {
        let deadline = self.deadline(of.within_ms);
        loop {
            match self.next(deadline).await? {
                Some(Event::Ended(Some(code @ (1000 | 1001)), _)) if !of.any_code => {
                    return Err(format!(
                        "the client closed with {code}, which ends the session: close with 4000 to 4999"
                    ));
                }
                Some(Event::Ended(..)) => return Ok(()),
                Some(Event::Payload(_) | Event::Requested(_)) => {}
                // The client gave up the old connection.
                Some(Event::Arrived(arrival)) => {
                    self.waiting.push_back(arrival);
                    if let Some(link) = self.link.take() {
                        retire(link);
                    }
                    return Ok(());
                }
                None => {
                    return Err(format!("the client did not end the connection within {} ms", of.within_ms));
                }
            }
        }
    }

    async fn stays_away(&mut self, of: &StaysAway) -> Done {
        let until = Instant::now() + Duration::from_millis(of.for_ms);
        let connected = || "the client connected again: it has to stay away".to_owned();
        if !self.waiting.is_empty() {
            return Err(connected());
        }
        while let Some(event) = self.next(until).await? {
            match event {
                Event::Arrived(_) => return Err(connected()),
                Event::Payload(_) | Event::Ended(..) | Event::Requested(_) => {}
            }
        }
        Ok(())
    }
}

/// Reads what the client still sends, until it ends the connection.
fn retire(mut link: Link) {
    tokio::spawn(timeout(Duration::from_secs(10), async move {
        loop {
            match link.receive().await {
                Received::Closed(code) => return link.answer_close(code).await,
                Received::Ended(_) => return,
                _ => {}
            }
        }
    }));
}

/// Libraries send it with and without a prefix.
fn plain_token(token: &str) -> &str {
    token.strip_prefix("Bot ").unwrap_or(token)
}

/// A payload for the timeline, without the token.
fn payload_words(op: u64, d: &Value) -> String {
    let mut d = d.clone();
    if let Some(token) = d.get_mut("token") {
        *token = Value::from("…");
    }
    short(&format!("{} {d}", ops::name(op)))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
