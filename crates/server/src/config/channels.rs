//! `[channels.<name>]`: the channels that bring approvals and other events to people and services. This module does not know how they send.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::store::NoticeEvent;
use fermata_tools::Pattern;
use lettre::message::Mailbox;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretSlice};
use serde::Deserialize;

use super::{
    fault::either,
    secret::Secret,
    url::Url,
    values::{NonEmpty, NonZeroDuration},
};

/// A channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSettings {
    /// The kind of the channel, with the settings of that kind.
    pub kind: ChannelKind,
    /// `true` if the channel may connect to addresses that are not public.
    pub private: bool,
}

/// The kind of a channel.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelKind {
    /// A service that receives events.
    Webhook {
        /// The service.
        endpoint: Endpoint,
        /// The events that it receives without a rule that names the channel, as globs over their names.
        events: Vec<Pattern>,
    },
    /// A service that decides about calls.
    Decider(Endpoint),
    /// A channel of Slack.
    Slack(SlackSettings),
    /// E-mail to the people of the table `users`.
    Email(EmailSettings),
    /// Notifications in browsers.
    WebPush,
}

/// A channel of Slack.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackSettings {
    /// The bot token.
    pub token: Secret,
    /// The id of the channel.
    pub channel: String,
    /// The secret that Slack signs its requests with.
    pub signing_secret: Secret,
    /// The user of each Slack account.
    pub users: BTreeMap<String, String>,
    /// The address of Slack.
    pub base_url: Url,
}

/// E-mail.
#[derive(Clone, Debug, PartialEq)]
pub struct EmailSettings {
    /// The mail server.
    pub smtp: SmtpUrl,
    /// The sender.
    pub from: Mailbox,
    /// `true` if mails have links that decide.
    pub links: bool,
}

/// The URL of a mail server, with its password.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct SmtpUrl(url::Url);

/// A service that takes requests of Standard Webhooks.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// The URL of the service.
    pub url: Url,
    /// The secrets that requests are signed with: one, or two while one is being replaced.
    pub secrets: Vec<SigningSecret>,
}

/// A secret of Standard Webhooks: `whsec_` and 24 to 64 bytes as base64.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct SigningSecret(pub SecretSlice<u8>);

/// The channels that bring a requester's own waiting calls to them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NotifyRequester")]
pub struct NotifyRequester {
    /// The names of the channels.
    pub channels: Vec<NonEmpty>,
    /// How long a call has to wait first.
    pub after: NonZeroDuration,
}

/// A channel as a table of the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Channel")]
pub(super) struct ChannelTable {
    /// The kind of the channel.
    kind: KindName,
    /// Allow connections to addresses that are not public.
    #[serde(default)]
    private: bool,
    /// The URL of the service (webhook, decider).
    url: Option<String>,
    /// The secret that requests are signed with, as whsec_ and base64 (webhook, decider). A list of two while one is being replaced.
    #[schemars(with = "Option<StringOrList>")]
    secret: Option<Secrets>,
    /// The events that the service receives without a rule that names the channel, such as approval.* (webhook).
    events: Option<Vec<NonEmpty>>,
    /// The bot token, which begins with xoxb- (slack).
    token: Option<Secret>,
    /// The id of the channel, such as C0123 (slack).
    channel: Option<NonEmpty>,
    /// The signing secret of the app (slack).
    signing_secret: Option<Secret>,
    /// The user of each Slack account, by the id of the account (slack). Others may not decide.
    users: Option<BTreeMap<String, String>>,
    /// The address of the API, in place of `https://slack.com` (slack).
    base_url: Option<Url>,
    /// The mail server, as smtps://user:password@host or smtp://host (email).
    #[schemars(with = "Option<String>")]
    smtp: Option<SmtpUrl>,
    /// The sender of mails, such as Fermata <fermata@example.com> (email).
    #[schemars(with = "Option<String>")]
    from: Option<String>,
    /// Put one-time links that decide into mails (email). Without them, a mail has only a link to the inbox.
    links: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KindName {
    /// A service that receives events.
    Webhook,
    /// A service that decides about calls.
    Decider,
    /// A channel of Slack.
    Slack,
    /// E-mail to people who may decide.
    Email,
    /// Notifications in the browsers of people who may decide.
    WebPush,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a string, or a list of two")]
enum Secrets {
    One(String),
    Several(Vec<String>),
}

/// The schema of [`Secrets`].
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "it describes the file")]
enum StringOrList {
    One(String),
    Several(Vec<String>),
}

/// The events that a webhook may ask for.
const EVENTS: [NoticeEvent; 6] = [
    NoticeEvent::ApprovalRequested,
    NoticeEvent::ApprovalReminder,
    NoticeEvent::ApprovalEscalated,
    NoticeEvent::ApprovalSettled,
    NoticeEvent::RunFinished,
    NoticeEvent::RunFailed,
];
/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// The lengths that a secret may have, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The address of Slack.
const SLACK: &str = "https://slack.com";

/// Checks the name of a channel, which is a part of its URL.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if (1..=64).contains(&name.len()) && is_plain {
        Ok(())
    } else {
        Err(format!("the name {name:?} must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'"))
    }
}

// === impl ChannelTable ===

impl TryFrom<ChannelTable> for ChannelSettings {
    /// The key that is wrong, or "" for the table, and the reason.
    type Error = (&'static str, String);

    fn try_from(table: ChannelTable) -> Result<Self, Self::Error> {
        let ChannelTable { kind, private, url, secret, events, token, channel, .. } = table;
        let ChannelTable { signing_secret, users, base_url, smtp, from, links, .. } = table;
        let of_kinds = [
            ("url", url.is_some(), &[KindName::Webhook, KindName::Decider][..]),
            ("secret", secret.is_some(), &[KindName::Webhook, KindName::Decider]),
            ("events", events.is_some(), &[KindName::Webhook]),
            ("token", token.is_some(), &[KindName::Slack]),
            ("channel", channel.is_some(), &[KindName::Slack]),
            ("signing_secret", signing_secret.is_some(), &[KindName::Slack]),
            ("users", users.is_some(), &[KindName::Slack]),
            ("base_url", base_url.is_some(), &[KindName::Slack]),
            ("smtp", smtp.is_some(), &[KindName::Email]),
            ("from", from.is_some(), &[KindName::Email]),
            ("links", links.is_some(), &[KindName::Email]),
        ];
        if let Some((key, _, kinds)) =
            of_kinds.into_iter().find(|(_, is_set, kinds)| *is_set && !kinds.contains(&kind))
        {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            return Err((key, format!("is only for kind = {}", either(&kinds))));
        }
        let kind = match kind {
            KindName::Webhook => {
                let events = events.unwrap_or_default();
                ChannelKind::Webhook {
                    endpoint: Endpoint::new(url, secret)?,
                    events: matching(&events).map_err(|reason| ("events", reason))?,
                }
            }
            KindName::Decider => ChannelKind::Decider(Endpoint::new(url, secret)?),
            KindName::Slack => ChannelKind::Slack(SlackSettings {
                token: needed("token", token)?,
                channel: needed("channel", channel)?.0,
                signing_secret: needed("signing_secret", signing_secret)?,
                users: users.unwrap_or_default(),
                base_url: base_url.unwrap_or_else(|| Url(SLACK.into())),
            }),
            KindName::Email => {
                let from = needed("from", from)?.parse();
                let from = from.map_err(|_| {
                    ("from", "it must be an address, such as Fermata <fermata@example.com>".to_owned())
                })?;
                ChannelKind::Email(EmailSettings {
                    smtp: needed("smtp", smtp)?,
                    from,
                    links: links.unwrap_or_default(),
                })
            }
            KindName::WebPush => ChannelKind::WebPush,
        };
        Ok(Self { kind, private })
    }
}

/// Returns the value of a key that the kind of the channel needs.
fn needed<T>(key: &str, value: Option<T>) -> Result<T, (&'static str, String)> {
    value.ok_or_else(|| ("", format!("{key} is missing")))
}

/// Reads globs over the names of events. Each has to match one.
fn matching(globs: &[NonEmpty]) -> Result<Vec<Pattern>, String> {
    let mut patterns = Vec::new();
    for NonEmpty(glob) in globs {
        let pattern = Pattern::new(glob);
        if !EVENTS.iter().any(|event| pattern.matches(event.as_str())) {
            let known = EVENTS.map(NoticeEvent::as_str);
            return Err(format!(
                "{glob:?} matches no event; use {}, or a glob such as approval.*",
                either(&known)
            ));
        }
        patterns.push(pattern);
    }
    Ok(patterns)
}

// === impl KindName ===

impl KindName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Decider => "decider",
            Self::Slack => "slack",
            Self::Email => "email",
            Self::WebPush => "web_push",
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn new(url: Option<String>, secret: Option<Secrets>) -> Result<Self, (&'static str, String)> {
        let url = Url::exact(&needed("url", url)?).map_err(|reason| ("url", reason))?;
        let secrets = match secret {
            None => {
                return Err((
                    "",
                    format!("secret is missing; make one with: echo {PREFIX}$(openssl rand -base64 32)"),
                ));
            }
            Some(Secrets::One(secret)) => vec![secret],
            Some(Secrets::Several(secrets)) if secrets.len() == 2 => secrets,
            Some(Secrets::Several(_)) => {
                return Err(("secret", "a list has the new secret and the old one, and nothing else".into()));
            }
        };
        let secrets = secrets.into_iter().map(SigningSecret::try_from).collect::<Result<_, _>>();
        Ok(Self { url, secrets: secrets.map_err(|reason| ("secret", reason))? })
    }
}

// === impl SigningSecret ===

impl TryFrom<String> for SigningSecret {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = text.trim().strip_prefix(PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok());
        match bytes {
            Some(bytes) if SECRET_BYTES.contains(&bytes.len()) => Ok(Self(bytes.into())),
            Some(_) | None => Err(format!(
                "it must be {PREFIX} and {} to {} bytes as base64; make one with: echo {PREFIX}$(openssl rand -base64 32)",
                SECRET_BYTES.start(),
                SECRET_BYTES.end()
            )),
        }
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(secret)")
    }
}

impl PartialEq for SigningSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

// === impl SmtpUrl ===

impl SmtpUrl {
    /// Returns the name or the address of the server.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port, by default that of the scheme.
    pub fn port(&self) -> u16 {
        self.0.port().unwrap_or(if self.uses_tls() { 465 } else { 25 })
    }

    /// Returns whether the connection is encrypted from its beginning.
    pub fn uses_tls(&self) -> bool {
        self.0.scheme() == "smtps"
    }

    /// Returns the user and the password, if there are any.
    pub fn credentials(&self) -> Option<(String, String)> {
        let text = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        if self.0.username().is_empty() {
            return None;
        }
        Some((text(self.0.username()), text(self.0.password().unwrap_or_default())))
    }
}

impl TryFrom<String> for SmtpUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match url::Url::parse(text.trim()) {
            Ok(url) if matches!(url.scheme(), "smtp" | "smtps") && url.has_host() => Ok(Self(url)),
            Ok(_) | Err(_) => Err(
                "it must be smtps://user:password@host or smtp://host; characters such as @ in a password are encoded, as %40",
            ),
        }
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmtpUrl({}://{})", self.0.scheme(), self.host())
    }
}

impl PartialEq for SmtpUrl {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
