//! OpenAPI: the document that describes the API, generated from the code that serves it.
//!
//! Owns        the common parts: the title, the authentication, and the errors of every route.
//! Not here    routes and bodies: with their handlers.

use super::{
    dto::{HistoryLine, ImportLine, ImportUser},
    error::V1Error,
    events::EventBody,
    import::{ImportFailure, ImportProgress},
    import_messages::HistoryProgress,
    session_events::{Lost, NodeLine, SessionEventBody},
};
use serde_json::Value;
use utoipa::{
    OpenApi, ToSchema,
    openapi::{
        ContentBuilder, ObjectBuilder, Ref, RefOr, Required, ResponseBuilder, SecurityRequirement, Type,
        path::{Operation, ParameterBuilder, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
        server::Server,
    },
};

/// Errors of every route, and their meaning.
const COMMON: [(&str, &str); 6] = [
    ("400", "A field, the query or the path is not as it should be"),
    ("401", "There is no key, or not a good one"),
    ("403", "The key lacks the scope"),
    ("408", "The body did not arrive in time"),
    ("429", "Too many requests of this key, or wrong keys from this address"),
    ("503", "The node cannot do this now; try again"),
];

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Guildhall backend API",
        description = "Backends drive the gateway by it: they put guilds, channels, roles, members and accounts under ids of \
                       their own, publish events, mint and revoke tokens, and look after sessions.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(
        ImportLine,
        ImportUser,
        ImportProgress,
        ImportFailure,
        HistoryLine,
        HistoryProgress,
        EventBody,
        SessionEventBody,
        Lost,
        NodeLine,
        V1Error
    ))
)]
struct Base;

/// The document without its routes.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    let mut document = Base::openapi();
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("key", scheme);
    document.servers = Some(vec![Server::new("/")]);
    document.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("key", [])]);
    document
}

/// The whole document, as JSON.
pub(super) fn text(mut document: utoipa::openapi::OpenApi) -> String {
    for (path, item) in &mut document.paths.paths {
        let has_body = [&item.post, &item.put, &item.patch].into_iter().flatten().any(|o| o.request_body.is_some());
        for operation in [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch] {
            operation.iter_mut().for_each(|operation| add_common(operation, has_body));
            if path.starts_with("/v1/node") {
                operation.iter_mut().for_each(add_node);
            }
        }
    }
    let mut document = serde_json::to_value(&document).expect("a document is made of strings, numbers and lists");
    loosen_parts(&mut document);
    serde_json::to_string_pretty(&document).expect("a document is made of strings, numbers and lists")
}

/// A body to put allows no other fields; an answer has more. So answers refer to a variant of the same fields without
/// that rule: `GuildFields` for `GuildPut`.
fn loosen_parts(document: &mut Value) {
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) else { return };
    let mut fields = Vec::new();
    for schema in schemas.values_mut() {
        let parts = schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten();
        for part in parts.filter_map(|part| part.get_mut("$ref")) {
            let name = part.as_str().and_then(|text| text.strip_prefix("#/components/schemas/"));
            if let Some(object) = name.and_then(|name| name.strip_suffix("Put")).map(ToOwned::to_owned) {
                *part = format!("#/components/schemas/{object}Fields").into();
                fields.push(object);
            }
        }
    }
    for object in fields {
        let Some(mut loose) = schemas.get(&format!("{object}Put")).cloned() else { continue };
        loose.as_object_mut().and_then(|loose| loose.remove("additionalProperties"));
        schemas.insert(format!("{object}Fields"), loose);
    }
}

/// Every request about a node takes the parameter `node`, which `node::forward` reads.
fn add_node(operation: &mut Operation) {
    let parameter = ParameterBuilder::new()
        .name("node")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some("Number or name of another node of the cluster, which answers instead of this one."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).build()))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(parameter));
}

fn add_common(operation: &mut Operation, has_body: bool) {
    let of_bodies = [("413", "The body is too large"), ("415", "The body is compressed")];
    let of_bodies = of_bodies.into_iter().filter(|_| has_body);
    for (status, description) in COMMON.into_iter().chain(of_bodies) {
        let problem = Ref::from_schema_name(<V1Error as ToSchema>::name());
        let content = ContentBuilder::new().schema(Some(problem)).build();
        let response = ResponseBuilder::new().description(description).content("application/json", content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}
