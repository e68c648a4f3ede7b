//! Messages of benches: sentences of a fixed list, so that every run sends the same bytes.

const SENTENCES: [&str; 12] = [
    "did anyone see the match last night? that second half was unreal",
    "I think the new build fixes it, can you try again and tell me what the log says?",
    "lol",
    "yes, but only if the server is restarted first",
    "here is what I found: the cache was never invalidated when the role changed, so people kept seeing the old list until they reconnected",
    "good morning everyone ☕",
    "thanks, that worked!",
    "has anybody tried the soup place next to the station? my sister says it is the best in town",
    "I'd rather wait until Monday, half of the team is away and we need two reviewers for this one",
    "👍",
    "the tide comes in around six, so we should leave before four if we want to walk back along the beach",
    "what time is the call?",
];

/// The sentence of the `index`-th message.
pub fn sentence(index: usize) -> String {
    SENTENCES[index % SENTENCES.len()].to_owned()
}
