//! A row of `audit_events`, and its hash.

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The columns of a row that its hash covers, as the database has them: all but `id` and `hash`.
///
/// The fields are in the order of their names, because the hash is that of their canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/guide/audit.md describes the columns")]
pub struct AuditRow {
    pub address: Option<String>,
    pub approval_id: Option<String>,
    pub at: i64,
    pub call_id: Option<String>,
    pub chain: String,
    pub channel: Option<String>,
    pub chat_id: String,
    pub event: String,
    pub groups: Option<String>,
    pub input_hash: Option<String>,
    pub outcome: Option<String>,
    pub owner: String,
    pub position: i64,
    pub prev: Option<String>,
    pub principal: Option<String>,
    pub reason: Option<String>,
    pub rule: Option<String>,
    pub run_id: Option<String>,
    pub shown_hash: Option<String>,
    pub subject: Option<String>,
    pub tool: String,
}

/// A row with the hash that it has in the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashedRow {
    /// The columns that the hash covers.
    #[serde(flatten)]
    pub row: AuditRow,
    /// The hash.
    pub hash: String,
}

/// Returns the SHA-256 of something in hexadecimal, over its canonical JSON: the keys in order, no white space, no escape that JSON does
/// not require.
///
/// The type has its fields in the order of their names, and its numbers are integers, so that serde_json writes this form.
fn hash_of<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_vec(value).expect("texts and integers have a JSON form");
    digest(&SHA256, &json).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

// === impl AuditRow ===

impl AuditRow {
    /// Returns the row's hash, which the next row of the chain has as `prev`.
    pub fn hash(&self) -> String {
        hash_of(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    pub fn row() -> AuditRow {
        AuditRow {
            address: Some("192.0.2.7".into()),
            approval_id: Some("appr_1".into()),
            at: 1_767_225_600_000_000,
            call_id: Some("call_1".into()),
            chain: "3d0c5f3a6d1b4f2c9d6a7a54c3a3b6f1.0".into(),
            channel: Some("button".into()),
            chat_id: "chat_1".into(),
            event: "denied".into(),
            groups: Some("[\"finance\"]".into()),
            input_hash: Some("015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862".into()),
            outcome: Some("counted".into()),
            owner: "dave".into(),
            position: 0,
            prev: None,
            principal: Some("alice".into()),
            reason: Some("Über 100 €:\t\"no\" \\ \u{7f}\u{1}".into()),
            rule: None,
            run_id: Some("run_1".into()),
            shown_hash: None,
            subject: None,
            tool: "refund".into(),
        }
    }

    #[test]
    fn the_canonical_form_has_its_keys_in_order() {
        let json = serde_json::to_string(&row()).unwrap();
        let sorted: BTreeMap<String, Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(json, serde_json::to_string(&sorted).unwrap());
        assert!(json.contains(r#""Über 100 €:\t\"no\" \\ "#) && json.contains(r"\u0001"), "{json}");
    }
}
