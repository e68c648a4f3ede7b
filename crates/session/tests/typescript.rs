//! Types of the TypeScript SDK, generated from the bodies that the gateway sends.
//!
//! `GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-session --test typescript` writes sdk/typescript/src/generated.
//!
//! Owns        the translation of serde's attributes to TypeScript: `rename`, `rename_all`, `flatten`, `tag`,
//!             `untagged`, `skip_serializing_if`.
//! Invariants  a type with a hand-written `Serialize` needs an entry in `WRITTEN`, and each event one in `EVENTS`;
//!             without it the test fails.
#![expect(clippy::disallowed_methods, reason = "the test reads the sources, and writes the types on request")]

use guildhall_model::{CloseCode, EventName, Intents, Opcode, SessionFate, opcode};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};
use syn::{
    Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type, punctuated::Punctuated,
    token::Comma,
};

/// Files of `crates` with bodies, besides those of `model/src/from_gateway`.
const FILES: &[&str] = &[
    "model/src/audit.rs",
    "model/src/forum.rs",
    "model/src/message.rs",
    "model/src/presence.rs",
    "model/src/role.rs",
    "guild-protocol/src/resource_payload.rs",
    "guild-protocol/src/payload.rs",
    "session/src/ready.rs",
];

/// Types whose `Serialize` is written by hand, and aliases: name in Rust, name in TypeScript, definition. In a
/// definition `{Name}` refers to a Rust type, `{file/Name}` to the one of a file. No definition: the name is a
/// TypeScript type by itself.
const WRITTEN: &[(&str, &str, &str)] = &[
    ("Activity", "Activity", "{ name: string; type: number; [key: string]: unknown }"),
    ("AuditAction", "number", ""),
    ("Attachments", "{AttachmentBody}[]", ""),
    ("ChannelType", "number", ""),
    (
        "ClientStatus",
        "ClientStatus",
        r#"{ [platform in "desktop" | "mobile" | "web" | "embedded" | "vr"]?: {Status} }"#,
    ),
    ("Empty", "{ [key: string]: never }", ""),
    ("GatewayGuildBody", "GatewayGuild", "{FlatShape} | {PropertiesShape}"),
    ("Guilds", "({GatewayGuildBody} | {AbsentGuild})[]", ""),
    ("InteractionEvent", "InteractionEvent", "{ id: Snowflake; [key: string]: unknown }"),
    ("InviteCode", "string", ""),
    ("MergedMembers", "{MergedMemberBody}[][]", ""),
    ("Nothing", "never[]", ""),
    (
        "NotificationEntries",
        "NotificationEntries",
        "{NotificationSettingsBody}[] | { entries: {NotificationSettingsBody}[]; partial: boolean; version: number }",
    ),
    ("OverwriteBody", "Overwrite", "{ id: Snowflake; type: 0 | 1; allow: string; deny: string }"),
    ("Overwrites", "{OverwriteBody}[]", ""),
    ("Permissions", "string", ""),
    (
        "ReadStateEntries",
        "ReadStateEntries",
        "{ReadStateBody}[] | { entries: {ReadStateBody}[]; partial: boolean; version: number }",
    ),
    ("ReadySupplementalBody", "ReadySupplemental", "{Supplemental}"),
    ("ReferencedMessage", "{MessageBody} | null", ""),
    ("SessionsBody", "({SessionBody} | {AllSessions})[]", ""),
    ("StickerItems", "{StickerItemBody}[]", ""),
    ("Timestamp", "string", ""),
    ("UserReady", "UserReady", "{Ready}"),
    ("Value", "unknown", ""),
];

/// Names in TypeScript, where the name without `Body` would be ambiguous.
const NAMES: &[(&str, &str)] = &[
    ("resource_payload/BanBody", "GuildBan"),
    ("ChunkBody", "GuildMembersChunk"),
    ("DirectBody", "DirectChannel"),
    ("EmojisBody", "GuildEmojis"),
    ("EventUserBody", "ScheduledEventUser"),
    ("FlatShape", "FlatGuild"),
    ("InviteGoneBody", "InviteDelete"),
    ("ListedBody", "ThreadListedMember"),
    ("MessagesGoneBody", "MessageDeleteBulk"),
    ("PinsBody", "ChannelPins"),
    ("PropertiesShape", "PropertiesGuild"),
    ("Ready", "UserReadyFields"),
    ("RecipientBody", "ChannelRecipient"),
    ("ReferenceBody", "MessageReference"),
    ("SessionBody", "AccountSession"),
    ("StickersBody", "GuildStickers"),
    ("Supplemental", "ReadySupplementalFields"),
    ("ThreadGoneBody", "ThreadDelete"),
    ("WebhooksBody", "WebhooksUpdate"),
];

/// Body of each event.
const EVENTS: &[(&str, &str)] = &[
    ("READY", "{BotReadyBody} | {UserReady}"),
    ("READY_SUPPLEMENTAL", "{ReadySupplementalBody}"),
    ("RESUMED", "{Empty}"),
    ("RATE_LIMITED", "{RateLimitedBody}"),
    ("GUILD_CREATE", "{GatewayGuildBody}"),
    ("GUILD_UPDATE", "{GuildBody}"),
    ("GUILD_DELETE", "{UnavailableGuild}"),
    ("GUILD_ROLE_CREATE", "{RoleEventBody}"),
    ("GUILD_ROLE_UPDATE", "{RoleEventBody}"),
    ("GUILD_ROLE_DELETE", "{RoleDeleteBody}"),
    ("GUILD_BAN_ADD", "{resource_payload/BanBody}"),
    ("GUILD_BAN_REMOVE", "{resource_payload/BanBody}"),
    ("GUILD_AUDIT_LOG_ENTRY_CREATE", "{AuditEntryBody}"),
    ("GUILD_EMOJIS_UPDATE", "{EmojisBody}"),
    ("GUILD_STICKERS_UPDATE", "{StickersBody}"),
    ("INVITE_CREATE", "{InviteEventBody}"),
    ("INVITE_DELETE", "{InviteGoneBody}"),
    ("WEBHOOKS_UPDATE", "{WebhooksBody}"),
    ("GUILD_SCHEDULED_EVENT_CREATE", "{ScheduledEventBody}"),
    ("GUILD_SCHEDULED_EVENT_UPDATE", "{ScheduledEventBody}"),
    ("GUILD_SCHEDULED_EVENT_DELETE", "{ScheduledEventBody}"),
    ("GUILD_SCHEDULED_EVENT_USER_ADD", "{EventUserBody}"),
    ("GUILD_SCHEDULED_EVENT_USER_REMOVE", "{EventUserBody}"),
    ("STAGE_INSTANCE_CREATE", "{StageInstanceBody}"),
    ("STAGE_INSTANCE_UPDATE", "{StageInstanceBody}"),
    ("STAGE_INSTANCE_DELETE", "{StageInstanceBody}"),
    ("CHANNEL_PINS_UPDATE", "{PinsBody}"),
    ("THREAD_CREATE", "{ThreadBody}"),
    ("THREAD_UPDATE", "{ThreadBody}"),
    ("THREAD_DELETE", "{ThreadGoneBody}"),
    ("THREAD_MEMBER_UPDATE", "{ThreadMemberBody}"),
    ("THREAD_MEMBERS_UPDATE", "{ThreadMembersBody}"),
    ("THREAD_MEMBER_LIST_UPDATE", "{ThreadMemberListBody}"),
    ("USER_UPDATE", "{SelfUserBody}"),
    ("CHANNEL_CREATE", "{ChannelBody} | {DirectBody}"),
    ("CHANNEL_UPDATE", "{ChannelBody} | {DirectBody}"),
    ("CHANNEL_DELETE", "{ChannelBody} | {DirectBody}"),
    ("CHANNEL_RECIPIENT_ADD", "{RecipientBody}"),
    ("CHANNEL_RECIPIENT_REMOVE", "{RecipientBody}"),
    ("CHANNEL_MEMBER_COUNT_UPDATE", "{ChannelMemberCountUpdateBody}"),
    ("CHANNEL_INFO", "{ChannelInfoBody}"),
    ("CHANNEL_STATUSES", "{ChannelStatusesBody}"),
    ("CHANNEL_SYNC", "{ChannelSyncBody}"),
    ("THREAD_LIST_SYNC", "{ThreadListSyncBody}"),
    ("DELETED_ENTITY_IDS", "{DeletedEntityIdsBody}"),
    ("SOUNDBOARD_SOUNDS", "{SoundboardSoundsBody}"),
    ("SESSIONS_REPLACE", "{SessionsBody}"),
    ("GUILD_MEMBER_ADD", "{MemberUpdateBody}"),
    ("GUILD_MEMBER_UPDATE", "{MemberUpdateBody}"),
    ("GUILD_MEMBER_REMOVE", "{MemberRemoveBody}"),
    ("GUILD_MEMBERS_CHUNK", "{ChunkBody}"),
    ("GUILD_MEMBER_LIST_UPDATE", "{MemberListUpdateBody}"),
    ("PRESENCE_UPDATE", "{PresenceBody}"),
    ("MESSAGE_CREATE", "{MessageBody}"),
    ("MESSAGE_UPDATE", "{MessageBody}"),
    ("MESSAGE_DELETE", "{MessageDeleteBody}"),
    ("MESSAGE_DELETE_BULK", "{MessagesGoneBody}"),
    ("LAST_MESSAGES", "{LastMessagesBody}"),
    ("MESSAGE_REACTION_ADD", "{ReactionEventBody}"),
    ("MESSAGE_REACTION_REMOVE", "{ReactionEventBody}"),
    ("MESSAGE_REACTION_REMOVE_ALL", "{ReactionsClearedBody}"),
    ("MESSAGE_REACTION_REMOVE_EMOJI", "{ReactionsClearedBody}"),
    ("MESSAGE_POLL_VOTE_ADD", "{PollVoteBody}"),
    ("MESSAGE_POLL_VOTE_REMOVE", "{PollVoteBody}"),
    ("AUTO_MODERATION_RULE_CREATE", "{AutoModRuleBody}"),
    ("AUTO_MODERATION_RULE_UPDATE", "{AutoModRuleBody}"),
    ("AUTO_MODERATION_RULE_DELETE", "{AutoModRuleBody}"),
    ("AUTO_MODERATION_ACTION_EXECUTION", "{AutoModExecutionBody}"),
    ("TYPING_START", "{TypingBody}"),
    ("VOICE_STATE_UPDATE", "{VoiceStateBody}"),
    ("VOICE_SERVER_UPDATE", "{VoiceServerBody}"),
    ("INTERACTION_CREATE", "{InteractionEvent}"),
    ("INTERACTION_SUCCESS", "{InteractionEvent}"),
    ("INTERACTION_FAILURE", "{InteractionEvent}"),
    ("INTERACTION_MODAL_CREATE", "{InteractionEvent}"),
    (
        "APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE",
        "{ choices: { name: string; value: string | number }[]; nonce: string | number | null }",
    ),
    ("APPLICATION_COMMAND_PERMISSIONS_UPDATE", "{InteractionEvent}"),
    ("PASSIVE_UPDATE_V1", "{PassiveUpdateV1Body}"),
    ("PASSIVE_UPDATE_V2", "{PassiveUpdateV2Body}"),
    ("CHANNEL_UNREAD_UPDATE", "{ChannelUnreadUpdateBody}"),
    ("MESSAGE_ACK", "{MessageAckBody}"),
    ("CHANNEL_PINS_ACK", "{ChannelPinsAckBody}"),
    ("USER_GUILD_SETTINGS_UPDATE", "{NotificationSettingsBody}"),
    ("RELATIONSHIP_ADD", "{RelationshipBody}"),
    ("RELATIONSHIP_UPDATE", "{RelationshipChangeBody}"),
    ("RELATIONSHIP_REMOVE", "{RelationshipChangeBody}"),
];

/// Bodies of REST only that clients want types for.
const ALSO: &[&str] = &["InviteBody", "PublicUserBody", "RestGuildBody", "WebhookBody", "MessageExtras"];

const HEADER: &str = "// Generated from the Rust model. Do not edit: \
                      GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-session --test typescript\n\n";

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder").to_owned()
}

fn parse(path: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).items
}

/// Lines of a doc comment.
fn docs(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Str(text) => Some(text.value().trim().replace("*/", "")),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect()
}

fn comment(indent: &str, lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let body: String = lines.iter().map(|line| format!("{indent} * {line}\n")).collect();
            format!("{indent}/**\n{body}{indent} */\n")
        }
    }
}

/// serde's attributes: names with their values; a name without a value has an empty one.
fn serde(attributes: &[Attribute]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let Ok(list) = attribute.parse_args_with(Punctuated::<Meta, Comma>::parse_terminated) else { continue };
        for meta in list {
            let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            let value = match &meta {
                Meta::NameValue(pair) => match &pair.value {
                    Expr::Lit(lit) => match &lit.lit {
                        Lit::Str(text) => text.value(),
                        _ => String::new(),
                    },
                    _ => String::new(),
                },
                _ => String::new(),
            };
            found.insert(name, value);
        }
    }
    found
}

fn derives_serialize(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut found = false;
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == "Serialize");
            Ok(())
        });
        found
    })
}

fn cased(name: &str, rule: Option<&String>) -> String {
    match rule.map(String::as_str) {
        Some("lowercase") => name.to_lowercase(),
        Some("UPPERCASE") => name.to_uppercase(),
        None => name.to_owned(),
        Some(other) => panic!("rename_all = {other:?} is not supported"),
    }
}

/// All types with `derive(Serialize)` in the files, and what was emitted of them.
struct Model {
    /// By file and name.
    types: BTreeMap<(usize, String), Item>,
    /// Names of the files, without folder and extension.
    files: Vec<String>,
    out: BTreeMap<String, String>,
    written_used: BTreeSet<&'static str>,
    sources: BTreeMap<String, (usize, String)>,
}

impl Model {
    fn read() -> Self {
        let root = crates();
        let folder = root.join("model/src/from_gateway");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&folder).expect("it exists").map(|entry| entry.expect("readable").path()).collect();
        files.sort();
        files.extend(FILES.iter().map(|file| root.join(file)));
        let mut types = BTreeMap::new();
        for (file, path) in files.iter().enumerate() {
            for item in parse(path) {
                let (name, attributes) = match &item {
                    Item::Struct(of) => (of.ident.to_string(), &of.attrs),
                    Item::Enum(of) => (of.ident.to_string(), &of.attrs),
                    _ => continue,
                };
                if derives_serialize(attributes) {
                    types.insert((file, name), item);
                }
            }
        }
        let stem = |path: &PathBuf| path.file_stem().expect("a file").to_string_lossy().into_owned();
        let files = files.iter().map(stem).collect();
        Self { types, files, out: BTreeMap::new(), written_used: BTreeSet::new(), sources: BTreeMap::new() }
    }

    /// Replaces `{Name}` of Rust types by their names in TypeScript.
    fn expand(&mut self, file: usize, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let name: String =
                rest[start + 1..].chars().take_while(|c| c.is_ascii_alphanumeric() || "/_".contains(*c)).collect();
            let end = start + 1 + name.len();
            if !name.is_empty() && rest[end..].starts_with('}') {
                out.push_str(&rest[..start]);
                out.push_str(&self.name_of(file, &name));
                rest = &rest[end + 1..];
            } else {
                out.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
            }
        }
        out + rest
    }

    /// The TypeScript type for a Rust name that `file` mentions. Emits its definition.
    fn name_of(&mut self, file: usize, name: &str) -> String {
        if let Some((rust, shown, definition)) = WRITTEN.iter().find(|(rust, ..)| *rust == name) {
            if definition.is_empty() {
                self.written_used.insert(rust);
                return self.expand(file, shown);
            }
            if self.written_used.insert(rust) {
                let definition = self.expand(file, definition);
                self.emit(shown, format!("export type {shown} = {definition};\n"));
            }
            return (*shown).to_owned();
        }
        let key = if let Some((stem, of)) = name.split_once('/') {
            let file = self.files.iter().position(|file| file == stem).expect("a file that is read");
            (file, of.to_owned())
        } else if self.types.contains_key(&(file, name.to_owned())) {
            (file, name.to_owned())
        } else {
            let all: Vec<_> = self.types.keys().filter(|(_, other)| other == name).cloned().collect();
            assert!(all.len() == 1, "{name} is defined {} times with derive(Serialize): add it to WRITTEN", all.len());
            all[0].clone()
        };
        let renamed = NAMES.iter().find(|(rust, _)| *rust == name).map(|(_, shown)| (*shown).to_owned());
        let shown = renamed.unwrap_or_else(|| name.strip_suffix("Body").unwrap_or(name).to_owned());
        match self.sources.get(&shown) {
            Some(source) => assert_eq!(*source, key, "two types are called {shown}: add one of them to NAMES"),
            None => {
                self.sources.insert(shown.clone(), key.clone());
                let item = self.types[&key].clone();
                let text = match &item {
                    Item::Struct(of) => self.interface(key.0, &shown, of),
                    Item::Enum(of) => self.union(key.0, &shown, of),
                    _ => unreachable!("only structs and enums are in the table"),
                };
                self.emit(&shown, text);
            }
        }
        shown
    }

    fn emit(&mut self, name: &str, text: String) {
        assert!(self.out.insert(name.to_owned(), text).is_none(), "{name} is defined twice");
    }

    fn type_of(&mut self, file: usize, of: &Type) -> String {
        match of {
            Type::Reference(of) => self.type_of(file, &of.elem),
            Type::Slice(of) => self.array(file, &of.elem),
            Type::Array(of) => self.array(file, &of.elem),
            Type::Tuple(of) if of.elems.is_empty() => "null".to_owned(),
            Type::Tuple(of) => {
                let items: Vec<String> = of.elems.iter().map(|item| self.type_of(file, item)).collect();
                format!("[{}]", items.join(", "))
            }
            Type::Path(of) => {
                let last = of.path.segments.last().expect("a path has a segment");
                let argument = match &last.arguments {
                    PathArguments::AngleBracketed(arguments) => {
                        arguments.args.iter().find_map(|argument| match argument {
                            GenericArgument::Type(of) => Some(of),
                            _ => None,
                        })
                    }
                    _ => None,
                };
                let name = last.ident.to_string();
                match name.as_str() {
                    "bool" => "boolean".to_owned(),
                    "u8" | "u16" | "u32" | "u64" | "i32" | "i64" | "usize" | "f64" => "number".to_owned(),
                    "str" | "String" => "string".to_owned(),
                    "Id" => "Snowflake".to_owned(),
                    "Map" => "{ [key: string]: unknown }".to_owned(),
                    "Option" => format!("{} | null", self.type_of(file, argument.expect("Option<T>"))),
                    "Vec" => self.array(file, argument.expect("Vec<T>")),
                    "Box" | "Arc" | "Cow" => self.type_of(file, argument.expect("it has an argument")),
                    id if id.ends_with("Id") => "Snowflake".to_owned(),
                    _ => self.name_of(file, &name),
                }
            }
            _ => panic!("a type without a translation"),
        }
    }

    fn array(&mut self, file: usize, item: &Type) -> String {
        let item = self.type_of(file, item);
        if item == "null" {
            "never[]".to_owned()
        } else if item.contains([' ', '|']) {
            format!("({item})[]")
        } else {
            format!("{item}[]")
        }
    }

    /// Fields as lines, and the names of flattened types.
    fn fields(&mut self, file: usize, fields: &Fields, indent: &str) -> (String, Vec<String>) {
        let (mut lines, mut bases) = (String::new(), Vec::new());
        for field in fields {
            let attributes = serde(&field.attrs);
            let inner = option_inner(&field.ty);
            if attributes.contains_key("flatten") {
                let base = self.type_of(file, inner.unwrap_or(&field.ty));
                bases.push(if inner.is_some() { format!("Partial<{base}>") } else { base });
                continue;
            }
            let name = field.ident.as_ref().expect("a named field").to_string();
            let name = attributes.get("rename").unwrap_or(&name);
            let skip = attributes.get("skip_serializing_if");
            let shown = match (skip, inner) {
                (Some(condition), Some(inner)) if condition == "Option::is_none" => self.type_of(file, inner),
                _ => self.type_of(file, &field.ty),
            };
            lines.push_str(&comment(indent, &docs(&field.attrs)));
            let mark = if skip.is_some() { "?" } else { "" };
            writeln!(lines, "{indent}{name}{mark}: {shown};").expect("a String takes everything");
        }
        (lines, bases)
    }

    fn interface(&mut self, file: usize, name: &str, of: &syn::ItemStruct) -> String {
        let (lines, bases) = self.fields(file, &of.fields, "  ");
        let bases = if bases.is_empty() { String::new() } else { format!(" extends {}", bases.join(", ")) };
        format!("{}export interface {name}{bases} {{\n{lines}}}\n", comment("", &docs(&of.attrs)))
    }

    fn union(&mut self, file: usize, name: &str, of: &syn::ItemEnum) -> String {
        let attributes = serde(&of.attrs);
        let (tag, untagged) = (attributes.get("tag"), attributes.contains_key("untagged"));
        let mut lines = String::new();
        for variant in &of.variants {
            let wire = cased(&variant.ident.to_string(), attributes.get("rename_all"));
            let shown = match &variant.fields {
                Fields::Unit => format!("\"{wire}\""),
                Fields::Unnamed(fields) => {
                    let inner = self.type_of(file, &fields.unnamed[0].ty);
                    if untagged { inner } else { format!("{{ {wire}: {inner} }}") }
                }
                Fields::Named(_) => {
                    let (fields, _) = self.fields(file, &variant.fields, "");
                    let fields: Vec<&str> = fields.lines().filter(|line| !line.starts_with("/**")).collect();
                    let tag = tag.map(|tag| format!("{tag}: \"{wire}\"; ")).unwrap_or_default();
                    format!("{{ {tag}{} }}", fields.join(" ").trim_end_matches(';'))
                }
            };
            lines.push_str(&comment("  ", &docs(&variant.attrs)));
            writeln!(lines, "  | {shown}").expect("a String takes everything");
        }
        format!("{}export type {name} =\n{};\n", comment("", &docs(&of.attrs)), lines.trim_end())
    }
}

/// `T` of `Option<T>`.
fn option_inner(of: &Type) -> Option<&Type> {
    let Type::Path(of) = of else { return None };
    let last = of.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) if last.ident == "Option" => Some(inner),
        _ => None,
    }
}

/// `LITERAL NAME` pairs of a macro call in a file of the model.
fn pairs(file: &str, macro_name: &str) -> Vec<(u64, String)> {
    let items = parse(&crates().join("model/src").join(file));
    let call = items.iter().find_map(|item| match item {
        Item::Macro(call) if call.mac.path.is_ident(macro_name) => Some(call.mac.tokens.clone()),
        _ => None,
    });
    let mut found = Vec::new();
    let mut number = None;
    for token in call.unwrap_or_else(|| panic!("{file} has no call of {macro_name}!")) {
        match token.to_string().parse::<u64>() {
            Ok(n) => number = Some(n),
            Err(_) => {
                let name = token.to_string();
                if let Some(n) = number.take().filter(|_| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
                    found.push((n, name));
                }
            }
        }
    }
    found
}

fn protocol() -> String {
    let mut model = Model::read();
    let mut map = String::new();
    for (name, body) in EVENTS {
        let body = model.expand(0, body);
        writeln!(map, "  {name}: {body};").expect("a String takes everything");
    }
    for name in ALSO {
        model.name_of(0, name);
    }
    let known: BTreeSet<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
    let sent: BTreeSet<&str> =
        EventName::ALL.iter().filter(|name| **name != EventName::Backend).map(|name| name.as_str()).collect();
    assert_eq!(known, sent, "EVENTS has other events than the gateway sends");
    let unused: Vec<_> = WRITTEN.iter().map(|(name, ..)| *name).filter(|n| !model.written_used.contains(n)).collect();
    assert!(unused.is_empty(), "WRITTEN has types that no body contains: {unused:?}");

    let mut out = HEADER.to_owned();
    out.push_str("/** 64-bit id, as a decimal number. */\nexport type Snowflake = string;\n\n");
    for text in model.out.values() {
        out.push_str(text);
        out.push('\n');
    }
    out + "/** Body of each event that the gateway sends. */\nexport interface EventBodies {\n" + &map + "}\n"
}

fn table(name: &str, doc: &str, rows: &[(String, String)]) -> String {
    let rows: String = rows.iter().map(|(key, value)| format!("  {key}: {value},\n")).collect();
    format!("/** {doc} */\nexport const {name} = {{\n{rows}}} as const;\n\n")
}

fn bits(file: &str, macro_name: &str) -> Vec<(String, String)> {
    pairs(file, macro_name).into_iter().map(|(bit, name)| (name, format!("{}", 1u64 << bit))).collect()
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

fn codes() -> String {
    let mut out = HEADER.to_owned();
    let mut intents = bits("intents.rs", "intents");
    for (name, value) in [("ALL", Intents::ALL), ("PRIVILEGED", Intents::PRIVILEGED), ("USER_ONLY", Intents::USER_ONLY)]
    {
        intents.push((name.to_owned(), value.0.to_string()));
    }
    out.push_str(&table("Intents", "Event groups that a session subscribes to.", &intents));
    let capabilities = bits("capabilities.rs", "capabilities");
    out.push_str(&table("Capabilities", "Protocol features of a user client.", &capabilities));
    let permissions: Vec<_> =
        bits("permissions.rs", "permissions").into_iter().map(|(name, value)| (name, format!("{value}n"))).collect();
    out.push_str(&table(
        "Permissions",
        "Permissions in a guild or channel. On the wire a set is a decimal string.",
        &permissions,
    ));
    let types: Vec<_> =
        pairs("channel.rs", "channel_types").into_iter().map(|(n, name)| (snake(&name), n.to_string())).collect();
    out.push_str(&table("ChannelType", "Types of channels.", &types));
    let actions: Vec<_> =
        pairs("audit.rs", "actions").into_iter().map(|(n, name)| (snake(&name), n.to_string())).collect();
    out.push_str(&table("AuditAction", "Actions of the audit log.", &actions));

    let mut opcodes: BTreeMap<u64, String> = BTreeMap::from([(0, "DISPATCH".to_owned())]);
    for n in 1..64 {
        match Opcode::from_client(n) {
            Some(Opcode::Ignored(_)) | None => {}
            Some(known) if n == 40 || known != Opcode::Heartbeat || n == 1 => {
                let name = if n == 40 { "QOS_HEARTBEAT".to_owned() } else { snake(&format!("{known:?}")) };
                opcodes.insert(n, name);
            }
            Some(_) => {}
        }
    }
    use opcode::from_gateway as sent;
    for (n, name) in [
        (sent::HEARTBEAT, "HEARTBEAT"),
        (sent::RECONNECT, "RECONNECT"),
        (sent::INVALID_SESSION, "INVALID_SESSION"),
        (sent::HELLO, "HELLO"),
        (sent::HEARTBEAT_ACK, "HEARTBEAT_ACK"),
    ] {
        opcodes.insert(n.into(), name.to_owned());
    }
    let opcodes: Vec<_> = opcodes.into_iter().map(|(n, name)| (name, n.to_string())).collect();
    out.push_str(&table("Opcode", "Types of payloads.", &opcodes));

    out.push_str(
        "/** Close codes of the gateway. `keepsSession`: the session can be resumed. */\nexport const CloseCode = {\n",
    );
    for code in CloseCode::ALL {
        let name = snake(&format!("{code:?}"));
        let keeps = code.session_fate() == SessionFate::Keep;
        writeln!(out, "  {name}: {{ code: {}, reason: {:?}, keepsSession: {keeps} }},", code.code(), code.reason())
            .expect("a String takes everything");
    }
    out.push_str("} as const;\n\n/** Names of the events that the gateway sends. */\nexport const EVENT_NAMES = [\n");
    for name in EventName::ALL.iter().filter(|name| **name != EventName::Backend) {
        writeln!(out, "  \"{}\",", name.as_str()).expect("a String takes everything");
    }
    out + "] as const;\n"
}

#[test]
fn the_sdk_has_the_types_of_the_model() {
    let folder = crates().join("../sdk/typescript/src/generated");
    for (name, text) in [("protocol.ts", protocol()), ("codes.ts", codes())] {
        let path = folder.join(name);
        if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = found.lines().zip(text.lines()).find(|(a, b)| a != b);
        assert!(
            found == text,
            "sdk/typescript/src/generated/{name} is not what the model says, first at {differs:?}; \
             GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-session --test typescript updates it"
        );
    }
}
