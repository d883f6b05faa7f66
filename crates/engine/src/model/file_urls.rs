//! The rule for files that models get by URL.
//!
//! A provider fetches the URLs that it gets, and a provider that the operator runs does so inside the operator's network. A user who could
//! name any URL would read, through the provider, what only that network can reach. So a URL is passed on only if the settings allow its
//! host, and only with the usual port and without credentials. It is passed on as the parser wrote it, because parsers disagree about odd
//! spellings. A name has to lead to public addresses, as far as this server can see; hosts that the operator names are not looked up.

use std::collections::BTreeMap;

use fermata_tools::{HostName, hosts::is_public_address};
use futures::future::join_all;
use url::{Host, Url};

use crate::{
    model::{ModelContent, ModelMessage},
    ports::{
        resolver::{NameRefusal, Resolver, allowed_addresses},
        store::STORED_FILE,
    },
};

/// The files that a model gets by URL. Data URLs are always passed on, because nothing has to be fetched for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileUrls {
    /// No files but those of data URLs.
    Data,
    /// Files of `https:` URLs that do not lead to private addresses or names.
    #[default]
    Https,
    /// Files of `https:` and `http:` URLs at these hosts, private or not; `*.example.com` is any name below `example.com`, and
    /// `example.com:8080` is another port than the usual one.
    Hosts(Vec<String>),
}

/// The reason why a URL is not passed on.
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
    /// The URL has a user name or a password.
    #[error("its URL has a user name or a password")]
    Credentials,
    /// The URL has a port that is not the usual one of its scheme.
    #[error("its URL leads to port {0}")]
    Port(u16),
    /// The name of the host does not lead to public addresses only.
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// The messages name too many hosts.
    #[error("the messages have files at more than {MOST_NAMES} hosts")]
    TooManyNames,
}

/// The number of characters of a URL that a model gets if it does not get the file.
const SHOWN_CHARACTERS: usize = 300;
/// The number of names that are looked up for one request to a model.
const MOST_NAMES: usize = 32;

// === impl FileUrls ===

impl FileUrls {
    /// Checks a URL, as far as it shows without a lookup. Returns it as it is to be passed on.
    ///
    /// # Errors
    /// Returns an error if the URL is not to be passed on.
    pub fn check(&self, url: &str) -> Result<String, FileUrlRefusal> {
        if is_data(url) {
            return Ok(url.to_owned());
        }
        let parsed = Url::parse(url).map_err(|_| FileUrlRefusal::Unreadable)?;
        let scheme = || FileUrlRefusal::Scheme(parsed.scheme().to_owned());
        let (Some(host), "https" | "http") = (HostName::of_url(&parsed), parsed.scheme()) else {
            return Err(scheme());
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(FileUrlRefusal::Credentials);
        }
        match self {
            Self::Data => return Err(FileUrlRefusal::Host(host.to_string())),
            Self::Https if parsed.scheme() != "https" => return Err(scheme()),
            Self::Https => {
                if !host.is_public() {
                    return Err(FileUrlRefusal::Private(host.to_string()));
                }
                if let Some(port) = parsed.port() {
                    return Err(FileUrlRefusal::Port(port));
                }
            }
            Self::Hosts(hosts) => {
                let name = parsed.host_str().unwrap_or_default();
                let name = name.strip_suffix('.').unwrap_or(name);
                let place = parsed.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
                let is_named = hosts.iter().any(|allowed| match allowed.strip_prefix('*') {
                    Some(suffix) => place.ends_with(suffix),
                    None => place == *allowed,
                });
                if !is_named {
                    return Err(FileUrlRefusal::Host(place));
                }
            }
        }
        Ok(parsed.into())
    }

    /// Checks a URL, and looks its name up if that is what counts.
    ///
    /// # Errors
    /// Returns an error if the URL is not to be passed on.
    pub async fn check_name(&self, url: &str, resolver: &dyn Resolver) -> Result<(), FileUrlRefusal> {
        self.check(url)?;
        if let Some(name) = self.name_to_look_up(url) {
            allowed_addresses(resolver, &name, is_public_address).await?;
        }
        Ok(())
    }

    /// Returns the name in a URL, if it decides whether the URL is passed on.
    fn name_to_look_up(&self, url: &str) -> Option<String> {
        if *self != Self::Https || is_data(url) {
            return None;
        }
        match HostName::of_url(&Url::parse(url).ok()?)? {
            HostName::Domain(name) => Some(name),
            HostName::Address(_) => None,
        }
    }

    /// Returns the hint for a sender whose file is refused: the possible steps of the sender and of the operator.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Data => "Send it as a data URL: this server takes no others (file_urls = \"data\").",
            Self::Https => {
                "Send it as a data URL, or by https: from a public host on port 443; the operator can name other hosts in file_urls."
            }
            Self::Hosts(_) => {
                "Send it as a data URL, or from one of the hosts that the operator names in file_urls."
            }
        }
    }

    /// Applies the rule to all files of the messages, as far as it needs no lookup: a file that is refused is replaced by a text with its
    /// URL.
    pub(crate) fn apply_to_messages(&self, messages: &mut [ModelMessage]) {
        for piece in pieces(messages) {
            self.apply(piece);
        }
    }

    /// Applies the rule to one piece of content: a file that is refused is replaced by a text with its URL.
    pub(crate) fn apply(&self, piece: &mut ModelContent) {
        let ModelContent::File { url, .. } = piece else { return };
        if is_data(url) || url.starts_with(STORED_FILE) {
            return;
        }
        match self.check(url) {
            Ok(as_parsed) => *url = as_parsed,
            Err(refusal) => refuse(piece, &refusal),
        }
    }

    /// Looks up the names in the URLs of all files. A file is replaced by a text with its URL if its name does not lead to public
    /// addresses only. All lookups together take no longer than one.
    pub(crate) async fn apply_lookups(&self, messages: &mut [ModelMessage], resolver: &dyn Resolver) {
        let mut names: BTreeMap<String, Option<FileUrlRefusal>> = BTreeMap::new();
        for piece in pieces(messages) {
            let ModelContent::File { url, .. } = piece else { continue };
            if let Some(name) = self.name_to_look_up(url) {
                names.insert(name, Some(FileUrlRefusal::TooManyNames));
            }
        }
        let lookups = names.iter_mut().take(MOST_NAMES).map(|(name, refusal)| async move {
            let found = allowed_addresses(resolver, name, is_public_address).await;
            *refusal = found.err().map(FileUrlRefusal::Name);
        });
        join_all(lookups).await;
        for piece in pieces(messages) {
            let ModelContent::File { url, .. } = &*piece else { continue };
            let refusal = self.name_to_look_up(url).and_then(|name| names.get(&name)?.clone());
            if let Some(refusal) = refusal {
                refuse(piece, &refusal);
            }
        }
    }
}

/// Returns the pieces of content that may be files.
fn pieces(messages: &mut [ModelMessage]) -> impl Iterator<Item = &mut ModelContent> {
    let contents = messages.iter_mut().filter_map(|message| match message {
        ModelMessage::User(content) | ModelMessage::Tool { content, .. } => Some(content),
        ModelMessage::System(_) | ModelMessage::Assistant { .. } => None,
    });
    contents.flatten()
}

/// Replaces a file by a text with its URL.
fn refuse(piece: &mut ModelContent, refusal: &FileUrlRefusal) {
    let ModelContent::File { media_type, url, filename } = piece else { return };
    let name = filename.as_deref().unwrap_or("a file");
    let link: String = url.chars().take(SHOWN_CHARACTERS).collect();
    *piece = ModelContent::Text(format!("[{name} ({media_type}) at {link} is not shown: {refusal}]"));
}

/// Parses a host and returns it as a parsed URL has it: in lower case, and an address in its usual spelling. `*.` may precede a name, and
/// a port may follow. Returns `None` if the text is not a host.
pub fn parse_host(text: &str) -> Option<String> {
    let (wildcard, name) = match text.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", text),
    };
    if let Ok(host) = Host::parse(name) {
        return Some(format!("{wildcard}{host}"));
    }
    let (name, port) = name.rsplit_once(':')?;
    Some(format!("{wildcard}{}:{}", Host::parse(name).ok()?, port.parse::<u16>().ok()?))
}

fn is_data(url: &str) -> bool {
    // A data URL may be megabytes, which no parser needs to copy.
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::resolver::tests::Invented;

    fn refused(files: &FileUrls, urls: &[&str]) {
        for url in urls {
            assert!(files.check(url).is_err(), "{url} was passed on as {:?}", files.check(url));
        }
    }

    #[test]
    fn public_files_are_passed_on_as_the_parser_wrote_them() {
        for (url, passed_on) in [
            ("https://example.com/a.png?b=c#d", "https://example.com/a.png?b=c#d"),
            ("HTTPS://Example.COM:443/a b", "https://example.com/a%20b"),
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
                "https://[::a9fe:a9fe]/",
                "https://[2001:470:1::5efe:7f00:1]/",
                "https://①②⑦.⓪.⓪.①/",
                "https://127。0。0。1/",
                "https://169.254.169.254./",
                "https://[2002:7f00:1::]/",
                "https://[fd00:ec2::254]/",
                "https://[fe80::1]/",
                "https://localhost/",
                "https://LOCALHOST./",
                "https://x.localhost/",
                "https://metadata.google.internal/computeMetadata/v1/",
                "https://printer.local/",
                "https://redis/",
                "https://kubernetes.default.svc/",
                "https://a.svc.cluster.local/",
                "https://host.localdomain/",
                "https://app.test/",
                "https://user@example.com/",
                "https://user:pw@example.com/",
                "https://:pw@example.com/",
                "https://example.com:6379/",
                "https://example.com:80/",
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
        let hosts = ["cdn.example.com", "*.files.example", "10.0.0.7:9000", "10.0.0.7"]
            .map(|host| parse_host(host).unwrap());
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
                "https://cdn.example.com:8443/a",
                "https://10.0.0.7:9001/",
                "https://user@cdn.example.com/",
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

    #[tokio::test(start_paused = true)]
    async fn a_name_that_does_not_lead_to_public_addresses_only_is_refused() {
        let file = |url: &str| ModelContent::File {
            media_type: "image/png".into(),
            url: url.into(),
            filename: None,
        };
        for (url, reason) in [
            ("https://public.example/a", None),
            ("https://1.1.1.1/a", None),
            ("data:,x", None),
            ("https://10.0.0.5.nip.io/a", Some("leads to 10.0.0.5, which is not a public address")),
            ("https://169-254-169-254.sslip.io/a", Some("is not a public address")),
            ("https://localtest.me/a", Some("leads to 127.0.0.1")),
            ("https://both.example/a", Some("leads to 127.0.0.1")),
            ("https://translated.example/a", Some("is not a public address")),
            ("https://nowhere.example/a", Some("the name nowhere.example cannot be looked up")),
            ("https://slow.example/a", Some("no name server answers about slow.example")),
        ] {
            let refusal =
                FileUrls::Https.check_name(url, &Invented).await.err().map(|refusal| refusal.to_string());
            let mut messages = [ModelMessage::User(vec![file(url)])];
            FileUrls::Https.apply_lookups(&mut messages, &Invented).await;
            match reason {
                None => assert_eq!((refusal, &messages), (None, &[ModelMessage::User(vec![file(url)])])),
                Some(reason) => {
                    assert!(refusal.is_some_and(|refusal| refusal.contains(reason)), "{url}");
                    let ModelMessage::User(content) = &messages[0] else { panic!("{messages:?}") };
                    let [ModelContent::Text(text)] = content.as_slice() else { panic!("{messages:?}") };
                    assert!(text.contains(url) && text.contains(reason), "{text}");
                }
            }
        }
        let named = FileUrls::Hosts(vec!["nowhere.example".into()]);
        assert_eq!(
            named.check_name("https://nowhere.example/a", &Invented).await,
            Ok(()),
            "the operator knows"
        );

        let many = (0..MOST_NAMES + 5).map(|n| file(&format!("https://slow.{n}.example/"))).collect();
        let mut messages = [ModelMessage::User(many)];
        let began = tokio::time::Instant::now();
        FileUrls::Https.apply_lookups(&mut messages, &Invented).await;
        assert_eq!(began.elapsed(), crate::ports::resolver::LOOKUP_TIMEOUT, "of the paused clock");
        let texts = format!("{messages:?}");
        assert_eq!(texts.matches("no name server answers").count(), MOST_NAMES);
        assert_eq!(texts.matches("more than 32 hosts").count(), 5);
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
