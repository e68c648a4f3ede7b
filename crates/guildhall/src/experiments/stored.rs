//! Stored: the experiments of a cluster as one record of the store.
//!
//! Owns        the record's form, its rules, and the streams of arms.
//! Invariants  D1 the record is replaced only by one that was made of it: no change undoes another one. D2 a running
//!             experiment has a place in its layer that no other running one or draft has.
//! Limits      `EXPERIMENTS_MAX`; `ARM_BYTES_MAX` bytes of memory per connection.

use guildhall_backend::{
    ExperimentArm, ExperimentAudience, ExperimentBody, ExperimentChange, ExperimentFault, ExperimentState,
    ExperimentStop, NewExperiment,
};
use guildhall_codec::{Arm, ContextPool, DictionaryId, Encoding, ZlibParams, ZstdParams};
use guildhall_partition::{
    ArmStream, Audience, EXPERIMENTS_MAX, Experiment, Experiments, SLOTS, StreamCodec, TriedDictionaries,
    ZSTD_WINDOW_LOG,
};
use serde::{Deserialize, Serialize};

/// Memory of one connection's context.
const ARM_BYTES_MAX: u64 = 16 << 20;

/// The record of all experiments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// Number of the next experiment.
    next_id: u64,
    /// In the order of their creation.
    pub experiments: Vec<Stored>,
}

/// An experiment with its number, which no other has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    pub id: u64,
    #[serde(flatten)]
    pub body: ExperimentBody,
}

impl Stored {
    pub fn is_running(&self) -> bool {
        self.body.state == ExperimentState::Running
    }

    fn is_open(&self) -> bool {
        matches!(self.body.state, ExperimentState::Running | ExperimentState::Draft)
    }

    /// Dictionaries that its arms name.
    pub fn dictionaries(&self) -> impl Iterator<Item = DictionaryId> + '_ {
        let arms = self.body.arms.iter().filter_map(|arm| arm.arm.as_deref()?.parse::<Arm>().ok());
        arms.filter_map(|arm| arm.dictionary())
    }

    /// Its assignment.
    pub fn experiment(&self) -> Experiment {
        let ExperimentBody { name, salt, layer, first_slot, permille, arms, audience, .. } = &self.body;
        let ExperimentAudience { platforms, bots, guild_id } = audience;
        Experiment {
            name: name.clone(),
            salt: salt.clone(),
            layer: layer.clone(),
            slots: *first_slot..first_slot.saturating_add(*permille),
            arms: arms.iter().map(|arm| (arm.name.clone(), arm.weight)).collect(),
            audience: Audience {
                platforms: platforms.iter().cloned().collect(),
                bots: *bots,
                guild_id: guild_id.map(|guild_id| guild_id.get()),
            },
        }
    }
}

impl Document {
    fn find(&mut self, name: &str) -> Result<&mut Stored, ExperimentFault> {
        self.experiments.iter_mut().find(|of| of.body.name == name).ok_or(ExperimentFault::Unknown)
    }

    /// Checks what has not ended.
    fn check(&self) -> Result<(), ExperimentFault> {
        let open = self.experiments.iter().filter(|of| of.is_open()).map(Stored::experiment).collect();
        Experiments::new(open).map(drop).map_err(|error| ExperimentFault::Conflict(format!("{error}.")))
    }

    /// First slot of a layer with room for `permille` behind it.
    fn room(&self, layer: &str, permille: u16) -> Option<u16> {
        let of_layer = self.experiments.iter().filter(|of| of.is_open() && of.body.layer == layer);
        let mut taken: Vec<_> =
            of_layer.map(|of| (of.body.first_slot, of.body.first_slot + of.body.permille)).collect();
        taken.sort_unstable();
        let mut first = 0;
        for (start, end) in taken {
            if start.saturating_sub(first) >= permille.max(1) {
                break;
            }
            first = first.max(end);
        }
        (first + permille <= SLOTS).then_some(first)
    }

    pub fn create(&mut self, new: &NewExperiment, by: &str, now_s: u64) -> Result<ExperimentBody, ExperimentFault> {
        if self.experiments.iter().any(|of| of.body.name == new.name) {
            return Err(ExperimentFault::Conflict(format!(
                "There is an experiment {:?}: choose another name, or delete that one once it has ended.",
                new.name
            )));
        }
        if self.experiments.len() >= EXPERIMENTS_MAX {
            return Err(ExperimentFault::Conflict(format!(
                "There are {EXPERIMENTS_MAX} experiments: delete one that has ended."
            )));
        }
        let first_slot = match new.first_slot {
            Some(first_slot) => first_slot,
            None => self.room(&new.layer, new.permille).ok_or_else(|| {
                ExperimentFault::Conflict(format!(
                    "The layer {:?} has no room for {} permille: take fewer, another layer, or stop an experiment.",
                    new.layer, new.permille
                ))
            })?,
        };
        let body = ExperimentBody {
            name: new.name.clone(),
            salt: new.salt.clone().unwrap_or_else(|| new.name.clone()),
            layer: new.layer.clone(),
            first_slot,
            permille: new.permille,
            audience: new.audience.clone(),
            arms: new.arms.clone(),
            alpha: new.alpha,
            tolerance_percent: new.tolerance_percent,
            samples_min: new.samples_min,
            reconnect_on_rollback: new.reconnect_on_rollback,
            state: if new.draft { ExperimentState::Draft } else { ExperimentState::Running },
            reason: None,
            reconnected: false,
            changed_by: by.to_owned(),
            created_at: now_s,
            started_at: (!new.draft).then_some(now_s),
            ended_at: None,
        };
        let id = self.next_id;
        self.next_id += 1;
        self.experiments.push(Stored { id, body: body.clone() });
        self.check()?;
        Ok(body)
    }

    pub fn change(
        &mut self,
        name: &str,
        change: &ExperimentChange,
        by: &str,
        now_s: u64,
    ) -> Result<ExperimentBody, ExperimentFault> {
        let body = &mut self.find(name)?.body;
        match body.state {
            ExperimentState::Stopped | ExperimentState::RolledBack => {
                return Err(ExperimentFault::Conflict(format!("{name:?} has ended: create another one.")));
            }
            ExperimentState::Running if change.start => {
                return Err(ExperimentFault::Conflict(format!(
                    "{name:?} runs already: give `permille` alone, or use `guildhall experiment ramp`, to change its share."
                )));
            }
            ExperimentState::Running => {}
            ExperimentState::Draft if change.start => {
                body.state = ExperimentState::Running;
                body.started_at = Some(now_s);
            }
            ExperimentState::Draft => {}
        }
        if let Some(permille) = change.permille {
            if body.first_slot + permille > SLOTS {
                let room = SLOTS - body.first_slot;
                return Err(ExperimentFault::Conflict(format!(
                    "{name:?} begins at {} of the layer's {SLOTS}: it has room for {room} permille.",
                    body.first_slot
                )));
            }
            body.permille = permille;
        }
        body.changed_by = by.to_owned();
        let changed = body.clone();
        self.check()?;
        Ok(changed)
    }

    pub fn stop(
        &mut self,
        name: &str,
        stop: &ExperimentStop,
        by: &str,
        now_s: u64,
    ) -> Result<ExperimentBody, ExperimentFault> {
        let body = &mut self.find(name)?.body;
        if matches!(body.state, ExperimentState::Stopped | ExperimentState::RolledBack) {
            // The first stop may have been without op 7.
            if !stop.reconnect || body.reconnected {
                return Err(ExperimentFault::Conflict(match body.reconnected {
                    true => {
                        format!("{name:?} has ended, and its clients were sent op 7: there is nothing left to stop.")
                    }
                    false => format!(
                        "{name:?} has ended: give `reconnect` to send op 7 to clients that still have its arms."
                    ),
                }));
            }
        } else {
            body.state = ExperimentState::Stopped;
            body.reason = stop.reason.clone();
            body.ended_at = Some(now_s);
        }
        body.reconnected |= stop.reconnect;
        body.changed_by = by.to_owned();
        Ok(body.clone())
    }

    /// A guardrail stops an experiment. None: it does not run any more.
    pub fn roll_back(&mut self, id: u64, reason: &str, now_s: u64) -> Option<ExperimentBody> {
        let stored = self.experiments.iter_mut().find(|of| of.id == id && of.is_running())?;
        let body = &mut stored.body;
        body.state = ExperimentState::RolledBack;
        body.reason = Some(reason.to_owned());
        body.ended_at = Some(now_s);
        body.reconnected = body.reconnect_on_rollback;
        "guardrail".clone_into(&mut body.changed_by);
        Some(body.clone())
    }

    pub fn remove(&mut self, name: &str) -> Result<(), ExperimentFault> {
        if self.find(name)?.is_running() {
            return Err(ExperimentFault::Conflict(format!("{name:?} runs: stop it first.")));
        }
        self.experiments.retain(|of| of.body.name != name);
        Ok(())
    }
}

/// Writer of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArmPlan {
    Node,
    Context,
    Zlib(ZlibParams),
    Zstd(ZstdParams),
    SharedMatch,
    /// The stream as the settings have it, with this dictionary.
    Dictionary(DictionaryId),
}

/// Reads an arm, and checks that this node can serve it.
pub fn plan_of(arm: &ExperimentArm, streams: StreamCodec, contexts: &ContextPool) -> Result<ArmPlan, String> {
    let params = contexts.params();
    let plan = match (arm.arm.as_deref(), arm.policy.as_deref()) {
        (None, None) => ArmPlan::Node,
        (None, Some("context")) => ArmPlan::Context,
        (None, Some("shared-match")) => ArmPlan::SharedMatch,
        (None, Some("larger")) => match params.zstd.upgraded() {
            Some(params) => ArmPlan::Zstd(params),
            None => return Err("The contexts of this node are the largest that there are.".to_owned()),
        },
        (_, Some(policy)) => {
            return Err(format!("There is no policy {policy:?}: use context, larger or shared-match."));
        }
        (Some(text), None) => match text.parse::<Arm>().map_err(|error| format!("{error}."))? {
            Arm::Zstd(of, Some(id)) if of == ZstdParams::default() => ArmPlan::Dictionary(id),
            arm if arm.dictionary().is_some() => {
                return Err("A stream with a dictionary begins before its account is known, as codec.streams has it: \
                            name the dictionary alone, as zstd:dict=ID."
                    .to_owned());
            }
            Arm::Zlib(params) => ArmPlan::Zlib(params),
            Arm::Zstd(params, _) => ArmPlan::Zstd(params),
            Arm::SharedMatch(_) => ArmPlan::SharedMatch,
            Arm::ZstdOnce { .. } | Arm::Prepared => {
                return Err(format!(
                    "{text:?} is not the stream that clients request: use zlib, zstd or shared-match."
                ));
            }
        },
    };
    let is_auto = matches!(streams, StreamCodec::Auto { .. });
    let needs_context = matches!(plan, ArmPlan::Context | ArmPlan::Zlib(_) | ArmPlan::Zstd(_));
    if needs_context && matches!(streams, StreamCodec::SharedMatch { .. }) {
        return Err("Streams of this node have no context: set codec.streams to auto or per-connection.".to_owned());
    }
    if plan == ArmPlan::SharedMatch && matches!(streams, StreamCodec::PerConnection) {
        return Err("Streams of this node cannot move to shared-match: set codec.streams to auto.".to_owned());
    }
    match plan {
        ArmPlan::Zlib(of) if of.window_bits > params.zlib.window_bits => Err(format!(
            "Streams of this node declare a window of {}: give window={0} or less.",
            params.zlib.window_bits
        )),
        ArmPlan::Zstd(of) => {
            let declared = params.zstd.window_log.max(if is_auto { ZSTD_WINDOW_LOG } else { 0 });
            match of.window_log > declared {
                true => {
                    Err(format!("Streams of this node declare a window of {declared}: give window={declared} or less."))
                }
                false => Ok(plan),
            }
        }
        _ => Ok(plan),
    }
}

/// The stream of a plan. Its contexts come out of the limit of `contexts`.
pub fn stream_of(plan: ArmPlan, contexts: &ContextPool) -> Result<ArmStream, String> {
    let wrong = |error: guildhall_codec::CodecError| format!("No context can be made: {error}.");
    let params = *contexts.params();
    let (zlib, zstd) = match plan {
        ArmPlan::Node | ArmPlan::Dictionary(_) => return Ok(ArmStream::Node),
        ArmPlan::Context => return Ok(ArmStream::Context),
        ArmPlan::SharedMatch => return Ok(ArmStream::SharedMatch),
        ArmPlan::Zlib(zlib) => (zlib, params.zstd),
        ArmPlan::Zstd(zstd) => (params.zlib, zstd),
    };
    let pool = contexts.variant(zlib, zstd).map_err(wrong)?;
    let stats = pool.stats();
    let (bytes, stream) = match plan {
        ArmPlan::Zlib(_) => (stats.zlib.slot_bytes, ArmStream::Zlib(pool.clone())),
        _ => (stats.zstd.slot_bytes, ArmStream::Zstd(pool.clone())),
    };
    if bytes > ARM_BYTES_MAX {
        return Err(format!(
            "It takes {} MiB per connection: choose smaller values, for at most {} MiB.",
            bytes >> 20,
            ARM_BYTES_MAX >> 20
        ));
    }
    pool.check().map_err(wrong)?;
    Ok(stream)
}

/// Dictionaries of an experiment whose arms name some; then every other arm is the node's stream without one of them.
///
/// # Errors
/// An arm has another kind, or the dictionaries cannot be tried together; with the position of the arm.
pub fn dictionaries_of(
    plans: &mut [ArmPlan],
    can_try: impl Fn(DictionaryId) -> Result<Encoding, String>,
) -> Result<Option<TriedDictionaries>, (usize, String)> {
    let mut encoding = None;
    for (at, plan) in plans.iter().enumerate() {
        let ArmPlan::Dictionary(id) = plan else { continue };
        let of_id = can_try(*id).map_err(|message| (at, message))?;
        if encoding.is_some_and(|encoding| encoding != of_id) {
            let message =
                format!("The dictionary {id} is for another encoding than the others: name one for the same.");
            return Err((at, message));
        }
        encoding = Some(of_id);
    }
    let Some(encoding) = encoding else { return Ok(None) };
    for (at, plan) in plans.iter_mut().enumerate() {
        match plan {
            ArmPlan::Node | ArmPlan::Dictionary(_) => {}
            // The same without a dictionary.
            ArmPlan::Zstd(params) if *params == ZstdParams::default() => *plan = ArmPlan::Node,
            ArmPlan::Context | ArmPlan::Zlib(_) | ArmPlan::Zstd(_) | ArmPlan::SharedMatch => {
                let message = "Beside an arm with a dictionary, another one is zstd:dict=ID or the node's own stream, \
                               without arm and policy: nothing else can differ.";
                return Err((at, message.to_owned()));
            }
        }
    }
    let of_plan = |plan: &ArmPlan| match plan {
        ArmPlan::Dictionary(id) => Some(*id),
        _ => None,
    };
    Ok(Some(TriedDictionaries { encoding, by_arm: plans.iter().map(of_plan).collect() }))
}

/// An experiment with dictionaries has its accounts from the request for their list, which has no session.
pub fn check_audience(audience: &ExperimentAudience) -> Result<(), ExperimentFault> {
    let field = |name: &str, what: &str| {
        let message = format!("GET /dictionaries has no {what}: leave it out of an experiment with dictionaries.");
        Err(ExperimentFault::Field(format!("audience.{name}"), message))
    };
    match audience {
        ExperimentAudience { platforms, .. } if !platforms.is_empty() => field("platforms", "platform"),
        ExperimentAudience { guild_id: Some(_), .. } => field("guild_id", "guild"),
        ExperimentAudience { .. } => Ok(()),
    }
}

/// Checks the arms of one experiment against each other: each client has to be able to get each of them.
pub fn check_containers(plans: &[ArmPlan]) -> Result<(), ExperimentFault> {
    let has_zlib = plans.iter().any(|plan| matches!(plan, ArmPlan::Zlib(_)));
    let has_zstd = plans.iter().any(|plan| matches!(plan, ArmPlan::Zstd(_)));
    match has_zlib && has_zstd {
        true => Err(ExperimentFault::Field(
            "arms".to_owned(),
            "No client requests zlib and zstd at once: make an experiment for each.".to_owned(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::GuildId;
    use serde_json::json;

    fn new(name: &str, permille: u16) -> NewExperiment {
        let arms = json!([{"name": "control"}, {"name": "fast", "arm": "zstd:level=1"}]);
        serde_json::from_value(json!({"name": name, "permille": permille, "arms": arms})).unwrap()
    }

    fn change(permille: u16) -> ExperimentChange {
        ExperimentChange { permille: Some(permille), start: false }
    }

    #[test]
    fn experiments_of_a_layer_get_places_of_their_own_and_ended_ones_leave_theirs() {
        let mut document = Document::default();
        assert_eq!(document.create(&new("a", 400), "key", 1).unwrap().first_slot, 0);
        assert_eq!(document.create(&new("b", 400), "key", 1).unwrap().first_slot, 400);
        let full = document.create(&new("c", 400), "key", 1).unwrap_err();
        assert!(full.to_string().contains("no room for 400 permille"), "{full}");
        let overlap = document.clone().change("a", &change(500), "key", 2).unwrap_err();
        assert!(overlap.to_string().contains("have accounts in common"), "{overlap}");
        assert_eq!(document.change("b", &change(600), "key", 2).unwrap().permille, 600);
        assert!(
            document.change("b", &change(601), "key", 2).unwrap_err().to_string().contains("room for 600 permille")
        );
        document.stop("a", &ExperimentStop::default(), "key", 3).unwrap();
        assert_eq!(document.create(&new("c", 400), "key", 4).unwrap().first_slot, 0);
        let ids: Vec<u64> = document.experiments.iter().map(|of| of.id).collect();
        assert_eq!(ids, [0, 1, 2]);
    }

    #[test]
    fn an_experiment_ends_once_and_its_name_stays_taken_until_it_is_removed() {
        let mut document = Document::default();
        document.create(&new("a", 100), "key", 1).unwrap();
        assert!(matches!(document.create(&new("a", 1), "key", 1), Err(ExperimentFault::Conflict(_))));
        assert!(matches!(document.remove("a"), Err(ExperimentFault::Conflict(_))));
        let rolled = document.roll_back(0, "worse", 9).unwrap();
        assert_eq!((rolled.state, rolled.reason.as_deref()), (ExperimentState::RolledBack, Some("worse")));
        assert_eq!((rolled.changed_by.as_str(), rolled.reconnected), ("guardrail", true));
        assert_eq!(document.roll_back(0, "again", 10), None);
        assert!(document.stop("a", &ExperimentStop { reconnect: true, reason: None }, "key", 10).is_err());
        assert!(document.change("a", &change(5), "key", 10).is_err());
        document.create(&new("b", 100), "key", 1).unwrap();
        let twice = document.change("b", &ExperimentChange { permille: None, start: true }, "key", 2).unwrap_err();
        assert!(twice.to_string().contains("runs already"), "{twice}");
        document.stop("b", &ExperimentStop::default(), "key", 3).unwrap();
        let again = document.stop("b", &ExperimentStop::default(), "key", 4).unwrap_err();
        assert!(again.to_string().contains("give `reconnect`"), "{again}");
        document.remove("a").unwrap();
        assert!(matches!(document.remove("a"), Err(ExperimentFault::Unknown)));
    }

    #[test]
    fn the_stored_form_reads_as_it_was_written_and_without_later_fields() {
        let mut document = Document::default();
        document.create(&NewExperiment { draft: true, ..new("a", 100) }, "key", 1).unwrap();
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        assert_eq!(serde_json::from_str::<Document>("{}").unwrap(), Document::default());
    }

    #[test]
    fn arms_that_this_node_cannot_serve_are_refused_with_the_remedy() {
        let (contexts, auto) = (
            ContextPool::default(),
            StreamCodec::Auto { history_bytes_max: 1 << 20, check_one_in: None, cpu_percent: 25 },
        );
        let shared = StreamCodec::SharedMatch { history_bytes_max: 1 << 20, check_one_in: None };
        let arm = |arm: Option<&str>, policy: Option<&str>| ExperimentArm {
            name: "x".to_owned(),
            weight: 1,
            arm: arm.map(str::to_owned),
            policy: policy.map(str::to_owned),
        };
        for (arm, streams, because) in [
            (arm(Some("zstd:window=22"), None), auto, "give window=21 or less"),
            (arm(Some("zstd:window=19"), None), StreamCodec::PerConnection, "give window=18 or less"),
            (arm(Some("zstd:level=3,dict=00112233445566778899aabbccddeeff"), None), auto, "as zstd:dict=ID"),
            (arm(Some("shared-match:dict=00112233445566778899aabbccddeeff"), None), auto, "as zstd:dict=ID"),
            (arm(Some("zstd-once"), None), auto, "use zlib, zstd or shared-match"),
            (arm(Some("prepared"), None), auto, "use zlib, zstd or shared-match"),
            (arm(Some("brotli"), None), auto, "use zlib, zstd"),
            (arm(None, Some("fast")), auto, "use context, larger or shared-match"),
            (arm(None, Some("shared-match")), StreamCodec::PerConnection, "set codec.streams to auto"),
            (arm(None, Some("context")), shared, "auto or per-connection"),
        ] {
            let refused = plan_of(&arm, streams, &contexts).unwrap_err();
            assert!(refused.contains(because), "{arm:?}: {refused}");
        }
        let huge: ArmPlan = plan_of(&arm(Some("zstd:chain=28,hash=28"), None), auto, &contexts).unwrap();
        assert!(stream_of(huge, &contexts).unwrap_err().contains("MiB per connection"));
        let plans = ["zlib", "zstd"].map(|text| plan_of(&arm(Some(text), None), auto, &contexts).unwrap());
        assert!(check_containers(&plans).is_err() && check_containers(&plans[..1]).is_ok());
        assert!(stream_of(plan_of(&arm(None, Some("larger")), auto, &contexts).unwrap(), &contexts).is_ok());
    }

    #[test]
    fn dictionaries_are_tried_together_only_where_nothing_else_differs() {
        let [json, etf, gone] = [1, 2, 3].map(|byte| DictionaryId::of(&[byte]));
        let can_try = |id: DictionaryId| match id {
            _ if id == json => Ok(Encoding::Json),
            _ if id == etf => Ok(Encoding::Etf),
            _ => Err(format!("There is no dictionary {id}: stage it first.")),
        };
        let tried = |mut plans: Vec<ArmPlan>| dictionaries_of(&mut plans, can_try).map(|tried| (plans, tried));
        let of = |by_arm: Vec<Option<DictionaryId>>| Some(TriedDictionaries { encoding: Encoding::Json, by_arm });
        let with = ArmPlan::Dictionary;
        assert_eq!(tried(vec![ArmPlan::Context, ArmPlan::Node]).unwrap().1, None);
        for control in [ArmPlan::Node, ArmPlan::Zstd(ZstdParams::default())] {
            let expected = (vec![ArmPlan::Node, with(json)], of(vec![None, Some(json)]));
            assert_eq!(tried(vec![control, with(json)]), Ok(expected));
        }
        for (plans, at, because) in [
            (vec![ArmPlan::Node, with(gone)], 1, "stage it first"),
            (vec![with(json), with(etf)], 1, "another encoding"),
            (vec![ArmPlan::Context, with(json)], 0, "nothing else can differ"),
            (vec![with(json), ArmPlan::SharedMatch], 1, "nothing else can differ"),
            (vec![with(json), ArmPlan::Zlib(ZlibParams::default())], 1, "nothing else can differ"),
            (vec![with(json), ArmPlan::Zstd(ZstdParams { level: 3, ..ZstdParams::default() })], 1, "nothing else"),
        ] {
            let (refused_at, message) = tried(plans.clone()).unwrap_err();
            assert!(refused_at == at && message.contains(because), "{plans:?}: {refused_at} {message}");
        }
        let audience = ExperimentAudience { bots: Some(true), ..ExperimentAudience::default() };
        assert!(check_audience(&audience).is_ok());
        for audience in [
            ExperimentAudience { platforms: vec!["web".to_owned()], ..audience.clone() },
            ExperimentAudience { guild_id: Some(GuildId::new(7)), ..audience },
        ] {
            assert!(check_audience(&audience).unwrap_err().to_string().contains("leave it out"));
        }
    }
}
