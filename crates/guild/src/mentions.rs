//! Mentions: users and roles named in a message, and those that it may notify.
//!
//! Owns        the syntax `<@id>`, `<@!id>`, `<@&role>`, `@everyone`, `@here`; the filters of reference.md §10.3.
//! Doors       `Named::parse` reads a text, `Named::allowed` filters by the sender's choice, and `may_mention` and
//!             `Guild::resolve_mentions` by permission and existence.
//! Invariants  any text is accepted; each id is returned once, in order of first appearance. Code has no mentions
//!             (`code_spans`).
//! Limits      `mentions_max` users and the same number of roles; further ones are plain text.

use crate::{code_spans::outside_code, command::AllowedMentions, machine::Guild};
use guildhall_model::{Id, Member, Permissions, Role, RoleId, User, UserId};
use std::sync::Arc;

/// Ids in a text, whether or not they exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub users: Vec<UserId>,
    pub roles: Vec<RoleId>,
    /// `@everyone` or `@here`.
    pub everyone: bool,
}

impl Named {
    /// Parses `content`, except code in it: `max` users and as many roles.
    #[must_use]
    pub fn parse(content: &str, max: usize) -> Self {
        let mut named = Self::default();
        for piece in outside_code(content) {
            named.everyone |= has_word(piece, "@everyone") || has_word(piece, "@here");
            parse_ids(piece, max, &mut named);
        }
        named
    }

    /// Those that the sender allows; none: all.
    #[must_use]
    pub fn allowed(mut self, allowed: Option<&AllowedMentions>) -> Self {
        if let Some(allowed) = allowed {
            self.users.retain(|id| allowed.all_users || allowed.users.contains(id));
            self.roles.retain(|id| allowed.all_roles || allowed.roles.contains(id));
            self.everyone &= allowed.everyone;
        }
        self
    }
}

/// Whether a role, other than `@everyone`, may be mentioned with these permissions.
#[must_use]
pub fn may_mention(role: &Role, permissions: Permissions) -> bool {
    role.mentionable || permissions.contains(Permissions::MENTION_EVERYONE)
}

/// Whether the text has the word by itself. Between letters or digits it is a part of another, such as an address.
fn has_word(text: &str, word: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_inner) && !text[at + word.len()..].starts_with(is_inner))
}

fn parse_ids(text: &str, max: usize, named: &mut Named) {
    let mut rest = text;
    while let Some(at) = rest.find("<@") {
        rest = &rest[at + 2..];
        let (is_role, digits) = match rest.as_bytes().first() {
            Some(b'&') => (true, &rest[1..]),
            Some(b'!') => (false, &rest[1..]),
            _ => (false, rest),
        };
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        if digits.as_bytes().get(len) != Some(&b'>') {
            continue;
        }
        if is_role {
            add(&mut named.roles, &digits[..len], max);
        } else {
            add(&mut named.users, &digits[..len], max);
        }
    }
}

fn add<T>(ids: &mut Vec<Id<T>>, digits: &str, max: usize) {
    if let Ok(id) = digits.parse()
        && ids.len() < max
        && !ids.contains(&id)
    {
        ids.push(id);
    }
}

/// Users and roles that a message notifies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mentions {
    /// Mentioned users, all of them members.
    pub users: Vec<Arc<User>>,
    pub roles: Vec<RoleId>,
    /// Notifies everyone.
    pub everyone: bool,
}

/// Rights and context of a message, by which its mentions notify.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mentioning {
    /// Of the sender.
    pub permissions: Permissions,
    /// Author of the original message of a reply.
    pub replied: Option<UserId>,
}

impl Guild {
    /// Filters the ids in `content` by existence, the sender's permissions and `allowed`.
    pub(crate) fn resolve_mentions(
        &self,
        content: &str,
        allowed: Option<&AllowedMentions>,
        mentioning: Mentioning,
    ) -> Mentions {
        let Mentioning { permissions, replied } = mentioning;
        let Named { mut users, roles, everyone } = Named::parse(content, self.limits.mentions_max).allowed(allowed);
        if let Some(replied) = replied
            && allowed.is_none_or(|a| a.replied_user)
            && !users.contains(&replied)
        {
            users.push(replied);
        }
        let is_everyone = |id: &RoleId| *id == self.structure.id().cast();
        let is_open = |id: &RoleId| {
            !is_everyone(id) && self.structure.roles.get(id).is_some_and(|of| may_mention(of, permissions))
        };
        Mentions {
            users: users.into_iter().filter_map(|id| Some(self.members.entry(id)?.member.user.clone())).collect(),
            roles: roles.into_iter().filter(is_open).collect(),
            everyone: everyone && permissions.contains(Permissions::MENTION_EVERYONE),
        }
    }

    /// Members among `users`.
    pub(crate) fn members_among(&self, users: &[Arc<User>]) -> Vec<Arc<Member>> {
        users.iter().filter_map(|user| self.member(user.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    fn check(content: &str, users: &[u64], roles: &[u64], everyone: bool) {
        let expected = Named {
            users: users.iter().copied().map(UserId::new).collect(),
            roles: roles.iter().copied().map(RoleId::new).collect(),
            everyone,
        };
        assert_eq!(Named::parse(content, 3), expected, "{content:?}");
    }

    #[test]
    fn syntax() {
        check("", &[], &[], false);
        check("hi <@1> and <@!2>, <@&3>", &[1, 2], &[3], false);
        check("<@1><@1><@!1>", &[1], &[], false);
        check("mail@everyone.example x@here _@here ä@here", &[], &[], false);
        check("@everyoneelse @hereafter @here2 @here_", &[], &[], false);
        check("(@everyone)", &[], &[], true);
        check("@everyone's", &[], &[], true);
        check("@@here", &[], &[], true);
        check("@hereafter, @here.", &[], &[], true);
        check("@Everyone @her e", &[], &[], false);
        check("<@> <@!> <@&> <@ 1> <@1 > <@-1> <@1", &[], &[], false);
        check("<@<@1>", &[1], &[], false);
        check("<@&<@2>", &[2], &[], false);
        check("<@9223372036854775807><@9223372036854775808>", &[u64::MAX >> 1], &[], false);
        check("<@1> <@2> <@3> <@4> <@&5>", &[1, 2, 3], &[5], false);
        check("ä<@1>ö", &[1], &[], false);
    }

    #[test]
    fn code_has_no_mentions() {
        check("`<@1>` `<@!2>` `<@&3>` `@everyone` ``` @here ```", &[], &[], false);
        check("`code` <@1> ``more` code`` <@&3> ```\nblock\n``` @here", &[1], &[3], true);
        check("``a ` @here`` `<@1>` <@2>", &[2], &[], false);
        check("```\n@here <@1>\n```", &[], &[], false);
        check("```js\n<@&3> `<@1>` \n```<@2>", &[2], &[], false);
        check("` no end <@1> @here", &[1], &[], true);
        check("``` no end <@1>", &[1], &[], false);
        check("`` other end <@1> `", &[1], &[], false);
        check(r"\`@here\` \`<@1>`", &[1], &[], true);
        check("<@`1`> <@1`>`", &[], &[], false);
        check("x`y`@here", &[], &[], true);
    }

    /// The grammar, tried at every position. Without code.
    fn naive(content: &str, max: usize) -> Named {
        let chars: Vec<char> = content.chars().collect();
        let mut named = Named::default();
        for at in 0..chars.len() {
            for word in ["@everyone", "@here"] {
                let rest: String = chars[at..].iter().collect();
                let is_inner = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
                let before = if at == 0 { None } else { chars.get(at - 1) };
                if rest.starts_with(word) && !is_inner(before) && !is_inner(chars.get(at + word.len())) {
                    named.everyone = true;
                }
            }
        }
        for at in 0..chars.len() {
            let text: String = chars[at..].iter().collect();
            let Some(end) = text.find('>') else { continue };
            let Some(inner) = text[..end].strip_prefix("<@") else { continue };
            if let Some(role) = inner.strip_prefix('&') {
                if let Ok(id) = role.parse::<RoleId>()
                    && !named.roles.contains(&id)
                    && named.roles.len() < max
                {
                    named.roles.push(id);
                }
            } else if let Ok(id) = inner.strip_prefix('!').unwrap_or(inner).parse::<UserId>()
                && !named.users.contains(&id)
                && named.users.len() < max
            {
                named.users.push(id);
            }
        }
        named
    }

    #[test]
    fn agrees_with_the_grammar_on_anything() {
        const PIECES: &[&str] = &[
            "<",
            "@",
            "!",
            "&",
            ">",
            "1",
            "22",
            "9223372036854775808",
            "<@",
            "<@!",
            "<@&",
            "@everyone",
            "@here",
            " ",
            "é",
            "🔥",
            "x",
        ];
        for seed in 0..4_000 {
            let mut rng = Rng::new(seed);
            let count = rng.below(24);
            let content: String = (0..count).map(|_| *rng.pick(PIECES).expect("there are pieces")).collect();
            let max = rng.below(4) as usize;
            assert_eq!(Named::parse(&content, max), naive(&content, max), "seed {seed}: {content:?}");
        }
    }
}
