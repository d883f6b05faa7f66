//! Links between the files of the repository.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use regex::Regex;

use crate::{documents, prose, root};

/// Returns the anchors that GitHub makes of the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).expect("a page");
    let mut in_block = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if !in_block && line.starts_with('#') && heading.starts_with(' ') {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            anchors.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
        }
    }
    anchors
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut broken = String::new();
    for document in documents() {
        for target in link.captures_iter(&prose(&document.text)).map(|found| found[1].to_owned()) {
            if target.contains(':') {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let from = root().join(&document.path);
            let to = if path.is_empty() { from } else { from.parent().expect("a folder").join(path) };
            if !to.exists() || !(anchor.is_empty() || anchors(&to).contains(anchor)) {
                writeln!(broken, "{}: {target}", document.path.display()).expect("a string takes text");
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{broken}");
}
