//! The dashboard's types of the reports are those of this crate, field by field.

use guildhall_accounting::report::*;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

const TYPES: &str = include_str!("../../../web/dashboard/src/types.ts");

/// Fields of an interface, with their types.
fn fields_of(interface: &str) -> BTreeMap<String, String> {
    let head = format!("export interface {interface} {{");
    let (_, rest) = TYPES.split_once(&head).unwrap_or_else(|| panic!("types.ts has no {interface}"));
    let (mut depth, mut field, mut fields) = (0, String::new(), Vec::new());
    for char in rest.chars() {
        match char {
            '}' if depth == 0 => break,
            ';' if depth == 0 => fields.push(std::mem::take(&mut field)),
            _ => {
                depth += i32::from("{<[(".contains(char)) - i32::from("}>])".contains(char));
                field.push(char);
            }
        }
    }
    fields.push(field);
    let named = fields.iter().filter_map(|field| field.trim().split_once(": "));
    named.map(|(name, of)| (name.to_owned(), of.trim().to_owned())).collect()
}

/// Whether a type admits this value of a default.
fn admits(of: &str, value: &Value) -> bool {
    match value {
        Value::Null => of.ends_with("| null"),
        Value::Bool(_) => of == "boolean",
        Value::Number(_) => of == "number",
        Value::String(_) => of == "string",
        Value::Array(_) => of.ends_with("[]"),
        Value::Object(_) => of.starts_with(char::is_uppercase) || of.starts_with('{'),
    }
}

fn check<T: Serialize + Default>(interface: &str) {
    let Value::Object(ours) = serde_json::to_value(T::default()).unwrap() else { panic!("{interface} is no object") };
    let theirs = fields_of(interface);
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{interface}");
    for (name, value) in &ours {
        assert!(admits(&theirs[name], value), "{interface}.{name}: {} is not {value}", theirs[name]);
    }
}

#[test]
fn the_types_of_the_dashboard_match_the_reports() {
    macro_rules! check_all {
        ($($name:ident),* $(,)?) => {
            $(check::<$name>(stringify!($name));)*
            let interfaces = TYPES.matches("export interface ").count();
            assert_eq!([$(stringify!($name)),*].len(), interfaces, "types.ts has others");
        };
    }
    check_all!(
        Named,
        Times,
        MessageType,
        Loop,
        Owner,
        Connections,
        OverviewReport,
        Way,
        DispatchType,
        BilledWays,
        BilledType,
        Bill,
        StreamWriter,
        BandwidthReport,
        Guild,
        GuildsReport,
        Relay,
        Channel,
        GuildReport,
        Session,
        SessionsReport,
        Subscription,
        LoggedEvent,
        SessionReport,
        StreamCost,
        ContextKind,
        UpgradesReport,
        ContextMoves,
        SharedMatch,
        CompressionReport,
        Setting,
        Refusal,
        Warning,
        OperationsReport,
        Caller,
        CallersReport,
        GuildFiles,
        Uploader,
        FilesReport,
    );
}
