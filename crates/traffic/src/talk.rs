//! Conversations in a channel, and the emoji, links and mentions in messages.
//!
//! Owns        the participants of each conversation, its position in the chat, and the additions to messages.

use crate::chat::Chat;
use guildhall_stdx::Rng;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Simultaneous conversations in a channel.
const LIVE_MAX: usize = 6;
const EMOJI: [&str; 12] = ["😂", "🔥", "❤️", "👍", "💀", "😭", "👀", "✨", "🙏", "😅", "🎉", "🤔"];
const OTHER_LANGUAGES: [&str; 12] = [
    "das war gestern wirklich schön, danke für die Einladung",
    "¿alguien sabe a qué hora empieza mañana?",
    "ça marche chez moi, mais seulement après un redémarrage",
    "кто-нибудь уже пробовал новую версию?",
    "今日の配信は何時からですか?",
    "오늘 저녁에 같이 하실 분?",
    "nie wiem, sprawdzę później i dam znać",
    "não consigo entrar, alguém pode me ajudar?",
    "yarın görüşürüz o zaman",
    "明天再说吧,我先睡了",
    "مين موجود الحين؟",
    "καλημέρα σε όλους, τι κάνετε;",
];
const SITES: [&str; 6] = [
    "https://video.example/watch?v=",
    "https://git.example/guild/hall/issues/",
    "https://news.example/2026/11/",
    "https://pics.example/i/",
    "https://wiki.example/w/index.php?curid=",
    "https://music.example/track/",
];

/// A group of participants and their position in the chat.
#[derive(Debug)]
struct Conversation {
    people: Vec<usize>,
    line: usize,
    left: u64,
}

/// The conversations of a channel.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    live: Vec<Conversation>,
}

impl Talk {
    /// Author and text of the next message. `draw` draws from the members who can view the channel; at most `live_max`
    /// conversations are active.
    pub fn next<'a>(
        &mut self,
        rng: &mut Rng,
        draw: impl Fn(&mut Rng) -> usize,
        live_max: usize,
        chat: &'a Chat,
    ) -> (usize, Cow<'a, str>) {
        while self.live.len() < live_max.clamp(1, LIVE_MAX) {
            let people = (0..2 + rng.below(3)).map(|_| draw(rng)).collect();
            self.live.push(Conversation { people, line: rng.next_u64() as usize >> 24, left: 8 + rng.below(30) });
        }
        let at = rng.below(self.live.len() as u64) as usize;
        let talk = &mut self.live[at];
        let who = talk.people[rng.below(talk.people.len() as u64) as usize];
        let line = chat.line(talk.line);
        talk.line += 1;
        talk.left -= 1;
        if talk.left == 0 {
            self.live.swap_remove(at);
        }
        (who, line)
    }
}

/// Message content: the text, or something in another language, with additions.
pub(crate) fn written(rng: &mut Rng, words: Cow<'_, str>, custom_emoji: &[(String, u64)]) -> String {
    let mut content = words.into_owned();
    if rng.chance(0.04) {
        content = (*rng.pick(&OTHER_LANGUAGES).unwrap_or(&"")).to_owned();
    }
    if rng.chance(0.12) {
        let emoji = rng.pick(&EMOJI).unwrap_or(&"👍");
        let times = 1 + rng.below(3) / 2;
        content.push(' ');
        (0..times).for_each(|_| content += emoji);
    }
    if rng.chance(0.05)
        && let Some((name, id)) = rng.pick(custom_emoji)
    {
        content += &format!(" <:{name}:{id}>");
    }
    if rng.chance(0.04) {
        let site = rng.pick(&SITES).unwrap_or(&"");
        content += &format!(" {site}{:x}", rng.next_u64() >> 20);
    }
    content
}

/// Embed of a bot's message.
pub(crate) fn embed(rng: &mut Rng, words: &str, timestamp: &str) -> Value {
    json!({
        "type": "rich", "title": format!("#{} {}", rng.below(5000), words.split('.').next().unwrap_or(words)),
        "description": words, "color": rng.below(1 << 24), "url": format!("https://git.example/guild/hall/{}", rng.below(9999)),
        "timestamp": timestamp, "footer": {"text": format!("build {}", rng.below(100_000))},
        "fields": [
            {"name": "State", "value": if rng.chance(0.5) { "passed" } else { "failed" }, "inline": true},
            {"name": "Took", "value": format!("{} s", rng.below(900)), "inline": true},
        ],
    })
}

/// Emoji of a reaction.
pub(crate) fn reaction(rng: &mut Rng) -> &'static str {
    // Earlier ones more often.
    let upto = rng.below(EMOJI.len() as u64) + 1;
    EMOJI[rng.below(upto) as usize]
}
