//! `docs/guide/limits.md` lists every setting that is a size, a number or a time, with the consequence of exceeding it.
//!
//! The page is written from the list of settings: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits`.

use super::super::{SETTINGS, Setting};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/limits.md");

const HEAD: &str = "\
# Limits

<!-- Written by crates/server/src/config/tests/limits.rs; the head of that file says how. -->

These settings limit the size, the number and the duration of what clients, pages, models and tools send. Each is a key of
`fermata.toml`, and an environment variable and an option of the same name unless the table says *file only*. An error names
the limit.

| limit | default | over it |
| --- | --- | --- |
";

fn row(setting: &Setting) -> Option<String> {
    let Setting { key, about, default, over, .. } = setting;
    let over = over.as_ref()?;
    let default = default.as_ref().map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
    let file_only = if setting.variable.is_none() { " (file only)" } else { "" };
    Some(format!("| `{key}`{file_only}<br>{about} | {default} | {over} |\n"))
}

#[test]
fn every_measure_says_what_a_client_gets_that_goes_over_it() {
    for Setting { key, over, value_name, .. } in SETTINGS.iter() {
        let is_measure = ["SIZE", "NUMBER", "TIME"].iter().any(|measure| value_name.contains(measure));
        assert_eq!(
            over.is_some(),
            is_measure,
            "{key}: a size, a number or a time has `x-over`, and nothing else has"
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
    let help = "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits writes docs/guide/limits.md";
    assert_eq!(written, page, "{help}");
}
