//! Endpoints: the URLs of applications that receive interactions by HTTP instead of the gateway.
//!
//! Owns        `Endpoint`, a record of the store per application; the probe of a new URL; signed requests.
//! Invariants  E1 a URL receives interactions only if it has answered a PING and refused a wrong signature. E2 an
//!             application with a URL gets no INTERACTION_CREATE. E3 the response is a callback as any other: of
//!             several first answers one counts (N1). (tests `guildhall/tests/it/interactions_endpoint.rs`)
//! Limits      `REQUESTS_MAX` requests at once, `REQUESTS_OF_ONE_MAX` to one application; past either the user gets
//!             503. `ANSWER_MS` and `ANSWER_BYTES_MAX` of a response, its files aside, which have the limits of
//!             uploads; past either the interaction has failed.
//! Not here    addresses that a URL may lead to: `guildhall_http_client::Guarded`. Keys: `Node::application_key`.
//!             Spec  docs/protocol/choices.md "Interactions by HTTP".

use super::{ANSWER_MS, answers, callback, token::Token};
use crate::{
    body::{BodyLimits, JsonRequest, MessageBodyInput},
    error::ApiError,
    form::{self, FieldError, FieldErrors},
    permit::ReadPermit,
    routes::{Call, bootstrap},
    state::Api,
};
use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use guildhall_http_client::{Guarded, GuardedAnswer, GuardedError};
use guildhall_http_kit::{Party, Quota, Reservation, boundary_in};
use guildhall_model::{User, UserId, from_gateway::UserBody};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const RECORDS: &str = "interactions_endpoint";
const URL_CHARS_MAX: usize = 512;
/// With the interaction and its response, some 200 KiB of memory each.
const REQUESTS_MAX: usize = 512;
const REQUESTS_OF_ONE_MAX: usize = 64;
const ANSWER_BYTES_MAX: usize = 128 << 10;

const PING: u8 = 1;
const PONG: u8 = 1;

/// State that the handlers of endpoints share.
pub(crate) struct Endpoints {
    guarded: Guarded,
    places: Arc<Quota>,
}

impl Endpoints {
    pub fn new(private_endpoints: bool) -> Self {
        let guarded = Guarded::new("interactions.private_endpoints", private_endpoints);
        Self { guarded, places: Quota::new(REQUESTS_MAX, REQUESTS_OF_ONE_MAX) }
    }
}

/// Why an endpoint gave no answer that counts.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("it did not answer within 3 seconds")]
    TooSlow,
    #[error("its host has no public address")]
    Address,
    #[error(transparent)]
    Guarded(GuardedError),
    #[error("it answered {0}")]
    Status(u16),
    #[error("it answered with form data without a boundary")]
    NoForm,
    #[error("its body was refused: {0}")]
    Body(ApiError),
    #[error("it answered a PING with something other than {{\"type\": 1}}")]
    NoPong,
    #[error("it answered {0} to a request with a wrong signature, which it has to refuse with 401")]
    Accepts(u16),
}

impl From<GuardedError> for Fault {
    fn from(error: GuardedError) -> Self {
        match error {
            // One text for both: the text gives no name of a private network away.
            GuardedError::Unresolved | GuardedError::Private(..) => Self::Address,
            other => Self::Guarded(other),
        }
    }
}

/// The URL of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// `interactions_endpoint_url`.
    pub url: String,
}

impl Endpoint {
    /// None: the application receives interactions by the gateway.
    pub async fn read(api: &Api, application: UserId) -> Result<Option<Self>, ApiError> {
        let Some(bytes) = api.node.store().record(RECORDS, &application.get().to_be_bytes()).await? else {
            return Ok(None);
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| ApiError::Bug("an endpoint that can be read"))
    }

    async fn put(&self, api: &Api, application: UserId) -> Result<(), ApiError> {
        let bytes = serde_json::to_vec(self).map_err(|_| ApiError::Bug("an endpoint that can be written"))?;
        Ok(api.node.store().put_record(RECORDS, &application.get().to_be_bytes(), &bytes).await?)
    }

    /// Sends a signed request; status and body of the response.
    async fn post(&self, api: &Api, application: UserId, body: Bytes, sign: Sign) -> Result<(u16, Bytes), Fault> {
        within_time(async {
            let answer = self.send(api, application, body, sign).await?;
            let status = answer.head.status.as_u16();
            Ok((status, answer.whole(ANSWER_BYTES_MAX).await?))
        })
        .await
    }

    /// Sends a signed request; the caller bounds the time.
    async fn send(&self, api: &Api, application: UserId, body: Bytes, sign: Sign) -> Result<GuardedAnswer, Fault> {
        let timestamp = api.now().unix.unix_s().to_string();
        let signed = match sign {
            Sign::Right => timestamp.clone(),
            // A signature of something else.
            Sign::Wrong => format!("{timestamp}0"),
        };
        let signature = api.node.application_key(application).sign(&signed, &body);
        let value = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        let headers = [
            (header::USER_AGENT, HeaderValue::from_static("Guildhall-Interactions/1.0")),
            (HeaderName::from_static("x-signature-ed25519"), value(signature)),
            (HeaderName::from_static("x-signature-timestamp"), value(timestamp)),
        ];
        Ok(api.endpoints.guarded.send(&self.url, headers, body).await?)
    }

    /// Sends an interaction; the callback in its response. None: the application answers by the callback's route.
    async fn exchange(&self, api: &Api, token: &Token, body: Bytes) -> Result<Option<MessageBodyInput>, Fault> {
        let answer = self.send(api, token.application, body, Sign::Right).await?;
        let permit = ReadPermit::interaction(token.application);
        let input = match (answer.head.status.as_u16(), boundary_in(&answer.head.headers)) {
            (202 | 204, _) => return Ok(None),
            (200, None) => MessageBodyInput::of_response(api, permit, answer.whole(ANSWER_BYTES_MAX).await?.into()),
            (200, Some(Ok(boundary))) => {
                let place = (token.channel_id, ANSWER_BYTES_MAX);
                MessageBodyInput::of_form_response(api, permit, place, &boundary, answer).await
            }
            (200, Some(Err(_))) => return Err(Fault::NoForm),
            (status, _) => return Err(Fault::Status(status)),
        };
        input.map(Some).map_err(Fault::Body)
    }

    /// Whether the server answers a PING, and refuses what the node did not sign (E1).
    async fn probe(&self, api: &Api, bot: &User) -> Result<(), Fault> {
        let ping = json!({"id": bot.id, "application_id": bot.id, "type": PING, "version": 1, "token": "ping",
            "user": UserBody::from(bot).for_rest(), "entitlements": []});
        let ping = Bytes::from(ping.to_string());
        let (status, _) = self.post(api, bot.id, ping.clone(), Sign::Wrong).await?;
        if status != StatusCode::UNAUTHORIZED.as_u16() {
            return Err(Fault::Accepts(status));
        }
        let (status, body) = self.post(api, bot.id, ping, Sign::Right).await?;
        if status != StatusCode::OK.as_u16() {
            return Err(Fault::Status(status));
        }
        let pong: Option<Value> = serde_json::from_slice(&body).ok();
        if pong.is_some_and(|pong| pong["type"] == PONG) { Ok(()) } else { Err(Fault::NoPong) }
    }
}

/// How a request is signed.
#[derive(Clone, Copy, Debug)]
enum Sign {
    Right,
    /// A bot must refuse it.
    Wrong,
}

fn place(api: &Api, application: UserId) -> Result<Reservation, ApiError> {
    let parties = [Some(Party::Webhook(application.get())), None];
    api.endpoints.places.reserve(parties, 1).map_err(|_| ApiError::Overloaded)
}

/// The way of one interaction to an application with a URL.
pub(super) struct Way {
    endpoint: Endpoint,
    application: UserId,
    place: Reservation,
}

impl Way {
    /// None: by the gateway.
    pub async fn of(api: &Api, application: UserId) -> Result<Option<Self>, ApiError> {
        let Some(endpoint) = Endpoint::read(api, application).await? else { return Ok(None) };
        Ok(Some(Self { endpoint, application, place: place(api, application)? }))
    }

    /// Sends an interaction, and takes its response as the answer (E3).
    pub fn send(self, api: Arc<Api>, token: Token, body: &Value) {
        let body = Bytes::from(body.to_string());
        tokio::spawn(async move {
            let Self { endpoint, application, place } = self;
            let answered = match within_time(endpoint.exchange(&api, &token, body)).await {
                Ok(None) => Ok(()),
                Ok(Some(input)) => {
                    callback::take(&api, &token, input).await.map(drop).map_err(|error| error.to_string())
                }
                Err(fault) => Err(fault.to_string()),
            };
            if let Err(reason) = answered {
                tracing::debug!(%application, reason, "an interactions endpoint gave no answer");
                answers::fail(&api, &token).await;
            }
            drop(place);
        });
    }
}

async fn within_time<T>(exchange: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(Duration::from_millis(ANSWER_MS as u64), exchange).await.map_err(|_| Fault::TooSlow)?
}

/// Changes the caller's application: its URL, after a probe.
pub(crate) async fn update(Call { api, caller, .. }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    if !caller.bot {
        return Err(bootstrap::ONLY_BOTS);
    }
    let body = input.json(&api, ReadPermit::caller(&caller), BodyLimits::FORM).await?;
    let url = body.read(|form| {
        Some(form.nullable("interactions_endpoint_url", |v| {
            let text = form::text(v, 0, URL_CHARS_MAX)?;
            let parsed = if text.is_empty() { Ok(()) } else { api.endpoints.guarded.parse(&text).map(drop) };
            parsed.map_err(|message| FieldErrors::from(FieldError::new("BASE_TYPE_BAD_URL", message)))?;
            Ok(text)
        }))
    })?;
    match url.map(Option::unwrap_or_default) {
        None => {}
        Some(url) if url.is_empty() => {
            api.node.store().delete_record(RECORDS, &caller.id.get().to_be_bytes()).await?;
        }
        Some(url) => {
            let endpoint = Endpoint { url };
            let _place = place(&api, caller.id)?;
            endpoint.probe(&api, &caller).await.map_err(|fault| {
                let message = format!("The specified interactions endpoint url could not be verified: {fault}.");
                let fault = FieldError::new("APPLICATION_INTERACTIONS_ENDPOINT_URL_INVALID", message);
                FieldErrors::at("interactions_endpoint_url", fault)
            })?;
            endpoint.put(&api, caller.id).await?;
        }
    }
    bootstrap::described(&api, &caller).await
}
