//! The fields of JSON, to be compared with the documentation.

use serde_json::Value;
use std::collections::BTreeSet;

/// Every field name in a value, however deep.
pub fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            found.insert(name.clone());
            names(field, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}
