//! Field errors: complaints about the fields of a request, in the shape of the request.
//!
//! Spec        docs/protocol/reference.md §10.1.

use serde::{Serialize, Serializer, ser::SerializeMap};
use std::{borrow::Cow, collections::BTreeMap};

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    code: &'static str,
    message: Cow<'static, str>,
}

impl FieldError {
    pub fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn required() -> Self {
        Self::new("BASE_TYPE_REQUIRED", "This field is required")
    }
}

/// Errors, in the shape of the object that they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    here: Vec<FieldError>,
    inside: BTreeMap<String, FieldErrors>,
}

impl FieldErrors {
    /// One complaint about one field.
    pub fn at(key: &str, fault: FieldError) -> Self {
        let mut faults = Self::default();
        faults.add(key, fault.into());
        faults
    }

    /// Complaints about one field.
    pub fn within(key: &str, faults: Self) -> Self {
        let mut outer = Self::default();
        outer.add(key, faults);
        outer
    }

    /// The complaints are about the field `key`.
    pub fn add(&mut self, key: &str, faults: Self) {
        let mine = self.inside.entry(key.to_owned()).or_default();
        mine.here.extend(faults.here);
        for (key, faults) in faults.inside {
            mine.add(&key, faults);
        }
    }

    /// A complaint about the object itself.
    pub fn add_here(&mut self, fault: FieldError) {
        self.here.push(fault);
    }

    pub fn is_empty(&self) -> bool {
        self.here.is_empty() && self.inside.is_empty()
    }
}

impl From<FieldError> for FieldErrors {
    fn from(fault: FieldError) -> Self {
        Self { here: vec![fault], inside: BTreeMap::new() }
    }
}

impl Serialize for FieldErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, faults) in &self.inside {
            map.serialize_entry(key, faults)?;
        }
        if !self.here.is_empty() {
            map.serialize_entry("_errors", &self.here)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn complaints_about_one_field_add_up() {
        let mut faults = FieldErrors::at("a", FieldError::new("X", "x"));
        faults.add("a", FieldErrors::at("b", FieldError::new("Y", "y")));
        assert_eq!(
            serde_json::to_value(faults).unwrap(),
            json!({"a": {"_errors": [{"code": "X", "message": "x"}], "b": {"_errors": [{"code": "Y", "message": "y"}]}}})
        );
    }
}
