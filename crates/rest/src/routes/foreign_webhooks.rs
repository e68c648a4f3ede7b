//! Webhooks in the format of Slack and of GitHub: their payloads become messages.
//!
//! Invariants  a message that such a payload becomes is within the limits of any other: texts are cut, and
//!             `super::message_form` checks it. (tests of `guildhall/tests/it/surface/webhooks.rs`)
//! Limits      10 attachments of Slack; 5 commits of GitHub are listed.     Spec  docs/protocol/choices.md "Webhooks of
//!             other services".

use super::{PathParams, message_form, webhooks};
use crate::{
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, Form, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use guildhall_guild::WebhookPost;
use guildhall_model::ChannelId;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const ATTACHMENTS_MAX: usize = 10;
const FIELDS_MAX: usize = 25;
const COMMITS_MAX: usize = 5;
/// Lengths of texts of embeds.
const TITLE_CHARS_MAX: usize = 256;
const FIELD_CHARS_MAX: usize = 1_024;
const TEXT_CHARS_MAX: usize = 2_000;
/// Longest text of a payload that is cut; a longer one is refused.
const SLACK_CHARS_MAX: usize = 40_000;
const EVENT_HEADER: &str = "x-github-event";

/// The first characters of a text; an ellipsis for the rest.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
    }
}

/// Links of Slack (`<url|label>`, `<url>`) as Markdown.
fn markdown(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("<http") {
        let Some(len) = rest[start..].find('>') else { break };
        let link = &rest[start + 1..start + len];
        out.push_str(&rest[..start]);
        match link.split_once('|') {
            Some((url, label)) => out.push_str(&format!("[{label}]({url})")),
            None => out.push_str(link),
        }
        rest = &rest[start + len + 1..];
    }
    out + rest
}

/// Posts the message of a payload.
async fn post(
    api: &Api,
    named: &webhooks::Named,
    (message, username, avatar): (Value, Option<String>, Option<String>),
    thread_id: Option<ChannelId>,
) -> Result<(), ApiError> {
    let (message, _) = message_form::new_message(&message, &[], ChannelId::new(0))?;
    let post = WebhookPost { message, username, avatar, thread_id, ..WebhookPost::default() };
    named.execute(api, post).await?;
    Ok(())
}

fn text(form: &mut Form<'_>, key: &str, max: usize) -> Option<String> {
    form.optional(key, |v| form::text(v, 0, SLACK_CHARS_MAX))
        .map(|text| cut(&markdown(&text), max))
        .filter(|text| !text.is_empty())
}

fn url(form: &mut Form<'_>, key: &str) -> Option<String> {
    form.optional(key, |v| if v == "" { Ok(None) } else { message_form::url(v).map(Some) }).flatten()
}

/// `#rrggbb`, or a name.
fn color(value: &Value) -> Parsed<Option<u32>> {
    let text = form::text(value, 0, TITLE_CHARS_MAX)?;
    Ok(match text.as_str() {
        "good" => Some(0x2e_b886),
        "warning" => Some(0xda_a038),
        "danger" => Some(0xa3_0200),
        text => text.strip_prefix('#').and_then(|digits| u32::from_str_radix(digits, 16).ok()).filter(|n| *n < 1 << 24),
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(key, value)| (key, without_nulls(value))).collect::<Map<_, _>>())
        }
        value => value,
    }
}

fn slack_attachment(value: &Value) -> Parsed<(Option<String>, Value)> {
    form::object(value, |form| {
        let pretext = text(form, "pretext", TEXT_CHARS_MAX);
        let author = json!({
            "name": text(form, "author_name", TITLE_CHARS_MAX),
            "url": url(form, "author_link"),
            "icon_url": url(form, "author_icon"),
        });
        let footer = json!({"text": text(form, "footer", TEXT_CHARS_MAX), "icon_url": url(form, "footer_icon")});
        let fields = form.optional("fields", |v| form::list(v, 0, FIELDS_MAX, slack_field)).unwrap_or_default();
        let timestamp = form.optional("ts", |v| form::integer(v, 0, 1 << 40));
        let embed = json!({
            "title": text(form, "title", TITLE_CHARS_MAX),
            "url": url(form, "title_link"),
            "description": text(form, "text", TEXT_CHARS_MAX),
            "color": form.optional("color", color).flatten(),
            "author": Some(author).filter(|author| author["name"].is_string()),
            "footer": Some(footer).filter(|footer| footer["text"].is_string()),
            "image": url(form, "image_url").map(|url| json!({"url": url})),
            "thumbnail": url(form, "thumb_url").map(|url| json!({"url": url})),
            "timestamp": timestamp.map(|s| guildhall_stdx::Timestamp(s * 1_000).to_string()),
            "fields": fields.into_iter().flatten().collect::<Vec<_>>(),
        });
        Some((pretext, without_nulls(embed)))
    })
}

/// None: it is blank.
fn slack_field(value: &Value) -> Parsed<Option<Value>> {
    form::object(value, |form| {
        // Slack's own names, and those of upstream's description.
        let title = text(form, "title", TITLE_CHARS_MAX).or(text(form, "name", TITLE_CHARS_MAX));
        let value = text(form, "value", FIELD_CHARS_MAX);
        let inline = form.optional("short", form::boolean).or(form.optional("inline", form::boolean));
        Some(
            title.zip(value).map(|(name, value)| json!({"name": name, "value": value, "inline": inline == Some(true)})),
        )
    })
}

pub(super) async fn slack(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
    request: JsonRequest,
) -> Result<Response, ApiError> {
    let named = webhooks::Named::by_token(&api, &params).await?;
    let webhook = named.show(&api).await?;
    let thread_id = thread_of(&query)?;
    let input = request.json(&api, ReadPermit::webhook(&webhook), BodyLimits::MESSAGE).await?;
    let message = input.read(|form| {
        let content = text(form, "text", TEXT_CHARS_MAX);
        let username = form.optional("username", webhooks::name);
        let avatar = url(form, "icon_url");
        let attachments = form.optional("attachments", |v| form::list(v, 0, ATTACHMENTS_MAX, slack_attachment));
        let (pretexts, embeds): (Vec<_>, Vec<_>) = attachments.unwrap_or_default().into_iter().unzip();
        let content: Vec<String> = content.into_iter().chain(pretexts.into_iter().flatten()).collect();
        let embeds: Vec<Value> = embeds.into_iter().filter(has_content).collect();
        Some((json!({"content": cut(&content.join("\n"), TEXT_CHARS_MAX), "embeds": embeds}), username, avatar))
    })?;
    post(&api, &named, message, thread_id).await?;
    // Slack's clients expect this text.
    Ok("ok".into_response())
}

fn has_content(embed: &Value) -> bool {
    embed.as_object().is_some_and(|embed| embed.iter().any(|(key, value)| key != "color" && *value != json!([])))
}

fn thread_of(query: &Query) -> Result<Option<ChannelId>, ApiError> {
    query.read(|form| {
        form.optional("wait", form::boolean);
        Some(form.optional("thread_id", form::id))
    })
}

pub(super) async fn github(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
    headers: HeaderMap,
    request: JsonRequest,
) -> Result<Response, ApiError> {
    let named = webhooks::Named::by_token(&api, &params).await?;
    let webhook = named.show(&api).await?;
    let thread_id = thread_of(&query)?;
    let event = headers.get(EVENT_HEADER).and_then(|event| event.to_str().ok()).unwrap_or_default().to_owned();
    let input = request.json(&api, ReadPermit::webhook(&webhook), BodyLimits::COMMANDS).await?;
    if let Some(embed) = github_embed(&event, &input.value) {
        post(&api, &named, (json!({"embeds": [embed]}), None, None), thread_id).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Embed of an event. None: the event is not for people. Fields that are missing, or of another type, are left out.
fn github_embed(event: &str, payload: &Value) -> Option<Value> {
    let text = |path: &str| payload.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let number = |path: &str| payload.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let (repository, action) = (text("/repository/full_name"), text("/action"));
    let branch = text("/ref").rsplit_once('/').map_or(text("/ref"), |(_, branch)| branch);
    let numbered = |what: &str, of: &str| {
        let title = text(&format!("/{of}/title"));
        let title = format!("[{repository}] {what} {action}: #{} {title}", number(&format!("/{of}/number")));
        (title, text(&format!("/{of}/html_url")), if action == "opened" { text(&format!("/{of}/body")) } else { "" })
    };
    let commented = |what: &str, of: &str| {
        let title = format!(
            "[{repository}] New comment on {what} #{}: {}",
            number(&format!("/{of}/number")),
            text(&format!("/{of}/title"))
        );
        (title, text("/comment/html_url"), text("/comment/body"))
    };
    let commits = payload.get("commits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let lines = || {
        let line = |commit: &Value| {
            let of = |path: &str| commit.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let (id, subject) =
                (of("/id").get(..7).unwrap_or_default(), of("/message").lines().next().unwrap_or_default());
            format!("[`{id}`]({}) {} - {}", of("/url"), cut(subject, 72), of("/author/name"))
        };
        commits.iter().take(COMMITS_MAX).map(line).collect::<Vec<_>>().join("\n")
    };
    let is_over = matches!(action, "opened" | "closed" | "reopened" | "answered");
    let listed = lines();
    let (title, url, description) = match event {
        "push" if commits.is_empty() => return None,
        "push" => {
            let plural = if commits.len() == 1 { "commit" } else { "commits" };
            (format!("[{repository}:{branch}] {} new {plural}", commits.len()), text("/compare"), listed.as_str())
        }
        "create" | "delete" => {
            let done = if event == "create" { "created" } else { "deleted" };
            (format!("[{repository}] {} {done}: {}", text("/ref_type"), text("/ref")), text("/repository/html_url"), "")
        }
        "fork" => {
            let url = text("/forkee/html_url");
            (format!("[{repository}] Fork created: {}", text("/forkee/full_name")), url, "")
        }
        "issues" if is_over => numbered("Issue", "issue"),
        "pull_request" if is_over => numbered("Pull request", "pull_request"),
        "discussion" if action == "created" => numbered("Discussion", "discussion"),
        "issue_comment" if action == "created" => commented("issue", "issue"),
        "pull_request_review_comment" if action == "created" => commented("pull request", "pull_request"),
        "discussion_comment" if action == "created" => commented("discussion", "discussion"),
        "commit_comment" if action == "created" => {
            let commit = text("/comment/commit_id").get(..7).unwrap_or_default();
            (
                format!("[{repository}] New comment on commit `{commit}`"),
                text("/comment/html_url"),
                text("/comment/body"),
            )
        }
        "pull_request_review" if action == "submitted" => {
            let what = format!("#{} {}", number("/pull_request/number"), text("/pull_request/title"));
            let title = format!("[{repository}] Pull request review ({}): {what}", text("/review/state"));
            (title, text("/review/html_url"), text("/review/body"))
        }
        "release" if action == "published" => {
            (format!("[{repository}] New release: {}", text("/release/tag_name")), text("/release/html_url"), "")
        }
        "watch" if action == "started" => (format!("[{repository}] New star"), text("/repository/html_url"), ""),
        "public" => (format!("[{repository}] Now open source"), text("/repository/html_url"), ""),
        "member" if action == "added" => {
            let login = text("/member/login");
            (format!("[{repository}] New collaborator: {login}"), text("/member/html_url"), "")
        }
        "check_run" if action == "completed" => {
            let what = format!("{} {}", text("/check_run/name"), text("/check_run/conclusion"));
            (format!("[{repository}] {what}"), text("/check_run/html_url"), text("/check_run/output/title"))
        }
        _ => return None,
    };
    let is_link = |url: &str| message_form::url(&Value::from(url)).is_ok();
    let link = |url: &str| Some(url.to_owned()).filter(|url| is_link(url));
    let embed = json!({
        "title": cut(&title, TITLE_CHARS_MAX),
        "url": link(url),
        "description": Some(cut(description, TEXT_CHARS_MAX)).filter(|text| !text.trim().is_empty()),
        "author": {
            "name": cut(text("/sender/login"), TITLE_CHARS_MAX),
            "url": link(text("/sender/html_url")),
            "icon_url": link(text("/sender/avatar_url")),
        },
    });
    let mut embed = without_nulls(embed);
    if text("/sender/login").is_empty() {
        embed.as_object_mut()?.remove("author");
    }
    Some(embed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_slack_are_markdown() {
        let check = |text: &str, expected: &str| assert_eq!(markdown(text), expected);
        check("see <https://a.example/x|the page>.", "see [the page](https://a.example/x).");
        check("<http://a.example> & <b>", "http://a.example & <b>");
        check("<http://a.example", "<http://a.example");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
    }

    #[test]
    fn events_of_github_have_a_title() {
        let repository = json!({"full_name": "a/b", "html_url": "https://x.example/a/b"});
        let payload = json!({"repository": repository, "ref": "refs/heads/main", "compare": "https://x.example/c",
            "sender": {"login": "ana"},
            "commits": [{"id": "0123456789", "message": "one\n\nmore", "url": "https://x.example/1", "author": {"name": "Ana"}}]});
        let embed = github_embed("push", &payload).unwrap();
        assert_eq!(embed["title"], "[a/b:main] 1 new commit");
        assert_eq!(embed["description"], "[`0123456`](https://x.example/1) one - Ana");
        assert_eq!(embed["author"], json!({"name": "ana"}));
        let issue = json!({"number": 5, "title": "broken", "html_url": "https://x.example/5", "body": "why"});
        let payload = json!({"repository": repository, "action": "opened", "issue": issue});
        assert_eq!(github_embed("issues", &payload).unwrap()["title"], "[a/b] Issue opened: #5 broken");
        assert_eq!(github_embed("ping", &payload), None);
        assert_eq!(github_embed("issues", &json!({"action": "labeled"})), None);
        assert_eq!(github_embed("push", &json!({"commits": [{"id": "é"}]})).unwrap()["title"], "[:] 1 new commit");
    }
}
