//! The tool `fetch_url`.

use async_trait::async_trait;
use encoding_rs::{Encoding, UTF_8};
use fermata_tools::{
    CallContext, CallDetails, Confirm, Decision, ErrorType, Resource, Scope, ToolError, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::web::{
    Fetched, MAX_BODY, TIMEOUT, WebClient, is_same_site,
    page::{Page, readable, visible},
};

/// The tool that reads a page of the web.
pub struct FetchUrl {
    /// The client that connects to public addresses only.
    pub web: WebClient,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`FetchUrl`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The URL of the page, with http: or https:.
    url: String,
}

/// The limit on redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// The limit on the text in an output, in bytes.
const MAX_TEXT: usize = 100_000;
/// The length of the first part of a page, where it may name its own encoding, in bytes.
const ENCODING_WITHIN: usize = 1_024;

#[async_trait]
impl TypedTool for FetchUrl {
    const NAME: &'static str = "fetch_url";
    const TITLE: Option<&'static str> = Some("Read a page of the web");
    const DESCRIPTION: &'static str = "Fetches a page of the web and returns its text with its links. If the page has moved \
                                       elsewhere, returns the new URL instead.";
    const POLICY: Decision = Decision::Ask;
    const REPEATABLE: bool = true;
    const EMPTY_AT: Option<&'static str> = Some("text");
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::web_of_owner())
    }

    fn describe(&self, input: &Input) -> Option<String> {
        Some(format!("Read {}", input.url))
    }

    fn confirm(&self, input: &Input) -> Confirm {
        // A text that is no URL fails when the call runs.
        let Ok(url) = Url::parse(&input.url) else { return Confirm::Allow };
        match self.web.refusal(&url) {
            Some(reason) => Confirm::Deny(reason),
            None => Confirm::ByPolicy(Some(CallDetails::Info { text: format!("GET {url}") })),
        }
    }

    fn reads_from(&self, input: &Input) -> Option<String> {
        Some(input.url.clone())
    }

    /// The address is what a page of the web can turn against the user: a grant is for one host, and for no port but the one named.
    fn scopes(&self, input: &Input) -> Option<Vec<Scope>> {
        let url = Url::parse(&input.url).ok();
        Some(url.and_then(|url| Scope::host(Self::NAME, &url)).into_iter().collect())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let url = Url::parse(&input.url).map_err(|error| {
            ToolError::new(ErrorType::InvalidFormat, format!("{:?} is not a URL: {error}.", input.url))
        })?;
        let fetched = tokio::time::timeout(TIMEOUT, self.follow(url, &context)).await.unwrap_or_else(|_| {
            let text = format!("The page did not come within {} seconds.", TIMEOUT.as_secs());
            Err(ToolError::new(ErrorType::Timeout, text))
        });
        match fetched? {
            Fetched::Moved { to } => Ok(match self.web.refusal(&to) {
                None => json!({
                    "movedTo": to.as_str(),
                    "text": format!("The page has moved. To read it, fetch {to}."),
                }),
                Some(reason) => {
                    json!({"text": format!("The page has moved to where nothing is fetched. {reason}")})
                }
            }),
            Fetched::Body { url, content_type, bytes, is_cut } => {
                // A page of two megabytes takes some milliseconds, which other tasks of this thread would wait for.
                let read = tokio::task::spawn_blocking(move || output(&url, &content_type, &bytes, is_cut));
                read.await.map_err(|_| ToolError::internal("The page could not be read."))?
            }
        }
    }
}

impl FetchUrl {
    /// Fetches a URL and follows its redirects within its site, each of them only if a call with its URL would run unasked.
    async fn follow(&self, mut url: Url, context: &CallContext) -> Result<Fetched, ToolError> {
        for _ in 0..=MAX_REDIRECTS {
            match self.web.fetch(url.clone()).await? {
                Fetched::Moved { to }
                    if is_same_site(&url, &to)
                        && context.decide(json!({"url": to.as_str()})).await == Decision::Allow =>
                {
                    url = to;
                }
                fetched @ (Fetched::Moved { .. } | Fetched::Body { .. }) => return Ok(fetched),
            }
        }
        let text = format!("The page redirects more than {MAX_REDIRECTS} times.");
        Err(ToolError::new(ErrorType::InvalidFormat, text))
    }
}

/// Returns a page for the model.
fn output(url: &Url, content_type: &str, bytes: &[u8], is_cut: bool) -> Result<Value, ToolError> {
    let (media_type, charset) = parts_of(content_type);
    let is_html = match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => bytes.trim_ascii_start().starts_with(b"<"),
        _ => false,
    };
    if !is_html && !is_text(&media_type) {
        let text = format!("It is {media_type}, and only text is read.");
        return Err(ToolError::new(ErrorType::InvalidFormat, text));
    }
    let own_charset = if is_html { charset_within(&bytes[..bytes.len().min(ENCODING_WITHIN)]) } else { None };
    let encoding = charset.or(own_charset).unwrap_or(UTF_8);
    // A byte order mark overrides every declaration.
    let (text, _, _) = encoding.decode(bytes);
    if media_type.is_empty() && text.contains('\0') {
        return Err(ToolError::new(
            ErrorType::InvalidFormat,
            "It does not say what it is, and it is not text.",
        ));
    }
    let page = if is_html {
        readable(&text, url, MAX_TEXT)
    } else {
        let shown = &text[..text.floor_char_boundary(MAX_TEXT)];
        Page {
            title: String::new(),
            text: visible(shown).trim().to_owned(),
            is_cut: shown.len() < text.len(),
        }
    };
    let mut output = json!({"url": url.as_str(), "text": page.text});
    if !page.title.is_empty() {
        output["title"] = json!(page.title);
    }
    if page.is_cut {
        output["cut"] =
            json!(format!("The page goes on; this is the beginning of its text, about {MAX_TEXT} bytes."));
    } else if is_cut {
        output["cut"] = json!(format!("The page goes on; these are the first {MAX_BODY} bytes."));
    }
    Ok(output)
}

/// Returns the media type in small letters, and the encoding that it names.
fn parts_of(content_type: &str) -> (String, Option<&'static Encoding>) {
    let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let charset = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("charset") { Some(value.trim().trim_matches('"')) } else { None }
    });
    let encoding = charset.and_then(|charset| Encoding::for_label(charset.as_bytes()));
    (media_type.trim().to_ascii_lowercase(), encoding)
}

/// Returns the encoding that a page names itself, in `<meta charset>` or in the older `<meta content="…; charset=…">`.
fn charset_within(beginning: &[u8]) -> Option<&'static Encoding> {
    let beginning = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let (_, rest) = beginning.split_once("charset=")?;
    let label: String = rest
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(*letter))
        .collect();
    Encoding::for_label(label.as_bytes())
}

fn is_text(media_type: &str) -> bool {
    let has_text_syntax = ["json", "xml", "yaml"].iter().any(|syntax| {
        media_type.strip_suffix(syntax).is_some_and(|rest| rest.ends_with('+') || rest == "application/")
    });
    has_text_syntax
        || media_type.is_empty()
        || media_type.starts_with("text/")
        || media_type == "application/javascript"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, bytes: &[u8]) -> Result<Value, ToolError> {
        output(&Url::parse("https://example.com/").unwrap(), content_type, bytes, false)
    }

    fn text(content_type: &str, bytes: &[u8]) -> String {
        read(content_type, bytes).unwrap()["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_page_is_read_in_its_own_encoding() {
        assert_eq!(text("text/html; charset=ISO-8859-1", b"<p>caf\xe9"), "café");
        assert_eq!(text("text/html", b"<meta charset='windows-1252'><p>caf\xe9"), "café");
        assert_eq!(
            text("text/html", b"<meta http-equiv=content-type content=\"text/html; charset=gbk\">\xd6\xd0"),
            "中"
        );
        assert_eq!(text("Text/HTML; x=y; charset=\"utf-8\"", "<p>中".as_bytes()), "中");
        assert_eq!(
            text("text/plain; charset=latin1", b"\xef\xbb\xbfcaf\xc3\xa9"),
            "café",
            "the mark goes first"
        );
        assert_eq!(
            text("text/plain; charset=nonsense", "é <b>".as_bytes()),
            "é <b>",
            "plain text has no tags"
        );
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for (content_type, bytes) in
            [("image/png", &b"x"[..]), ("application/pdf", b"%PDF"), ("", b"\x00\x01")]
        {
            let error = read(content_type, bytes).unwrap_err();
            assert_eq!(error.error_type, ErrorType::InvalidFormat, "{content_type}");
        }
        assert_eq!(text("application/problem+json", b"{}"), "{}");
        assert_eq!(text("", b"  <html><p>x"), "x", "a page that does not say what it is");
    }

    #[test]
    fn a_long_page_says_that_it_is_cut() {
        let output = read("text/plain", &vec![b'x'; MAX_TEXT + 1]).unwrap();
        assert_eq!(output["text"].as_str().unwrap().len(), MAX_TEXT);
        assert!(output["cut"].as_str().unwrap().contains("goes on"));
    }
}
