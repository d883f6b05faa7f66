//! `docs/limits.md` says of every setting that is a size, a number or a time what a client gets that goes over it.
//!
//! The page is written from the table of settings: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits`.

use super::super::{SETTINGS, Setting};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");

const HEAD: &str = "\
# Limits

<!-- Written by crates/server/src/config/tests/limits.rs; the head of that file says how. -->

These are the settings that bound what clients, pages, models and tools may send, and how long each may take. Each is a key of
`fermata.toml`, and the environment variable and the option of the same name. An error says which limit it was.

| limit | default | over it |
| --- | --- | --- |
";

fn row(setting: &Setting) -> Option<String> {
    let over = setting.over?;
    let default = setting.default.map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
    let Setting { key, about, .. } = setting;
    Some(format!("| `{key}`<br>{about} | {default} | {over} |\n"))
}

#[test]
fn every_measure_says_what_a_client_gets_that_goes_over_it() {
    for Setting { key, over, is_measure, .. } in SETTINGS {
        assert_eq!(
            over.is_some(),
            *is_measure,
            "{key}: in the table of settings, a size, a number or a time has `over \"…\"`, and nothing else has"
        );
    }
}

#[test]
fn the_page_of_limits_is_that_of_the_settings() {
    let page: String = std::iter::once(HEAD.to_owned()).chain(SETTINGS.iter().filter_map(row)).collect();
    if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        std::fs::write(PAGE, &page).expect("docs can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    let help = "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits writes docs/limits.md anew";
    assert_eq!(written, page, "{help}");
}
