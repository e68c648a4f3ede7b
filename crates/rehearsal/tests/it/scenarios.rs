//! Each scenario of the program: a right client passes it, and a wrong one fails for its mistake.

use crate::client::{Client, Wrong};
use guildhall_codec::Encoding;
use guildhall_rehearsal::{Compression, Params, Scenario, Stage, Verdict, built_in, built_in_names, play};
use std::sync::Arc;
use tokio::{sync::Semaphore, task::JoinSet};

/// A heartbeat that waits for a second because of other plays would be no mistake of the client.
const PLAYS_MAX: usize = 40;

async fn rehearse(scenario: &Scenario, encoding: Encoding, compression: Compression, wrong: Wrong) -> Verdict {
    let mut stage = Stage::open(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = Client { rest: stage.address(), encoding, compression, wrong, seen: Arc::default() };
    let mut task = None;
    let start = async {
        task = Some(tokio::spawn(client.run()));
        std::future::pending().await
    };
    let verdict = play(scenario, &mut stage, Params::default(), start).await;
    let task = task.unwrap();
    task.abort();
    if let Ok(Err(error)) = task.await
        && wrong == Wrong::Nothing
    {
        panic!("{}: the client ended: {error:#}\n{}", scenario.name, verdict.text());
    }
    verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_client_passes_every_scenario_in_every_transport() {
    let (mut plays, places) = (JoinSet::new(), Arc::new(Semaphore::new(PLAYS_MAX)));
    for name in built_in_names() {
        for (encoding, compression) in [
            (Encoding::Json, Compression::None),
            (Encoding::Json, Compression::Zlib),
            (Encoding::Json, Compression::Zstd),
            (Encoding::Etf, Compression::None),
            (Encoding::Etf, Compression::Zlib),
            (Encoding::Etf, Compression::Zstd),
        ] {
            let (scenario, places) = (built_in(name).unwrap(), places.clone());
            plays.spawn(async move {
                let _place = places.acquire().await.unwrap();
                rehearse(&scenario, encoding, compression, Wrong::Nothing).await
            });
        }
    }
    let verdicts = plays.join_all().await;
    let failed: Vec<_> = verdicts.iter().filter(|of| !of.is_passed()).map(Verdict::text).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    for verdict in &verdicts {
        let client = verdict.client.as_ref().unwrap();
        assert_eq!(client.library.as_deref().unwrap_or("own"), "own");
        // P2
        assert!(!serde_json::to_string(verdict).unwrap().contains("secret"), "{}", verdict.scenario);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_client_fails_for_its_mistake() {
    let fatal = "has to stay away";
    let table = [
        ("plain", Wrong::NoHeartbeat, "no HEARTBEAT within"),
        ("plain", Wrong::IdentifiesTwice, "4005"),
        ("op-1", Wrong::IgnoresOp1, "no HEARTBEAT within"),
        ("op-7", Wrong::ClosesWith1000, "closed with 1000, which ends the session"),
        ("op-7", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("op-7", Wrong::GivesUp, "did not connect again"),
        ("op-7", Wrong::ForgetsSeq, "RESUME has seq=1"),
        ("op-7-first", Wrong::GivesUp, "did not connect again"),
        ("op-9-true", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("op-9-false", Wrong::GivesUp, "no IDENTIFY within"),
        ("replay", Wrong::ForgetsSeq, "RESUME has seq=1"),
        ("resume-refused", Wrong::AlwaysResumes, "more than 120 payloads"),
        ("resume-elsewhere", Wrong::ResumesAtFirstUrl, "not to the resume_gateway_url"),
        ("close-4000", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("close-4001", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("close-4002", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("close-4003", Wrong::GivesUp, "did not connect again"),
        ("close-4005", Wrong::GivesUp, "did not connect again"),
        ("close-4007", Wrong::GivesUp, "did not connect again"),
        ("close-4008", Wrong::GivesUp, "did not connect again"),
        ("close-4009", Wrong::GivesUp, "did not connect again"),
        ("close-4004", Wrong::ReconnectsAlways, fatal),
        ("close-4010", Wrong::ReconnectsAlways, fatal),
        ("close-4011", Wrong::ReconnectsAlways, fatal),
        ("close-4012", Wrong::ReconnectsAlways, fatal),
        ("close-4013", Wrong::ReconnectsAlways, fatal),
        ("close-4014", Wrong::ReconnectsAlways, fatal),
        ("drop-fin", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("drop-reset", Wrong::NeverResumes, "IDENTIFY, and not RESUME"),
        ("lost-ack", Wrong::IgnoresLostAcks, "did not end the connection"),
        ("lost-ack", Wrong::ClosesWith1000, "closed with 1000, which ends the session"),
        ("half-open", Wrong::IgnoresLostAcks, "did not connect again"),
        ("split-bytes", Wrong::NoPartialFrames, ""),
        ("fragments", Wrong::NoFragments, ""),
        ("glued", Wrong::OneFramePerRead, "the last heartbeat has d="),
        ("late-flush", Wrong::NoPartialMessages, "connection"),
        ("slow", Wrong::Impatient, "closed with code 4901"),
        ("late-hello", Wrong::NoHeartbeat, "no HEARTBEAT within"),
        ("big-ready", Wrong::SmallMessages, ""),
        ("sequence-gap", Wrong::CountsContiguous, "the last heartbeat has d="),
        ("repeat", Wrong::CountsAll, "and the last dispatch has s="),
        ("unknown-op", Wrong::StopsAtUnknown, "closed with code 4904"),
        ("unknown-event", Wrong::StopsAtUnknown, "the last heartbeat has d="),
        ("429-retry-after", Wrong::ImpatientWithRest, "before the time that the refusal named"),
        ("429-reset-after", Wrong::ImpatientWithRest, "before the time that the refusal named"),
        ("429-both", Wrong::ImpatientWithRest, "before the time that the refusal named"),
        ("429-global", Wrong::ImpatientWithRest, "before the time that the refusal named"),
        ("upgrade-429", Wrong::ImpatientWithRest, "before the time that the refusal named"),
        ("upgrade-503", Wrong::GivesUp, "did not repeat the refused request"),
    ];
    for name in built_in_names() {
        assert!(table.iter().any(|(of, ..)| *of == name), "no wrong client for {name}");
    }
    let mut plays = JoinSet::new();
    for (name, wrong, words) in table {
        plays.spawn(async move {
            // A stream that lacks a piece is broken, and not a number behind.
            let is_alone = wrong == Wrong::OneFramePerRead;
            let compression = if is_alone { Compression::None } else { Compression::Zlib };
            let verdict = rehearse(&built_in(name).unwrap(), Encoding::Json, compression, wrong).await;
            let reason = verdict.reason.clone().unwrap_or_default();
            match verdict.is_passed() || !reason.contains(words) {
                true => Some(format!("{wrong:?}, expected {words:?}: {}", verdict.text())),
                false => None,
            }
        });
    }
    let failed: Vec<_> = plays.join_all().await.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_connects_and_one_whose_process_ends_fail() {
    let scenario = built_in("plain").unwrap();
    let mut stage = Stage::open(([127, 0, 0, 1], 0).into()).await.unwrap();
    let params = Params { patience: 0.01, ..Params::default() };
    let verdict = play(&scenario, &mut stage, params, std::future::pending()).await;
    assert!(verdict.reason.unwrap().contains("no client connected within"));
    let verdict = play(&scenario, &mut stage, params, std::future::ready("exit status: 3".to_owned())).await;
    assert!(verdict.reason.unwrap().contains("ended early: exit status: 3"));
}
