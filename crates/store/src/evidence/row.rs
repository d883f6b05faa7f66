//! A row of `audit_events`, and its hash.

use fermata_tools::sha256;
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

// === impl AuditRow ===

impl AuditRow {
    /// Returns the row's hash, which the next row of the chain has as `prev`: the SHA-256 of its canonical JSON, in hexadecimal. Canonical JSON
    /// has the keys in order, no white space, and no escape that JSON does not require. serde_json writes it like that, because the fields
    /// are in the order of their names, and the numbers are integers.
    pub fn hash(&self) -> String {
        sha256(&serde_json::to_vec(self).expect("texts and integers have a JSON form"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    /// Returns the block of the page behind a comment.
    fn example(name: &str) -> &'static str {
        let page = include_str!("../../../../docs/guide/evidence.md");
        let (_, rest) = page.split_once(&format!("<!-- evidence: {name} -->\n```")).unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        rest.split_once("\n```").unwrap().0
    }

    #[test]
    fn the_page_for_auditors_shows_the_canonical_form_and_its_hash() {
        let mut row: AuditRow = serde_json::from_str(example("row")).unwrap();
        assert_eq!(serde_json::to_string(&row).unwrap(), example("row"));
        assert_eq!(row.hash(), example("hash"));
        row.reason = Some("\u{8}\u{c}\n\r\t\"\\ \u{1} \u{7f}\u{2028}/".into());
        let json = serde_json::to_string(&row).unwrap();
        let sorted: BTreeMap<String, Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(json, serde_json::to_string(&sorted).unwrap());
        assert!(json.contains("\"\\b\\f\\n\\r\\t\\\"\\\\ \\u0001 \u{7f}\u{2028}/\""), "{json}");
    }
}
