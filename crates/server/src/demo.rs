//! The web demo as the binary carries it: a few pages and what they load, by the paths they are asked for under.
//!
//! What was there when the crate was built is embedded, also in debug builds; where nothing was, there is no demo. Knows no request.
//! Invariant: a path finds what was embedded under exactly that path, or nothing; no path reaches the file system.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::{body::Bytes, http::HeaderValue};
use rust_embed::RustEmbed;

/// Files by the paths of their URLs. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Demo(Arc<BTreeMap<String, File>>);

/// A file of the demo.
#[derive(Clone, Debug)]
pub struct File {
    /// What is in it.
    pub bytes: Bytes,
    /// What it is.
    pub content_type: HeaderValue,
    /// Changes with the bytes. It is weak, because a compressed response has it too.
    pub etag: HeaderValue,
    /// Whether the path names these very bytes, so that nobody has to ask again.
    pub is_immutable: bool,
}

/// Where names carry a hash of what they name.
pub const ASSETS: &str = "/assets/";

#[derive(RustEmbed)]
#[folder = "../../web-demo/dist"]
#[allow_missing = true]
struct Built;

// === impl Demo ===

impl Demo {
    /// The demo that was there when this crate was built; empty where none was.
    pub fn built() -> Self {
        let bytes = |name: &str| match Built::get(name)?.data {
            Cow::Borrowed(bytes) => Some(Bytes::from_static(bytes)),
            Cow::Owned(bytes) => Some(bytes.into()),
        };
        Self::of(Built::iter().filter_map(|name| Some((name.to_string(), bytes(&name)?))))
    }

    /// A demo of these files, by their paths in its folder. `index.html` is asked for as `/`, another page of the folder by its name
    /// alone. Hidden files are left out.
    pub fn of(files: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        let shown = files.into_iter().filter(|(name, _)| !name.split('/').any(|part| part.starts_with('.')));
        Self(Arc::new(shown.map(|(name, bytes)| (path(&name), File::new(&name, bytes))).collect()))
    }

    /// What is at this path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.0.get(path)
    }

    /// The paths at which something is.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Under which path a file is asked for.
fn path(name: &str) -> String {
    match name.strip_suffix(".html").filter(|page| !page.contains('/')) {
        Some("index") => "/".into(),
        Some(page) => format!("/{page}"),
        None => format!("/{name}"),
    }
}

// === impl File ===

impl File {
    fn new(name: &str, bytes: Bytes) -> Self {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = format!("W/\"{:016x}\"", hasher.finish());
        Self {
            content_type: content_type(name),
            etag: HeaderValue::try_from(etag).unwrap_or(HeaderValue::from_static("W/\"0\"")),
            is_immutable: path(name).starts_with(ASSETS),
            bytes,
        }
    }

    /// Whether it is a page, which may do what its content security policy lets it.
    pub fn is_page(&self) -> bool {
        self.content_type.as_bytes().starts_with(b"text/html")
    }
}

fn content_type(name: &str) -> HeaderValue {
    let guess = mime_guess::from_path(name).first_or_octet_stream();
    let charset = if guess.type_() == mime_guess::mime::TEXT { "; charset=utf-8" } else { "" };
    let octets = HeaderValue::from_static("application/octet-stream");
    HeaderValue::try_from(format!("{}{charset}", guess.essence_str())).unwrap_or(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_asked_for_by_name_and_files_by_path() {
        let names = ["index.html", "assistant-ui.html", "favicon.svg", "assets/a-1.js", "deep/page.html"];
        let hidden = [".vite/manifest.json", ".DS_Store", "assets/.map"];
        let demo = Demo::of(names.iter().chain(&hidden).map(|name| ((*name).into(), Bytes::new())));
        let paths: Vec<_> = demo.paths().collect();
        assert_eq!(paths, ["/", "/assets/a-1.js", "/assistant-ui", "/deep/page.html", "/favicon.svg"]);
    }

    #[test]
    fn every_kind_of_file_has_its_type() {
        for (name, kind) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.woff2", "font/woff2"),
            ("a.json", "application/json"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.what", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), kind, "{name}");
        }
    }

    #[test]
    fn what_is_embedded_has_a_page_or_is_nothing() {
        let built = Demo::built();
        assert_eq!(built.get("/").is_some_and(File::is_page), built.paths().next().is_some());
    }
}
