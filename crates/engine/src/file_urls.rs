//! The rule for files that models get by URL.
//!
//! A provider fetches the URLs that it gets, and a provider that the operator runs does so inside the operator's network. A user who could
//! name any URL would read, through the provider, what only that network can reach. So a URL is passed on only if the settings allow its
//! host. It is passed on as the parser wrote it, because parsers disagree about odd spellings. Names are not resolved: the provider has to
//! check the addresses of public names.

use fermata_tools::HostName;
use url::{Host, Url};

use crate::{
    model::{ModelContent, ModelMessage},
    store::STORED_FILE,
};

/// The files that a model gets by URL. Data URLs are always passed on, because nothing has to be fetched for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileUrls {
    /// No files but those of data URLs.
    Data,
    /// Files of `https:` URLs that do not lead to private addresses or names.
    #[default]
    Https,
    /// Files of `https:` and `http:` URLs at these hosts, private or not; `*.example.com` is any name below `example.com`.
    Hosts(Vec<String>),
}

/// The reason for which a URL is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileUrlRefusal {
    /// The text is not a URL.
    #[error("its URL leads nowhere")]
    Unreadable,
    /// No URL with this scheme is passed on.
    #[error("its URL begins with {0}:")]
    Scheme(String),
    /// The host is private.
    #[error("its URL leads to {0}, which is private")]
    Private(String),
    /// The host is not among those that the operator allows.
    #[error("its URL leads to {0}")]
    Host(String),
}

/// The number of characters of a URL that a model gets if it does not get the file.
const SHOWN_CHARACTERS: usize = 300;

// === impl FileUrls ===

impl FileUrls {
    /// Checks a URL. Returns it as it is to be passed on.
    ///
    /// # Errors
    /// Returns an error if the URL is not to be passed on.
    pub fn check(&self, url: &str) -> Result<String, FileUrlRefusal> {
        if is_data(url) {
            return Ok(url.to_owned());
        }
        let parsed = Url::parse(url).map_err(|_| FileUrlRefusal::Unreadable)?;
        let scheme = || FileUrlRefusal::Scheme(parsed.scheme().to_owned());
        let Some(host) = parsed.host() else { return Err(scheme()) };
        let is_allowed = match (self, parsed.scheme()) {
            (Self::Https, "https") if HostName::of_url(&parsed).is_none_or(|host| !host.is_public()) => {
                return Err(FileUrlRefusal::Private(host.to_string()));
            }
            (Self::Https, "https") => true,
            (Self::Hosts(hosts), "https" | "http") => {
                let host = host.to_string();
                let name = host.strip_suffix('.').unwrap_or(&host);
                hosts.iter().any(|allowed| match allowed.strip_prefix('*') {
                    Some(suffix) => name.ends_with(suffix),
                    None => name == allowed,
                })
            }
            (Self::Data, "https" | "http") => false,
            (Self::Https | Self::Data | Self::Hosts(_), _) => return Err(scheme()),
        };
        if is_allowed { Ok(parsed.into()) } else { Err(FileUrlRefusal::Host(host.to_string())) }
    }

    /// Returns the hint for a sender whose file is refused: what the sender can do, and what the operator can do.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Data => "Send it as a data URL: this server takes no others (file_urls = \"data\").",
            Self::Https => {
                "Send it as a data URL, or by https: from a public host; the operator can name other hosts in file_urls."
            }
            Self::Hosts(_) => {
                "Send it as a data URL, or from one of the hosts that the operator names in file_urls."
            }
        }
    }

    /// Applies the rule to all files of the messages: a file that is refused is replaced by a text with its URL.
    pub(crate) fn apply_to_messages(&self, messages: &mut [ModelMessage]) {
        for message in messages {
            match message {
                ModelMessage::User(content) | ModelMessage::Tool { content, .. } => {
                    for piece in content {
                        self.apply(piece);
                    }
                }
                ModelMessage::System(_) | ModelMessage::Assistant { .. } => {}
            }
        }
    }

    /// Applies the rule to one piece of content: a file that is refused is replaced by a text with its URL.
    pub(crate) fn apply(&self, piece: &mut ModelContent) {
        let ModelContent::File { media_type, url, filename } = piece else { return };
        if is_data(url) || url.starts_with(STORED_FILE) {
            return;
        }
        match self.check(url) {
            Ok(as_parsed) => *url = as_parsed,
            Err(refusal) => {
                let name = filename.as_deref().unwrap_or("a file");
                let link: String = url.chars().take(SHOWN_CHARACTERS).collect();
                *piece =
                    ModelContent::Text(format!("[{name} ({media_type}) at {link} is not shown: {refusal}]"));
            }
        }
    }
}

/// Parses a host and returns it as a parsed URL has it: in lower case, and an address in its usual spelling. `*.` may precede a name.
/// Returns `None` if the text is not a host.
pub fn parse_host(text: &str) -> Option<String> {
    let (wildcard, name) = match text.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", text),
    };
    Some(format!("{wildcard}{}", Host::parse(name).ok()?))
}

fn is_data(url: &str) -> bool {
    // A data URL may be megabytes, which no parser needs to copy.
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(files: &FileUrls, urls: &[&str]) {
        for url in urls {
            assert!(files.check(url).is_err(), "{url} was passed on as {:?}", files.check(url));
        }
    }

    #[test]
    fn public_files_are_passed_on_as_the_parser_wrote_them() {
        for (url, passed_on) in [
            ("https://example.com/a.png?b=c#d", "https://example.com/a.png?b=c#d"),
            ("HTTPS://Example.COM:8443/a b", "https://example.com:8443/a%20b"),
            ("https://1.1.1.1/a", "https://1.1.1.1/a"),
            ("https://[2606:4700::1111]/a", "https://[2606:4700::1111]/a"),
            // Other parsers read the backslash as a part of the name before an @, and go to the address behind it.
            ("https://example.com\\@127.0.0.1/", "https://example.com/@127.0.0.1/"),
            ("data:image/png;base64,AAAA", "data:image/png;base64,AAAA"),
            ("DATA:,x", "DATA:,x"),
        ] {
            assert_eq!(FileUrls::Https.check(url).as_deref(), Ok(passed_on), "{url}");
        }
    }

    #[test]
    fn no_spelling_of_a_private_address_is_passed_on() {
        refused(
            &FileUrls::Https,
            &[
                "https://127.0.0.1/a",
                "https://127.1/a",
                "https://2130706433/",
                "https://0x7f000001/",
                "https://0x7f.0.0.1/",
                "https://0177.0.0.1/",
                "https://１２７.０.０.１/",
                "https://0/",
                "https://0.0.0.0/",
                "https://10.1.2.3/",
                "https://172.16.0.1/",
                "https://192.168.0.1/",
                "https://100.64.0.1/",
                "https://169.254.169.254/latest/meta-data",
                "https://2852039166/latest/meta-data",
                "https://0xa9fea9fe/",
                "https://255.255.255.255/",
                "https://[::1]/",
                "https://[::]/",
                "https://[::ffff:169.254.169.254]/",
                "https://[::ffff:a9fe:a9fe]/",
                "https://[64:ff9b::a9fe:a9fe]/",
                "https://[2002:7f00:1::]/",
                "https://[fd00:ec2::254]/",
                "https://[fe80::1]/",
                "https://localhost/",
                "https://LOCALHOST./",
                "https://x.localhost/",
                "https://metadata.google.internal/computeMetadata/v1/",
                "https://printer.local/",
                "https://redis/",
                "https://user@127.0.0.1/",
                "https://example.com@127.0.0.1/",
                " https://127.0.0.1/",
                "ht\ntps://127.0.0.1/",
            ],
        );
    }

    #[test]
    fn only_https_is_passed_on_unless_the_operator_names_the_host() {
        let other =
            ["http://example.com/a", "file:///etc/passwd", "gopher://example.com/", "ftp://example.com/a"];
        let nothing = [
            "",
            "a.png",
            "/etc/passwd",
            "//example.com/a",
            "blob:https://example.com/1",
            "https://",
            "javascript:1",
            "stored-file:1",
        ];
        for files in [FileUrls::Data, FileUrls::Https] {
            refused(&files, &other);
            refused(&files, &nothing);
        }
        refused(&FileUrls::Data, &["https://example.com/a"]);
        let hosts = ["cdn.example.com", "*.files.example", "10.0.0.7"].map(|host| parse_host(host).unwrap());
        let files = FileUrls::Hosts(hosts.into());
        refused(&files, &other);
        refused(&files, &nothing);
        refused(
            &files,
            &[
                "https://example.com/a",
                "https://files.example/a",
                "https://10.0.0.8/",
                "https://xfiles.example/",
            ],
        );
        for url in [
            "http://10.0.0.7:9000/a",
            "https://CDN.example.com/a",
            "https://a.files.example/",
            "http://167772167/",
        ] {
            assert!(files.check(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_file_that_is_not_passed_on_becomes_a_text_with_its_address() {
        let file = |url: &str| ModelContent::File {
            media_type: "image/png".into(),
            url: url.into(),
            filename: Some("a.png".into()),
        };
        let mut messages =
            [ModelMessage::User(vec![file("http://127.0.0.1:6379/x"), file("https://example.com/b")])];
        FileUrls::Https.apply_to_messages(&mut messages);
        let text = "[a.png (image/png) at http://127.0.0.1:6379/x is not shown: its URL begins with http:]";
        assert_eq!(
            messages,
            [ModelMessage::User(vec![ModelContent::Text(text.into()), file("https://example.com/b")])]
        );
    }
}
