//! Component forms: components of messages and modals, checked against upstream's limits.
//!
//! Owns        `Components`, which reads a tree and counts what is limited over all of it.
//! Invariants  C1 what is stored has known types in known places, and fields that clients can draw. C2 no two
//!             components of a message have the same `custom_id`, or the same `id`. (tests `c1_*`, `c2_*`)
//! Limits      `COMPONENTS_MAX` and `TEXT_CHARS_MAX` over all, `BYTES_MAX` of JSON; each field in its reader.
//! Not here    use of components: `super::interactions`.     Spec  docs/protocol/choices.md "Interactions".

use crate::form::{self, FieldError, FieldErrors, Form, Parsed};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const COMPONENTS_MAX: usize = 40;
const ROWS_MAX: usize = 5;
const TEXT_CHARS_MAX: usize = 4_000;
const BYTES_MAX: usize = 16 * 1024;
const CUSTOM_ID_CHARS_MAX: usize = 100;
const URL_CHARS_MAX: usize = 2_048;

pub(super) const ROW: i64 = 1;
pub(super) const BUTTON: i64 = 2;
pub(super) const STRING_SELECT: i64 = 3;
pub(super) const TEXT_INPUT: i64 = 4;
pub(super) const CHANNEL_SELECT: i64 = 8;
const SECTION: i64 = 9;
pub(super) const TEXT: i64 = 10;
const THUMBNAIL: i64 = 11;
const GALLERY: i64 = 12;
const FILE: i64 = 13;
const SEPARATOR: i64 = 14;
const CONTAINER: i64 = 17;
pub(super) const LABEL: i64 = 18;

const BUTTON_OF_LINK: i64 = 5;

/// Where a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Message,
    MessageV2,
    Row,
    Section,
    Accessory,
    Container,
    Modal,
    ModalRow,
    Label,
}

impl Place {
    fn admits(self, kind: i64) -> bool {
        match self {
            Self::Message => kind == ROW,
            Self::MessageV2 => matches!(kind, ROW | SECTION | TEXT | GALLERY | FILE | SEPARATOR | CONTAINER),
            Self::Row => kind == BUTTON || is_select(kind),
            Self::Section => kind == TEXT,
            Self::Accessory => matches!(kind, BUTTON | THUMBNAIL),
            Self::Container => matches!(kind, ROW | SECTION | TEXT | GALLERY | FILE | SEPARATOR),
            Self::Modal => matches!(kind, ROW | TEXT | LABEL),
            Self::ModalRow => kind == TEXT_INPUT,
            Self::Label => kind == TEXT_INPUT || is_select(kind),
        }
    }
}

pub(super) fn is_select(kind: i64) -> bool {
    kind == STRING_SELECT || (5..=CHANNEL_SELECT).contains(&kind)
}

/// A tree of components that is being read.
#[derive(Debug, Default)]
struct Components {
    count: usize,
    text_chars: usize,
    custom_ids: BTreeSet<String>,
    ids: BTreeSet<i64>,
}

/// Components of a message. `is_v2`: of the flag IS_COMPONENTS_V2; none if the message may have it from before.
pub(super) fn of_message(value: &Value, is_v2: Option<bool>) -> Parsed<Vec<Value>> {
    let has_others = || value.as_array().is_some_and(|list| list.iter().any(|of| of.get("type") != Some(&json!(ROW))));
    let (place, max) = match is_v2.unwrap_or_else(has_others) {
        true => (Place::MessageV2, COMPONENTS_MAX),
        false => (Place::Message, ROWS_MAX),
    };
    read(value, place, 0, max)
}

/// Components of a modal.
pub(super) fn of_modal(value: &Value) -> Parsed<Vec<Value>> {
    read(value, Place::Modal, 1, ROWS_MAX)
}

fn read(value: &Value, place: Place, min: usize, max: usize) -> Parsed<Vec<Value>> {
    let mut tree = Components::default();
    let mut components = tree.list(value, place, min, max)?;
    let limit = |fault: &'static str, message: String| Err(FieldErrors::from(FieldError::new(fault, message)));
    if tree.count > COMPONENTS_MAX {
        let message = format!("The total number of components cannot exceed {COMPONENTS_MAX}.");
        return limit("COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", message);
    }
    if tree.text_chars > TEXT_CHARS_MAX {
        let message = format!("The total text of components cannot exceed {TEXT_CHARS_MAX} characters.");
        return limit("COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", message);
    }
    let bytes = serde_json::to_vec(&components).map_or(usize::MAX, |json| json.len());
    if bytes > BYTES_MAX {
        return limit("BASE_TYPE_MAX_LENGTH", format!("Must be {BYTES_MAX} or fewer in length."));
    }
    let mut next = 1;
    components.iter_mut().for_each(|component| tree.number(component, &mut next));
    Ok(components)
}

fn fault(code: &'static str, message: &'static str) -> FieldErrors {
    FieldError::new(code, message).into()
}

/// Stores what `read` makes of a field.
fn keep<T: Into<Value>>(
    form: &mut Form<'_>,
    out: &mut Map<String, Value>,
    key: &str,
    read: impl FnOnce(&Value) -> Parsed<T>,
) {
    if let Some(value) = form.optional(key, read) {
        out.insert(key.to_owned(), value.into());
    }
}

fn need<T: Into<Value>>(
    form: &mut Form<'_>,
    out: &mut Map<String, Value>,
    key: &str,
    read: impl FnOnce(&Value) -> Parsed<T>,
) {
    if let Some(value) = form.required(key, read) {
        out.insert(key.to_owned(), value.into());
    }
}

fn emoji(value: &Value) -> Parsed<Value> {
    form::object(value, |form| {
        let id = form.optional("id", form::id::<()>);
        let name = form.optional("name", |v| form::text(v, 0, 100));
        let animated = form.optional("animated", form::boolean).unwrap_or(false);
        if id.is_none() && name.as_ref().is_none_or(String::is_empty) {
            form.fault("name", FieldError::required());
        }
        let mut emoji = json!({"name": name});
        if let Some(id) = id {
            emoji["id"] = json!(id);
            emoji["animated"] = json!(animated);
        }
        Some(emoji)
    })
}

fn media(value: &Value) -> Parsed<Value> {
    form::object(value, |form| {
        let url = form.required("url", |v| {
            let url = form::text(v, 1, URL_CHARS_MAX)?;
            if url.starts_with("attachment://") { Ok(url) } else { super::message_form::url(v) }
        })?;
        Some(json!({"url": url}))
    })
}

impl Components {
    fn list(&mut self, value: &Value, place: Place, min: usize, max: usize) -> Parsed<Vec<Value>> {
        form::list(value, min, max, |value| self.component(value, place))
    }

    fn component(&mut self, value: &Value, place: Place) -> Parsed<Value> {
        self.count += 1;
        form::object(value, |form| {
            let kind = form.required("type", |v| {
                let kind = form::integer(v, 1, 255)?;
                if place.admits(kind) {
                    return Ok(kind);
                }
                Err(fault("UNION_TYPE_CHOICES", "A component of this type cannot be here."))
            })?;
            let mut out = Map::new();
            out.insert("type".to_owned(), json!(kind));
            // 0 and none: the server chooses.
            keep(form, &mut out, "id", |v| {
                let id = form::integer(v, 0, i32::MAX.into())?;
                if id != 0 && !self.ids.insert(id) {
                    return Err(fault("COMPONENT_ID_DUPLICATED", "Component id cannot be duplicated"));
                }
                Ok(id)
            });
            match kind {
                ROW => self.row(form, &mut out, place),
                BUTTON => self.button(form, &mut out),
                TEXT_INPUT => self.text_input(form, &mut out, place),
                SECTION => {
                    need(form, &mut out, "components", |v| self.list(v, Place::Section, 1, 3));
                    need(form, &mut out, "accessory", |v| self.component(v, Place::Accessory));
                }
                TEXT => need(form, &mut out, "content", |v| {
                    let text = form::text(v, 1, TEXT_CHARS_MAX)?;
                    self.text_chars += text.chars().count();
                    Ok(text)
                }),
                THUMBNAIL => picture(form, &mut out),
                GALLERY => need(form, &mut out, "items", |v| {
                    form::list(v, 1, 10, |v| {
                        form::object(v, |form| {
                            let mut item = Map::new();
                            picture(form, &mut item);
                            Some(Value::Object(item))
                        })
                    })
                }),
                FILE => {
                    fill(&mut out, &[("spoiler", json!(false))]);
                    need(form, &mut out, "file", media);
                    keep(form, &mut out, "spoiler", form::boolean);
                }
                SEPARATOR => {
                    fill(&mut out, &[("divider", json!(true)), ("spacing", json!(1))]);
                    keep(form, &mut out, "divider", form::boolean);
                    keep(form, &mut out, "spacing", |v| form::integer(v, 1, 2));
                }
                CONTAINER => {
                    fill(&mut out, &[("accent_color", Value::Null), ("spoiler", json!(false))]);
                    need(form, &mut out, "components", |v| self.list(v, Place::Container, 1, COMPONENTS_MAX));
                    keep(form, &mut out, "accent_color", |v| form::integer(v, 0, 0xFF_FF_FF));
                    keep(form, &mut out, "spoiler", form::boolean);
                }
                LABEL => {
                    need(form, &mut out, "label", |v| form::text(v, 1, 45));
                    keep(form, &mut out, "description", |v| form::text(v, 0, 100));
                    need(form, &mut out, "component", |v| self.component(v, Place::Label));
                }
                _ => self.select(form, &mut out, kind, place),
            }
            Some(Value::Object(out))
        })
    }

    fn custom_id(&mut self, form: &mut Form<'_>, out: &mut Map<String, Value>) {
        need(form, out, "custom_id", |v| {
            let custom_id = form::text(v, 1, CUSTOM_ID_CHARS_MAX)?;
            if !self.custom_ids.insert(custom_id.clone()) {
                return Err(fault("COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated"));
            }
            Ok(custom_id)
        });
    }

    fn row(&mut self, form: &mut Form<'_>, out: &mut Map<String, Value>, place: Place) {
        let (inner, max) = if place == Place::Modal { (Place::ModalRow, 1) } else { (Place::Row, 5) };
        need(form, out, "components", |v| {
            let list = self.list(v, inner, 1, max)?;
            let selects = list.iter().filter(|of| of["type"] != BUTTON).count();
            if inner == Place::Row && selects > 0 && list.len() > 1 {
                let message = "An action row has up to five buttons, or one select.";
                return Err(fault("COMPONENT_LAYOUT_WIDTH_EXCEEDED", message));
            }
            Ok(list)
        });
    }

    fn button(&mut self, form: &mut Form<'_>, out: &mut Map<String, Value>) {
        let style = form.required("style", |v| form::integer(v, 1, 6)).unwrap_or(1);
        out.insert("style".to_owned(), json!(style));
        keep(form, out, "label", |v| form::text(v, 0, 80));
        keep(form, out, "emoji", emoji);
        keep(form, out, "disabled", form::boolean);
        match style {
            BUTTON_OF_LINK => need(form, out, "url", |v| {
                form::text(v, 1, 512)?;
                super::message_form::url(v)
            }),
            6 => form.fault("style", FieldError::new("UNSUPPORTED", "This server sells nothing.")),
            _ => {
                self.custom_id(form, out);
                if form.optional("url", |_| Ok(())).is_some() {
                    let message = "Only buttons of style 5 have a URL.";
                    form.fault("url", FieldError::new("BUTTON_COMPONENT_URL_NOT_ALLOWED", message));
                }
            }
        }
        let is_blank = |key: &str| out.get(key).is_none_or(|value| value == "");
        if form.has_no_faults() && is_blank("label") && is_blank("emoji") {
            form.fault("label", FieldError::new("BASE_TYPE_REQUIRED", "A label or emoji is required."));
        }
    }

    fn select(&mut self, form: &mut Form<'_>, out: &mut Map<String, Value>, kind: i64, place: Place) {
        self.custom_id(form, out);
        fill(out, &[("min_values", json!(1)), ("max_values", json!(1))]);
        keep(form, out, "placeholder", |v| form::text(v, 0, 150));
        keep(form, out, "min_values", |v| form::integer(v, 0, 25));
        keep(form, out, "max_values", |v| form::integer(v, 1, 25));
        keep(form, out, if place == Place::Label { "required" } else { "disabled" }, form::boolean);
        let of = |key: &str| out.get(key).and_then(Value::as_i64).unwrap_or(1);
        if of("min_values") > of("max_values") {
            form.fault("min_values", FieldError::new("NUMBER_TYPE_MAX", "Cannot be above max_values."));
        }
        if kind != STRING_SELECT {
            if kind == CHANNEL_SELECT {
                keep(form, out, "channel_types", |v| form::list(v, 0, 20, |v| form::integer(v, 0, 20)));
            }
            keep(form, out, "default_values", |v| {
                form::list(v, 0, 25, |v| {
                    form::object(v, |form| {
                        let id = form.required("id", form::id::<()>);
                        let kind = form.required("type", |v| form::text(v, 1, 10));
                        Some(json!({"id": id?, "type": kind?}))
                    })
                })
            });
            return;
        }
        let mut values = BTreeSet::new();
        need(form, out, "options", |v| {
            form::list(v, 1, 25, |v| {
                form::object(v, |form| {
                    let mut option = Map::new();
                    need(form, &mut option, "label", |v| form::text(v, 1, 100));
                    need(form, &mut option, "value", |v| {
                        let value = form::text(v, 1, 100)?;
                        if !values.insert(value.clone()) {
                            let message = "The specified option value is already used";
                            return Err(fault("SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", message));
                        }
                        Ok(value)
                    });
                    keep(form, &mut option, "description", |v| form::text(v, 0, 100));
                    keep(form, &mut option, "emoji", emoji);
                    keep(form, &mut option, "default", form::boolean);
                    Some(Value::Object(option))
                })
            })
        });
    }

    fn text_input(&mut self, form: &mut Form<'_>, out: &mut Map<String, Value>, place: Place) {
        self.custom_id(form, out);
        need(form, out, "style", |v| form::integer(v, 1, 2));
        // In a label, that has the text.
        if place == Place::ModalRow {
            need(form, out, "label", |v| form::text(v, 1, 45));
        }
        keep(form, out, "min_length", |v| form::integer(v, 0, 4_000));
        keep(form, out, "max_length", |v| form::integer(v, 1, 4_000));
        keep(form, out, "required", form::boolean);
        keep(form, out, "value", |v| form::text(v, 0, 4_000));
        keep(form, out, "placeholder", |v| form::text(v, 0, 100));
    }

    /// Gives an `id` to each component without one, in the order of the tree.
    fn number(&mut self, component: &mut Value, next: &mut i64) {
        let Some(fields) = component.as_object_mut() else { return };
        if fields.get("id").is_none_or(|id| *id == 0) {
            while !self.ids.insert(*next) {
                *next += 1;
            }
            fields.insert("id".to_owned(), json!(*next));
        }
        if let Some(Value::Array(list)) = fields.get_mut("components") {
            list.iter_mut().for_each(|component| self.number(component, next));
        }
        for key in ["accessory", "component"] {
            if let Some(single) = fields.get_mut(key) {
                self.number(single, next);
            }
        }
    }
}

/// Defaults of fields that answers always have.
fn fill(out: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    out.extend(defaults.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
}

fn picture(form: &mut Form<'_>, out: &mut Map<String, Value>) {
    fill(out, &[("description", Value::Null), ("spoiler", json!(false))]);
    need(form, out, "media", media);
    keep(form, out, "description", |v| form::text(v, 0, 1_024));
    keep(form, out, "spoiler", form::boolean);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(components: Value) -> Value {
        json!([{"type": 1, "components": components}])
    }

    fn button(custom_id: &str) -> Value {
        json!({"type": 2, "style": 1, "label": "b", "custom_id": custom_id})
    }

    fn code(components: &Value, is_v2: bool, path: &[&str]) -> Value {
        let faults = serde_json::to_value(of_message(components, Some(is_v2)).unwrap_err()).unwrap();
        let found = path.iter().fold(&faults, |at, key| &at[*key]);
        found["_errors"][0]["code"].clone()
    }

    #[test]
    fn c1_components_have_their_places_and_fields() {
        let select = json!({"type": 3, "custom_id": "s", "options": [{"label": "a", "value": "a"}]});
        for fine in [
            json!([]),
            row(json!([button("a"), button("b")])),
            row(json!([select])),
            row(json!([{"type": 2, "style": 5, "label": "l", "url": "https://example.net"}])),
            row(json!([{"type": 2, "style": 2, "emoji": {"name": "🔥"}, "custom_id": "e"}])),
            row(json!([{"type": 6, "custom_id": "r", "placeholder": null}])),
        ] {
            assert!(of_message(&fine, Some(false)).is_ok(), "{fine}");
        }
        let v2 = json!([
            {"type": 10, "content": "text"},
            {"type": 17, "accent_color": null, "components": [
                {"type": 9, "components": [{"type": 10, "content": "x"}], "accessory": button("x")},
                {"type": 14, "divider": true, "spacing": 2},
                {"type": 12, "items": [{"media": {"url": "attachment://a.png"}}]},
                {"type": 1, "components": [select]}]},
            {"type": 13, "file": {"url": "attachment://a.txt"}},
        ]);
        assert!(of_message(&v2, Some(true)).is_ok() && of_message(&v2, None).is_ok());
        assert_eq!(code(&v2, false, &["0", "type"]), "UNION_TYPE_CHOICES");
        assert_eq!(code(&row(json!([])), false, &["0", "components"]), "BASE_TYPE_BAD_LENGTH");
        assert_eq!(
            code(&row(json!([button("a"), select])), false, &["0", "components"]),
            "COMPONENT_LAYOUT_WIDTH_EXCEEDED"
        );
        let at = ["0", "components", "0"];
        let wrong = |component: Value, key: &str| code(&row(json!([component])), false, &[&at[..], &[key]].concat());
        assert_eq!(wrong(json!({"type": 2, "style": 1, "label": "x"}), "custom_id"), "BASE_TYPE_REQUIRED");
        assert_eq!(wrong(json!({"type": 2, "style": 1, "custom_id": "x"}), "label"), "BASE_TYPE_REQUIRED");
        assert_eq!(wrong(json!({"type": 2, "style": 5, "label": "x"}), "url"), "BASE_TYPE_REQUIRED");
        let url = json!({"type": 2, "style": 5, "label": "x", "url": "javascript:x"});
        assert_eq!(wrong(url, "url"), "URL_TYPE_INVALID_SCHEME");
        assert_eq!(wrong(json!({"type": 3, "custom_id": "x", "options": []}), "options"), "BASE_TYPE_BAD_LENGTH");
        assert_eq!(wrong(json!({"type": 4, "custom_id": "x"}), "type"), "UNION_TYPE_CHOICES");
        let many = json!(vec![json!({"type": 10, "content": "x".repeat(1_001)}); 4]);
        assert_eq!(code(&many, true, &[]), "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED");
    }

    #[test]
    fn c2_ids_are_unique_and_complete() {
        let twice = row(json!([button("a"), button("a")]));
        assert_eq!(code(&twice, false, &["0", "components", "1", "custom_id"]), "COMPONENT_CUSTOM_ID_DUPLICATED");
        let given = json!([{"type": 1, "id": 2, "components": [button("a"), button("b")]}]);
        let read = of_message(&given, Some(false)).unwrap();
        assert_eq!((&read[0]["id"], &read[0]["components"][0]["id"]), (&json!(2), &json!(1)));
        assert_eq!(read[0]["components"][1]["id"], 3);
    }

    #[test]
    fn modals_have_inputs() {
        let input = json!({"type": 4, "custom_id": "t", "style": 1, "label": "l"});
        assert!(of_modal(&row(json!([input]))).is_ok());
        let label = json!([{"type": 18, "label": "l", "component": {"type": 4, "custom_id": "t", "style": 2}}]);
        assert!(of_modal(&label).is_ok());
        assert!(of_modal(&json!([])).is_err() && of_modal(&row(json!([button("a")]))).is_err());
    }
}
