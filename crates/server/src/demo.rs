//! The files of the web demo, which are embedded in the binary.
//!
//! The files that exist at build time are embedded, even in debug builds; without them there is no demo. This module does not know
//! requests. Invariant: a path finds only the file that was embedded under exactly that path; no path reaches the file system.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::{body::Bytes, http::HeaderValue};
use rust_embed::RustEmbed;

/// The demo's files by the paths of their URLs. Clones share the files.
#[derive(Clone, Debug, Default)]
pub struct Demo(Arc<BTreeMap<String, File>>);

/// A file of the demo.
#[derive(Clone, Debug)]
pub struct File {
    /// The content.
    pub bytes: Bytes,
    /// The media type.
    pub content_type: HeaderValue,
    /// A hash of the content. It is weak, because compressed responses also have it.
    pub etag: HeaderValue,
    /// True if the path contains a hash of the content, so that caches never have to revalidate it.
    pub is_immutable: bool,
}

/// The folder of the files whose names contain a hash of their content.
pub const ASSETS: &str = "/assets/";

#[derive(RustEmbed)]
#[folder = "web-demo"]
#[allow_missing = true]
struct Built;

// === impl Demo ===

impl Demo {
    /// Returns the demo that was built before this crate; empty if there was none.
    pub fn built() -> Self {
        let mut files = Vec::new();
        for name in Built::iter() {
            let Some(file) = Built::get(&name) else { continue };
            let bytes = match file.data {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => bytes.into(),
            };
            // The hash was made when the file was embedded, so nothing of the file has to be read into memory before somebody asks for it.
            let [a, b, c, d, e, f, g, h, ..] = file.metadata.sha256_hash();
            let hash = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            files.push((name.to_string(), File::new(&name, bytes, hash)));
        }
        Self::with(files)
    }

    /// Creates a demo of these files, given by their paths in its folder. The path of `index.html` is `/`, and that of another page in the
    /// folder is its name without `.html`. Hidden files are left out.
    pub fn of(files: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        Self::with(files.into_iter().map(|(name, bytes)| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            let file = File::new(&name, bytes, hasher.finish());
            (name, file)
        }))
    }

    fn with(files: impl IntoIterator<Item = (String, File)>) -> Self {
        let mut visible = BTreeMap::new();
        for (name, file) in files {
            let is_hidden = name.split('/').any(|part| part.starts_with('.'));
            if !is_hidden {
                visible.insert(path(&name), file);
            }
        }
        Self(Arc::new(visible))
    }

    /// Returns the file at this path.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.0.get(path)
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Returns the path of a file's URL.
fn path(name: &str) -> String {
    match name.strip_suffix(".html").filter(|page| !page.contains('/')) {
        Some("index") => "/".into(),
        Some(page) => format!("/{page}"),
        None => format!("/{name}"),
    }
}

// === impl File ===

impl File {
    fn new(name: &str, bytes: Bytes, hash: u64) -> Self {
        let etag = format!("W/\"{hash:016x}\"");
        Self {
            content_type: content_type(name),
            etag: HeaderValue::try_from(etag).unwrap_or(HeaderValue::from_static("W/\"0\"")),
            is_immutable: path(name).starts_with(ASSETS),
            bytes,
        }
    }

    /// Returns whether the file is a page, which needs a content security policy.
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
    fn pages_have_paths_without_an_extension_and_files_with_one() {
        let names = ["index.html", "assistant-ui.html", "favicon.svg", "assets/a-1.js", "deep/page.html"];
        let hidden = [".vite/manifest.json", ".DS_Store", "assets/.map"];
        let demo = Demo::of(names.iter().chain(&hidden).map(|name| ((*name).into(), Bytes::new())));
        let paths: Vec<_> = demo.paths().collect();
        assert_eq!(paths, ["/", "/assets/a-1.js", "/assistant-ui", "/deep/page.html", "/favicon.svg"]);
    }

    #[test]
    fn every_kind_of_file_has_its_media_type() {
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
    fn the_embedded_demo_has_a_first_page_or_no_files() {
        let built = Demo::built();
        assert_eq!(built.get("/").is_some_and(File::is_page), built.paths().next().is_some());
    }
}
