//! Phrases: sentences with slots, by what they do in a conversation.
//!
//! Slots: `{name}` `{thing}` `{action}` `{good}` `{bad}` `{tip}` from the topic; `{past}` `{soon}` `{who}` `{n}` from
//! here.

/// Function of a line in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Starts a conversation.
    Open,
    /// Asks a question.
    Ask,
    /// Answers a question.
    Answer,
    /// Adds something.
    Tell,
    /// Agrees with the last line.
    Agree,
    /// Disagrees with the last line.
    Doubt,
    /// Laughs, or just makes a sound.
    React,
    /// Ends the conversation.
    Close,
}

impl Move {
    /// English sentences for it.
    pub fn phrases(self) -> &'static [&'static str] {
        match self {
            Self::Open => &[
                "ok so {name} – has anyone else tried {thing}?",
                "Finally got around to {name} {past}, and {thing} is {good}.",
                "morning all, who wants to {action}?",
                "hot take: {name} is {good} but {thing} is {bad}",
                "I spent {n} hours on {thing} {past} and I regret nothing",
                "Is it just me or is {thing} {bad} since {past}?",
                "quick question about {name}: how do you deal with {thing}",
                "Good evening! I'm planning to {action} {soon}. Anyone joining?",
                "so {who} told me to look at {thing}. {good}. thank you.",
                "unpopular opinion but {thing} in {name} is {bad}",
                "**{name}** update: {thing} is {good} now",
            ],
            Self::Ask => &[
                "what do you use for {thing}?",
                "did anybody manage to {action}?",
                "Would you recommend {name} to someone who thinks {thing} is {bad}?",
                "how long did that take you?",
                "wait, {name}? really?",
                "@{who} weren't you going to {action} {soon}?",
                "Does that also work with {name}?",
                "any tips for {thing}? mine is {bad}",
                "who's in to {action} {soon}?",
                "is {thing} still {bad} or did they change that?",
            ],
            Self::Answer => &[
                "{tip}",
                "I'd say {tip}",
                "about {n} hours, but {thing} took most of it",
                "Easy: {tip}. Took me {n} tries to figure that out.",
                "yes! {past}, with {who}. it was {good}",
                "no, {thing} was {bad} so I gave up",
                "depends. For {name} it's {good}, otherwise {bad}",
                "I asked the same thing {past} and somebody said: {tip}",
                "> {tip}\nthis worked for me",
                "{name}, always {name}.",
                "not yet, I want to {action} first",
            ],
            Self::Tell => &[
                "{thing} is {good} once you get used to it",
                "I'm going to {action} {soon}",
                "They really should do something about {thing}, it's {bad}.",
                "we tried to {action} {past} and ended up with {thing} instead",
                "also {thing}. {thing}!",
                "My record is {n}, {who} has {n}.",
                "reminds me of {name}",
                "there's a long write-up somewhere, the short version: {tip}",
                "Three things I learned:\n1. {tip}\n2. {thing} is {good}\n3. never {action} when you are tired",
                "nobody talks about {thing} and I don't understand why, it's {good}",
                "{soon} I'll {action}, no excuses this time",
                "spoiler: ||{thing} is {bad}||",
                "*{n} minutes later* ok {thing} is {good}",
            ],
            Self::Agree => &[
                "this",
                "exactly",
                "same here",
                "yes!! {thing} especially",
                "agreed, {thing} is {good}",
                "100%",
                "you're right, {tip}",
                "can confirm",
                "+1, {name} is {good}",
                "couldn't have said it better",
            ],
            Self::Doubt => &[
                "hmm, I don't know. {thing} seemed {bad} to me",
                "really? for me {thing} is {good}",
                "Counterpoint: {name}.",
                "no way, {thing} is {bad}",
                "I want to believe you but {thing} was {bad} {past}",
                "that's what they said about {name} too",
                "eh, maybe after I {action}",
            ],
            Self::React => &[
                "haha",
                "lol",
                "😂",
                "wow",
                "nice",
                "oof",
                "👀",
                "hahaha {thing}",
                "brb",
                "ok that's {good}",
                "wait what",
                "…",
                "rip",
                "❤️",
                "omg",
                "gg",
            ],
            Self::Close => &[
                "ok I have to go, will {action} {soon}",
                "Good night everyone 🌙",
                "thanks, that helped a lot!",
                "back to work. keep me posted about {thing}",
                "solved it! {tip}",
                "let's continue {soon}",
                "that's enough {name} for today",
            ],
        }
    }
}

pub(super) const PAST: &[&str] = &[
    "yesterday",
    "last night",
    "last week",
    "this morning",
    "over the weekend",
    "on Monday",
    "two days ago",
    "earlier",
];
pub(super) const SOON: &[&str] =
    &["tonight", "tomorrow", "this weekend", "on Friday", "after work", "next month", "in the morning", "later"];
pub(super) const WHO: &[&str] = &[
    "my sister",
    "a friend",
    "Jonas",
    "the mods",
    "Priya",
    "someone here",
    "my roommate",
    "Elena",
    "our team",
    "the quiz crew",
];

/// Another language some people write in: whole sentences per move, with `{name}` as the only slot.
#[derive(Debug)]
pub(super) struct Language {
    pub ask: &'static [&'static str],
    pub tell: &'static [&'static str],
    pub react: &'static [&'static str],
}

impl Language {
    /// Sentences for `step`, or for a similar step if it has none.
    pub fn phrases(&self, step: Move) -> &'static [&'static str] {
        match step {
            Move::Open | Move::Ask => self.ask,
            Move::Answer | Move::Tell | Move::Doubt | Move::Close => self.tell,
            Move::Agree | Move::React => self.react,
        }
    }
}

pub(super) const LANGUAGES: &[Language] = &[
    Language {
        ask: &[
            "Hat schon jemand {name} ausprobiert?",
            "Wer ist heute Abend dabei?",
            "Weiß jemand, wann es weitergeht?",
            "Ist {name} wirklich so gut, wie alle sagen?",
        ],
        tell: &[
            "Ich finde {name} großartig, ehrlich gesagt.",
            "Bei mir hat es erst nach dem dritten Versuch geklappt.",
            "Das müssen wir unbedingt wiederholen!",
            "Schönes Wochenende euch allen 🌻",
        ],
        react: &["genau so", "haha, stimmt", "läuft", "schön!"],
    },
    Language {
        ask: &[
            "Quelqu'un a déjà essayé {name} ?",
            "On se retrouve à quelle heure demain ?",
            "C'est moi ou {name} a changé ?",
        ],
        tell: &[
            "Franchement, {name}, c'était génial.",
            "J'ai passé tout l'après-midi dessus, ça valait le coup.",
            "À mon avis il vaut mieux commencer doucement.",
            "Bonne soirée à tous, à demain !",
        ],
        react: &["mdr", "carrément", "trop bien 😄", "ça marche"],
    },
    Language {
        ask: &["¿Alguien ha probado {name}?", "¿A qué hora empezamos mañana?", "¿Soy la única que prefiere {name}?"],
        tell: &[
            "La verdad es que {name} me encantó.",
            "Ayer lo intenté tres veces y por fin salió.",
            "Yo empezaría por lo más fácil, sin prisa.",
            "¡Gracias a todos, qué buena comunidad!",
        ],
        react: &["jajaja", "totalmente", "qué bien", "eso mismo 👏"],
    },
    Language {
        ask: &["Alguém já testou {name}?", "Vai ter encontro no sábado?", "Como vocês fazem isso no celular?"],
        tell: &[
            "Gostei muito de {name}, recomendo demais.",
            "Aqui só funcionou depois de reiniciar.",
            "Amanhã eu conto como foi.",
        ],
        react: &["kkkkk", "com certeza", "boa!", "que legal"],
    },
    Language {
        ask: &["{name}、もう試した人いますか？", "今夜みんな何時に集まりますか？", "これってスマホでもできますか？"],
        tell: &[
            "{name}は思ったよりずっと良かったです。",
            "昨日やっと終わりました。長かった…",
            "最初はゆっくりやるのがおすすめです。",
            "ありがとう、助かりました！",
        ],
        react: &["それな", "すごい！", "草", "いいね👍"],
    },
    Language {
        ask: &["{name} 해 본 사람 있어요?", "오늘 몇 시에 모여요?"],
        tell: &["{name} 진짜 재밌어요, 추천합니다.", "저는 재시작하니까 바로 됐어요.", "다들 좋은 하루 보내세요!"],
        react: &["ㅋㅋㅋㅋ", "인정", "대박", "좋아요"],
    },
    Language {
        ask: &["Кто-нибудь уже пробовал {name}?", "Во сколько завтра собираемся?"],
        tell: &[
            "{name} мне очень понравилось, честно.",
            "У меня заработало только с третьего раза.",
            "Спасибо всем за помощь!",
        ],
        react: &["ахах", "точно", "круто", "согласна"],
    },
    Language {
        ask: &["有人试过 {name} 吗？", "今晚几点开始？"],
        tell: &["我觉得 {name} 很不错，推荐给大家。", "昨天弄了三个小时，终于成功了。", "谢谢大家，学到了很多！"],
        react: &["哈哈哈", "同意", "太棒了", "确实"],
    },
    Language {
        ask: &["هل جرّب أحد {name}؟", "متى نبدأ غدًا؟"],
        tell: &["بصراحة أعجبني {name} كثيرًا.", "شكرًا لكم جميعًا على المساعدة!"],
        react: &["هههه", "صحيح", "رائع 👏"],
    },
];

/// What people put in front of a sentence, and behind it.
pub(super) const BEFORE: &[&str] = &[
    "honestly",
    "tbh",
    "I mean",
    "btw",
    "fwiw",
    "well",
    "ok but",
    "yeah",
    "not gonna lie",
    "fun fact:",
    "also",
    "hmm",
    "for the record",
    "update:",
    "seriously",
];
pub(super) const AFTER: &[&str] = &[
    "imo",
    "haha",
    "though",
    "or so",
    "since {past}",
    "for now",
    "if you ask me",
    "as {who} would say",
    "just saying",
    "lol",
    "no joke",
    "{n}/10",
    "so far",
    "with {who}",
];
