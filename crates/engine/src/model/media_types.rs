//! The files that models take, by their media types.
//!
//! A file that no API takes would be refused with each request of its chat. This module knows no provider: one that takes less gets a line
//! of text in place of the file.

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// The files that models take, as a text for people.
pub(crate) const TAKEN: &str = "text, images, PDF documents, and audio as WAV or MP3";

/// The media types that nearly every API takes, besides text.
const COMMON: [&str; 11] = [
    "image/png",
    "image/jpeg",
    "image/jpg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/wav",
    "audio/x-wav",
    "audio/wave",
    "audio/mp3",
    "audio/mpeg",
];
/// The syntaxes of text, in media types such as `application/json` and `image/svg+xml`.
const SYNTAXES: [&str; 5] = ["json", "xml", "yaml", "x-yaml", "toml"];
/// Media types of text that match no rule above.
const TEXTS: [&str; 5] = [
    "application/javascript",
    "application/x-javascript",
    "application/sql",
    "application/x-sh",
    "application/x-ndjson",
];

/// Returns whether files of this media type are text.
pub fn is_text(media_type: &str) -> bool {
    let media_type = essence(media_type);
    let has_text_syntax = SYNTAXES.iter().any(|syntax| {
        media_type.strip_suffix(syntax).is_some_and(|rest| rest.ends_with('+') || rest == "application/")
    });
    has_text_syntax || media_type.starts_with("text/") || TEXTS.contains(&media_type.as_str())
}

/// Returns whether a file is text: by its media type, or if that says nothing, by the bytes in its data URL. Browsers know no media type of
/// many text files.
pub fn is_text_file(media_type: &str, url: &str) -> bool {
    let says_nothing = ["", "application/octet-stream"].contains(&essence(media_type).as_str());
    is_text(media_type) || says_nothing && holds_text(url)
}

/// Returns whether nearly every API takes files of this media type.
pub fn is_common(media_type: &str) -> bool {
    is_text(media_type) || COMMON.contains(&essence(media_type).as_str())
}

/// Returns whether some API takes this file. A file elsewhere is always accepted, because the model gets only its URL.
pub fn is_taken(media_type: &str, url: &str) -> bool {
    let is_here = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    !is_here
        || essence(media_type).starts_with("image/")
        || is_common(media_type)
        || is_text_file(media_type, url)
}

fn holds_text(url: &str) -> bool {
    let Some((head, data)) = url.split_once(',') else { return false };
    let bytes = if head.to_ascii_lowercase().ends_with(";base64") {
        BASE64_STANDARD.decode(data.trim()).ok()
    } else {
        None
    };
    bytes.is_some_and(|bytes| !bytes.contains(&0) && str::from_utf8(&bytes).is_ok())
}

/// Returns a media type in lower case, without its parameters.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_as_text_as_it_is_or_not_at_all() {
        let data = |bytes: &[u8]| format!("data:;base64,{}", BASE64_STANDARD.encode(bytes));
        let (text, binary) = (data("Grüß".as_bytes()), data(b"PK\x03\x04\0"));
        for (media_type, url, is_text, is_taken) in [
            ("text/markdown", &binary, true, true),
            ("Text/CSV; charset=utf-8", &binary, true, true),
            ("application/json", &binary, true, true),
            ("application/ld+json", &binary, true, true),
            ("application/x-yaml", &binary, true, true),
            ("image/svg+xml", &binary, true, true),
            ("image/heic", &binary, false, true),
            ("application/pdf", &binary, false, true),
            ("audio/mpeg", &binary, false, true),
            ("audio/ogg", &binary, false, false),
            ("video/mp4", &binary, false, false),
            ("application/zip", &text, false, false),
            ("application/x-msdownload", &binary, false, false),
            ("application/octet-stream", &binary, false, false),
            ("application/octet-stream", &text, true, true),
            ("", &text, true, true),
            ("", &binary, false, false),
            ("", &"data:".to_owned(), false, false),
            ("application/zip", &"https://a.example/a.zip".to_owned(), false, true),
        ] {
            assert_eq!(is_text_file(media_type, url), is_text, "{media_type} {url}");
            assert_eq!(super::is_taken(media_type, url), is_taken, "{media_type} {url}");
        }
    }
}
