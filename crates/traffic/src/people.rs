//! Accounts: names, activity distribution and presences.

use guildhall_model::{ClientStatus, Platform, Presence, Status, User, UserId};
use guildhall_stdx::Rng;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Share of accounts that are bots.
const BOTS: f64 = 0.02;
const FIRST: [&str; 24] = [
    "ka", "lo", "mi", "ra", "tes", "vel", "dor", "an", "bri", "chu", "fen", "gal", "hol", "is", "jun", "nor", "pim",
    "quo", "sha", "tor", "ul", "wen", "yar", "zo",
];
const LAST: [&str; 20] = [
    "bit", "den", "fox", "gor", "ha", "ix", "kin", "la", "mar", "nia", "ock", "pa", "ri", "sto", "tus", "um", "va",
    "wick", "ya", "zen",
];
/// Names that are not ASCII.
const OTHER: [&str; 10] = ["Łukasz", "Zoë", "Сергей", "美咲", "José", "Jürgen", "Ελένη", "محمد", "지우", "✨luna✨"];
const GAMES: [&str; 16] = [
    "Lanterns of Vey",
    "Stonebrook",
    "Cargo Cult Racing",
    "Hex & Hammer",
    "Night Ferry",
    "Orbital Gardens",
    "Pocket Rally",
    "Quarry",
    "Rook's Gambit Online",
    "Sable Coast",
    "The Long Portage",
    "Tin Soldiers",
    "Undertow",
    "Violet Hour",
    "Wayfarer's Rest",
    "Yonder II",
];
const SONGS: [&str; 8] = [
    "Low Tide",
    "Half a Map",
    "The Glass Orchard",
    "Northbound",
    "Paper Lions",
    "Salt & Cedar",
    "Second Sun",
    "Slow Signal",
];

/// An exponent near one: the most active of 400 members writes one message in seven, the top ten 40 %.
const SKEW: f64 = 1.0;

/// Draws from `0..n`, small numbers most often: Zipf's law, by table.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Cumulative probability of each number, in units of 2⁻³².
    upto: Vec<u32>,
}

impl Zipf {
    /// A distribution over `0..count`; `count` must not be 0.
    pub fn new(count: usize) -> Self {
        Self::weighted((1..=count).map(|rank| (rank as f64).powf(-SKEW)).collect())
    }

    /// Over as many numbers as there are weights, of which there is one at least.
    pub fn weighted(weights: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let upto = weights.iter().map(|weight| {
            sum += weight;
            (sum / total * f64::from(u32::MAX)) as u32
        });
        Self { upto: upto.collect() }
    }

    pub fn draw(&self, rng: &mut Rng) -> usize {
        let draw = rng.next_u64() as u32;
        self.upto.partition_point(|upto| *upto < draw).min(self.upto.len() - 1)
    }
}

fn name(rng: &mut Rng) -> String {
    let mut name = String::new();
    for _ in 0..1 + rng.below(2) {
        name += rng.pick(&FIRST).unwrap_or(&"x");
    }
    name += rng.pick(&LAST).unwrap_or(&"y");
    match rng.below(4) {
        0 => name += &rng.below(1000).to_string(),
        1 => name.insert(name.len() / 2, '_'),
        _ => {}
    }
    name
}

/// An account created at a random time in the years before the traffic starts.
pub(crate) fn user(rng: &mut Rng, id: UserId) -> Arc<User> {
    let username = name(rng);
    let mut user = User::new(id, &username);
    user.bot = rng.chance(BOTS);
    user.global_name = match rng.below(100) {
        0..60 => Some(capital(&username)),
        60..70 => rng.pick(&OTHER).map(|name| (*name).to_owned()),
        _ => None,
    };
    if rng.chance(0.8) {
        let animated = if rng.chance(0.05) { "a_" } else { "" };
        user.avatar = Some(format!("{animated}{:016x}{:016x}", rng.next_u64(), rng.next_u64()));
    }
    user.public_flags = if rng.chance(0.3) { 64 << rng.below(3) } else { 0 };
    Arc::new(user)
}

/// A guild-specific name.
pub(crate) fn nick(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => (*rng.pick(&OTHER).unwrap_or(&"Zoë")).to_owned(),
        1 => format!("{} [afk]", capital(&name(rng))),
        _ => capital(&name(rng)),
    }
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Presence of an online user; half of them have no activity.
pub(crate) fn presence(rng: &mut Rng, unix_ms: i64) -> Arc<Presence> {
    let status = match rng.below(10) {
        0..5 => Status::Online,
        5..8 => Status::Idle,
        _ => Status::Dnd,
    };
    let mut client_status = ClientStatus::default();
    let platform = [Platform::Desktop, Platform::Desktop, Platform::Mobile, Platform::Web][rng.below(4) as usize];
    client_status.raise(platform, status);
    if rng.chance(0.15) {
        client_status.raise(Platform::Mobile, Status::Online);
    }
    let mut activities = Vec::new();
    if rng.chance(0.2) {
        activities.push(map(json!({
            "name": "Custom Status", "type": 4, "state": rng.pick(&["brb", "☕ slowly", "learning things", "ask me tomorrow"]),
            "id": "custom", "created_at": unix_ms,
        })));
    }
    match rng.below(10) {
        0..3 => activities.push(map(json!({
            "name": rng.pick(&GAMES), "type": 0, "created_at": unix_ms, "id": format!("{:x}", rng.next_u64()),
            "timestamps": {"start": unix_ms - rng.below(10_000_000) as i64},
        }))),
        3 => activities.push(map(json!({
            "name": "Music", "type": 2, "created_at": unix_ms, "id": format!("{:x}", rng.next_u64()), "flags": 48,
            "details": rng.pick(&SONGS), "state": name(rng),
            "timestamps": {"start": unix_ms, "end": unix_ms + 120_000 + rng.below(180_000) as i64},
        }))),
        _ => {}
    }
    Arc::new(Presence { status, activities, client_status })
}

/// The object of a `json!` with braces.
pub(crate) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_do_most() {
        let (zipf, mut rng) = (Zipf::new(400), Rng::new(1));
        let draws: Vec<usize> = (0..20_000).map(|_| zipf.draw(&mut rng)).collect();
        let share = |below| draws.iter().filter(|n| **n < below).count() * 100 / draws.len();
        assert!((12..18).contains(&share(1)) && (40..50).contains(&share(10)), "{} {}", share(1), share(10));
        assert!(draws.iter().any(|n| *n > 390) && draws.iter().all(|n| *n < 400));
    }
}
