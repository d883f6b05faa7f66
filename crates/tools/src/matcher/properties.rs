//! Properties that hold for every matcher and every input.

use std::path::{Component, Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decimal, Folder, HostPattern, Matcher, Program, Side, TextRegex};
use crate::Pattern;

/// Generates texts that are often almost a path, a URL or a number.
fn odd_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/",
        "//",
        ".",
        "..",
        "../",
        "\\",
        "\0",
        "srv",
        "safe",
        "etc",
        "a",
        " ",
        "\t",
        "@",
        ":",
        "%2f",
        "%00",
        "http://",
        "file:",
        "127.0.0.1",
        "0x7f",
        "[::1]",
        "[::ffff:7f00:1]",
        "example.com",
        "*",
        "?",
        "#",
        "1e3",
        "-",
        "0",
        "9",
        "é",
        "\u{202e}",
        "。",
    ]);
    prop_oneof![prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat()), any::<String>()]
}

fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        odd_text().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((odd_text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn matcher() -> impl Strategy<Value = Matcher> {
    let leaf = prop_oneof![
        odd_text().prop_map(|glob| Matcher::Glob(Pattern::new(&glob))),
        odd_text().prop_map(Matcher::Literal),
        odd_text()
            .prop_map(|text| Folder::new(&text).map_or_else(|_| Matcher::Literal(text), Matcher::Under)),
        odd_text()
            .prop_map(|text| HostPattern::new(&text).map_or_else(|_| Matcher::Literal(text), Matcher::Host)),
        odd_text()
            .prop_map(|text| TextRegex::new(&text).map_or_else(|_| Matcher::Literal(text), Matcher::Regex)),
        (odd_text(), prop::collection::vec(odd_text(), 0..2)).prop_map(|(text, args)| {
            Program::new(&text, args).map_or_else(|_| Matcher::Literal(text), Matcher::Program)
        }),
        (odd_text(), odd_text())
            .prop_map(|(min, max)| Matcher::Between { min: Decimal::parse(&min), max: Decimal::parse(&max) }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|matcher| Matcher::Not(Box::new(matcher))),
            prop::collection::vec(inner.clone(), 1..3).prop_map(Matcher::OneOf),
            prop::collection::vec(inner, 1..3).prop_map(Matcher::All),
        ]
    })
}

/// Returns a path with `..` resolved as text, by the components of std.
fn lexically(path: &str) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => _ = cleaned.pop(),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => cleaned.push(component),
        }
    }
    cleaned
}

proptest! {
    #[test]
    fn what_matches_to_allow_matches_to_restrict(matcher in matcher(), value in odd_value()) {
        prop_assert!(!matcher.matches(&value, Side::Allows) || matcher.matches(&value, Side::Restricts));
        // Every matcher can be formatted.
        let _ = matcher.to_string();
    }

    #[test]
    fn nothing_is_under_a_folder_that_lexical_cleaning_puts_outside(path in odd_text()) {
        for folder in ["/srv/safe", "/etc", "/a"] {
            let under = Matcher::Under(Folder::new(folder).unwrap());
            let value = Value::from(path.clone());
            if under.matches(&value, Side::Allows) {
                prop_assert!(path.starts_with('/') && !path.contains('\0'));
                prop_assert!(lexically(&path).starts_with(folder), "{path:?} is not in {folder}");
                prop_assert!(lexically(&path.replace('\\', "/")).starts_with(folder));
            }
            if path.starts_with('/') && !path.contains('\0') && lexically(&path).starts_with(folder) {
                prop_assert!(under.matches(&value, Side::Restricts), "{path:?} is in {folder}");
            }
        }
    }

    #[test]
    fn a_host_that_matches_to_allow_is_the_one_that_the_url_standard_reads(text in odd_text()) {
        let host = HostPattern::new("example.com").unwrap();
        if Matcher::Host(host).matches(&Value::from(text.clone()), Side::Allows) {
            let url = url::Url::parse(&text).unwrap();
            prop_assert_eq!(url.host_str().map(|host| host.trim_end_matches('.')), Some("example.com"));
        }
    }

    #[test]
    fn a_number_equals_what_it_is_written_as(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let spelled = json!(number).to_string();
        let decimal = Decimal::parse(&spelled).unwrap();
        if let Some(plain) = decimal.plain() {
            prop_assert_eq!(Decimal::parse(&plain).unwrap(), decimal);
            prop_assert_eq!(plain.parse::<f64>().unwrap(), number);
        }
    }

    #[test]
    fn numbers_are_ordered_as_their_values_are(one in any::<i64>(), other in any::<i64>()) {
        let decimal = |number: i64| Decimal::parse(&number.to_string()).unwrap();
        prop_assert_eq!(decimal(one).cmp(&decimal(other)), one.cmp(&other));
    }
}
