//! Member lists: all members sorted from scratch for every query (docs/protocol/reference.md §8.6).

use super::{ChannelModel, State};
use std::{cmp::Reverse, collections::BTreeMap};

const VIEW_CHANNEL: u64 = 1 << 10;

/// MurmurHash3, x86, 32 bits, seed 0.
fn murmur3(text: &str) -> u32 {
    let mut hash: u32 = 0;
    for block in text.as_bytes().chunks(4) {
        let mut k: u32 = block.iter().rev().fold(0, |k, byte| k << 8 | u32::from(*byte));
        k = k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash ^= k;
        if block.len() == 4 {
            hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
        }
    }
    hash ^= text.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The id of a channel's list.
pub fn list_id(state: &State, channel: &ChannelModel) -> String {
    let everyone = state.roles.get(&state.guild_id).copied().unwrap_or(0);
    if everyone & VIEW_CHANNEL != 0 && channel.overwrites.iter().all(|o| o.deny & VIEW_CHANNEL == 0) {
        return "everyone".to_owned();
    }
    let token = |id: u64, allow: u64, deny: u64| match (allow & VIEW_CHANNEL != 0, deny & VIEW_CHANNEL != 0) {
        (true, _) => Some(format!("allow:{id}")),
        (false, true) => Some(format!("deny:{id}")),
        (false, false) => None,
    };
    let mut tokens: Vec<String> = channel.overwrites.iter().filter_map(|o| token(o.id, o.allow, o.deny)).collect();
    tokens.sort();
    murmur3(&tokens.join(",")).to_string()
}

/// Kind (a role, `online`, `offline`), then position from above, then the role.
type Group = (u8, Reverse<i32>, u64);

/// The rows of a channel's list. `names` returns an account's name, used for members without nick.
pub fn list_rows(state: &State, channel: u64, names: impl Fn(u64) -> String) -> Vec<String> {
    let mut groups: BTreeMap<Group, Vec<(String, u64)>> = BTreeMap::new();
    for user in state.viewers(channel).iter() {
        let member = &state.members[user];
        let hoisted = member.roles.iter().filter_map(|role| Some((0, Reverse(*state.hoisted.get(role)?), *role)));
        let group = match state.presences.contains_key(user) {
            true => hoisted.min().unwrap_or((1, Reverse(0), 0)),
            false => (2, Reverse(0), 0),
        };
        let name = member.nick.clone().unwrap_or_else(|| names(*user)).to_lowercase();
        groups.entry(group).or_default().push((name, *user));
    }
    let mut rows = Vec::new();
    for ((kind, _, role), mut people) in groups {
        let id = [role.to_string(), "online".to_owned(), "offline".to_owned()][usize::from(kind)].clone();
        rows.push(format!("group {id}:{}", people.len()));
        people.sort();
        rows.extend(people.into_iter().map(|(_, user)| {
            let status = state.presences.get(&user).map_or("offline", |(status, _)| *status);
            format!("member {user}:{status}")
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::murmur3;

    #[test]
    fn hashes_as_the_protocol_gives_them() {
        assert_eq!(murmur3(""), 0);
        assert_eq!(murmur3("deny:1001"), 3_477_805_530);
        assert_eq!(murmur3("allow:2002,deny:1001"), 2_523_820_452);
        assert_eq!(murmur3("allow:1100000000000000020,deny:1100000000000000001"), 647_443_077);
    }
}
