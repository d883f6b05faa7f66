//! The Markdown files of the repository: their links lead somewhere, and their English is plain.
//!
//! The rules of `wording` find constructions that read oddly. They know no grammar, so a file may have one hit in 2,000 words.

mod links;
mod wording;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Markdown file.
struct Document {
    /// The path from the root of the repository.
    path: PathBuf,
    text: String,
}

/// Returns all Markdown files, except those of installed packages and build folders.
fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    collect(&root(), &mut found);
    assert!(found.len() > 50, "only {} Markdown files were found", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<Document>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            let is_ours = name == ".github" || !name.starts_with('.');
            if is_ours && !["node_modules", "target", "dist", "test-results"].contains(&name) {
                collect(&path, found);
            }
        } else if name.ends_with(".md") {
            let text = fs::read_to_string(&path).expect("a text");
            let path = path.strip_prefix(root()).expect("a path below the root").to_owned();
            found.push(Document { path, text });
        }
    }
}

/// Replaces code and quotations by spaces, so that places in the text stay the same.
fn prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut in_block = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || in_block {
            prose.push_str(&blank(line));
        } else {
            prose.push_str(line);
        }
        in_block ^= is_fence;
    }
    for (opening, closing) in [('`', '`'), ('“', '”')] {
        let mut parts = String::with_capacity(prose.len());
        let mut rest = prose.as_str();
        while let Some((before, (inside, after))) =
            rest.split_once(opening).and_then(|(before, tail)| Some((before, tail.split_once(closing)?)))
        {
            parts.push_str(before);
            parts.push_str(&blank(&format!("{opening}{inside}{closing}")));
            rest = after;
        }
        parts.push_str(rest);
        prose = parts;
    }
    prose
}

/// Returns a text with the same lines. Every other character of it is an `x`.
fn blank(text: &str) -> String {
    text.chars().map(|character| if character == '\n' { '\n' } else { 'x' }).collect()
}
