//! Tests of sittings: what each persona's client receives.

use guildhall_codec::{DecodeLimits, decode_etf_from_gateway};
use guildhall_traffic::{Chat, Event, PERSONAS, Persona, Traffic};
use serde_json::Value;
use std::collections::BTreeMap;

/// The first minutes of a sitting.
fn sitting(persona: Persona, seed: u64) -> Vec<Event> {
    Traffic::sitting(persona, seed, Chat::built_in()).take_while(|event| event.at_ms < 300_000).collect()
}

fn json(event: &Event) -> Value {
    serde_json::from_slice(&event.body_json).expect("a JSON body")
}

fn names(events: &[Event]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    events.iter().for_each(|event| *names.entry(event.name).or_default() += 1);
    names
}

#[test]
fn s1_the_same_seed_gives_the_same_bytes() {
    let bytes = |persona, seed| -> Vec<u8> {
        sitting(persona, seed).iter().flat_map(|event| [&event.body_json[..], &event.body_etf[..]].concat()).collect()
    };
    for persona in PERSONAS {
        assert!(bytes(persona, 1) == bytes(persona, 1), "{}", persona.name);
        assert!(bytes(persona, 1) != bytes(persona, 2), "{}", persona.name);
    }
}

#[test]
fn a_user_begins_with_ready_and_a_bot_with_its_guilds() {
    for persona in PERSONAS {
        let events = sitting(persona, 1);
        let names = names(&events);
        if persona.is_bot {
            assert!(events[..persona.guilds].iter().all(|event| event.name == "GUILD_CREATE"), "{names:?}");
            assert_eq!(names.get("GUILD_MEMBER_LIST_UPDATE"), None);
        } else {
            let ready = json(&events[0]);
            assert_eq!((events[0].name, names["READY"]), ("READY", 1));
            assert_eq!(ready["guilds"].as_array().map(Vec::len), Some(persona.guilds));
        }
        assert!(names["MESSAGE_CREATE"] > 20, "{}: {names:?}", persona.name);
    }
}

#[test]
fn each_passive_update_comes_in_both_forms_about_the_same_channels() {
    for persona in PERSONAS {
        let events = sitting(persona, 1);
        let passive: Vec<&Event> = events.iter().filter(|event| event.name.starts_with("PASSIVE_UPDATE")).collect();
        assert_eq!(passive.is_empty(), persona.is_bot, "{}", persona.name);
        for pair in passive.chunks(2) {
            let [whole, delta] = pair else { panic!("a form is missing") };
            assert_eq!((whole.name, delta.name), ("PASSIVE_UPDATE_V1", "PASSIVE_UPDATE_V2"));
            let (whole, delta) = (json(whole), json(delta));
            assert_eq!(whole["guild_id"], delta["guild_id"]);
            let channels = whole["channels"].as_array().expect("all channels");
            for channel in delta["updated_channels"].as_array().expect("changed channels") {
                assert!(channels.contains(channel), "{channel} is not in the complete state");
            }
        }
    }
}

#[test]
fn ready_has_equal_contents_in_both_encodings() {
    let event = &sitting(PERSONAS[1], 1)[0];
    let mut term = vec![131];
    term.extend_from_slice(&event.body_etf);
    let etf = decode_etf_from_gateway(&term, DecodeLimits::default()).expect("READY in ETF");
    let (json, ids) = (json(event), |value: &Value| value.to_string().replace('"', ""));
    assert_eq!(ids(&json["guilds"][0]["channels"][0]), ids(&etf["guilds"][0]["channels"][0]));
    assert_eq!(json["session_id"], etf["session_id"]);
}
