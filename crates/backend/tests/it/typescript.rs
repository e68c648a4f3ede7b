//! Types of the TypeScript SDK for `/v1`, generated from the OpenAPI document.
//!
//! `GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-backend --test it the_types` writes
//! sdk/typescript/src/generated/backend.ts.

use guildhall_backend::v1_document;
use serde_json::{Map, Value};
use std::{fmt::Write as _, path::Path};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// A name as a key of an object.
fn key(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { name.to_owned() } else { format!("{name:?}") }
}

fn comment(out: &mut String, indent: &str, of: &Value) {
    if let Some(text) = of["description"].as_str() {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match &lines[..] {
            [] => {}
            [line] => writeln!(out, "{indent}/** {line} */").unwrap(),
            lines => {
                writeln!(out, "{indent}/**").unwrap();
                lines.iter().for_each(|line| writeln!(out, "{indent} * {line}").unwrap());
                writeln!(out, "{indent} */").unwrap();
            }
        }
    }
}

fn joined(types: &[Value], between: &str) -> String {
    let mut texts: Vec<String> = types.iter().map(of_schema).collect();
    texts.dedup();
    if texts.len() == 1 { texts.remove(0) } else { format!("({})", texts.join(between)) }
}

/// The type of a schema.
fn of_schema(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    for (keyword, between) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[keyword].as_array() {
            return joined(parts, between);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    match &schema["type"] {
        Value::Array(types) => {
            let one = |kind: &Value| {
                let mut one = schema.clone();
                one["type"] = kind.clone();
                of_schema(&one)
            };
            let texts: Vec<String> = types.iter().map(one).collect();
            format!("({})", texts.join(" | "))
        }
        Value::String(kind) => match kind.as_str() {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => {
                let item = of_schema(&schema["items"]);
                if item.contains(' ') && !item.starts_with('(') { format!("({item})[]") } else { format!("{item}[]") }
            }
            _ => object(schema),
        },
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Value) -> String {
    match schema["properties"].as_object() {
        Some(properties) => format!("{{\n{}}}", fields(schema, properties)),
        None if schema["additionalProperties"].is_object() => {
            format!("{{ [name: string]: {} }}", of_schema(&schema["additionalProperties"]))
        }
        None => "{ [name: string]: unknown }".to_owned(),
    }
}

fn fields(schema: &Value, properties: &Map<String, Value>) -> String {
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|of| of.iter().any(|other| other == name));
    let mut out = String::new();
    for (name, property) in properties {
        comment(&mut out, "  ", property);
        let optional = if is_required(name) { "" } else { "?" };
        writeln!(out, "  {}{optional}: {};", key(name), of_schema(property)).unwrap();
    }
    out
}

/// Parameters of an operation in a place, as an object.
fn parameters(operation: &Value, place: &str) -> String {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let own: Vec<String> = all
        .filter(|parameter| parameter["in"] == place)
        .map(|parameter| {
            let optional = if parameter["required"] == true { "" } else { "?" };
            format!("{}{optional}: {}", key(parameter["name"].as_str().unwrap()), of_schema(&parameter["schema"]))
        })
        .collect();
    if own.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", own.join("; ")) }
}

/// The type of a body; a stream is text.
fn content(of: &Value) -> Option<String> {
    let (kind, content) = of["content"].as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "application/json" => of_schema(&content["schema"]),
        "application/x-ndjson" => "Lines".to_owned(),
        _ => "Blob".to_owned(),
    })
}

fn answer(operation: &Value) -> String {
    let responses = operation["responses"].as_object().unwrap();
    let good = responses.iter().filter(|(status, _)| status.starts_with('2'));
    let mut types: Vec<String> = good.map(|(_, of)| content(of).unwrap_or_else(|| "undefined".to_owned())).collect();
    types.sort();
    types.dedup();
    types.join(" | ")
}

fn types() -> String {
    let document: Value = serde_json::from_str(&v1_document()).unwrap();
    let mut out = String::from(
        "// Generated from the OpenAPI document. Do not edit: GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-backend \
         --test it the_types\n\n/** A body of lines, a JSON value each. */\nexport type Lines = { readonly lines: \
         unique symbol };\n",
    );
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        out.push('\n');
        comment(&mut out, "", schema);
        match schema["properties"].as_object() {
            Some(properties) if schema.get("allOf").is_none() => {
                writeln!(out, "export interface {name} {{\n{}}}", fields(schema, properties)).unwrap();
            }
            _ => writeln!(out, "export type {name} = {};", of_schema(schema)).unwrap(),
        }
    }
    out.push_str("\n/** Requests by method and path. */\nexport interface Operations {\n");
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let operation = &item[method];
            if operation.is_null() {
                continue;
            }
            let summary = serde_json::json!({ "description": operation["summary"] });
            comment(&mut out, "  ", &summary);
            let body = content(&operation["requestBody"]).unwrap_or_else(|| "undefined".to_owned());
            writeln!(
                out,
                "  \"{} {path}\": {{\n    path: {};\n    query: {};\n    body: {body};\n    answer: {};\n  }};",
                method.to_uppercase(),
                parameters(operation, "path"),
                parameters(operation, "query"),
                answer(operation),
            )
            .unwrap();
        }
    }
    out + "}\n"
}

/// `GUILDHALL_UPDATE_DOCS=1` updates them.
#[test]
fn the_types_of_the_sdk_are_those_of_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/typescript/src/generated/backend.ts");
    let expected = types();
    if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        let hint = "GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-backend --test it the_types";
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == expected, "sdk/typescript/src/generated/backend.ts is not up to date: {hint}");
    }
}
