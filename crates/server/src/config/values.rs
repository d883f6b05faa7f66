//! The kinds of values that settings have: read from text, shown as TOML, described by a JSON Schema.
//!
//! No error repeats a secret.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    str::FromStr,
};

use bytesize::ByteSize;
use fermata_engine::{FileUrls, Hold, file_urls::parse_host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::quote::shortened;

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct NonEmpty(pub String);

/// A time of at most ten years, such as `30s`, `5m` or `24h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Scalar", into = "String")]
#[schemars(with = "String", inline, title = "TIME")]
pub struct Duration(pub std::time::Duration);

/// A time like [`Duration`], and longer than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Duration", into = "Duration")]
#[schemars(with = "Duration", inline)]
pub struct NonZeroDuration(pub std::time::Duration);

/// How long a stream stays open while its calls wait: `auto`, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "auto|TIME")]
pub struct HoldTime(pub Hold);

/// A number of posts in a period, such as 60 in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "NUMBER/TIME")]
pub struct PostRate {
    /// The number of posts.
    pub posts: NonZeroU32,
    /// The period.
    pub period: std::time::Duration,
}

/// A number of bytes, such as `10MB`, `64KiB` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(
    with = "Value", inline, title = "SIZE", extend("anyOf" = [{"type": "integer", "minimum": 1}, {"type": "string"}])
)]
pub struct Size(pub usize);

/// A number from 1 to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "NonZeroUsize")]
#[schemars(with = "NonZeroUsize", inline)]
pub struct UpTo<const MAX: usize>(pub NonZeroUsize);

/// A number from so many tenths to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "f64")]
#[schemars(with = "f64", inline, title = "SHARE")]
pub struct Share<const TENTHS: u8 = 0>(pub f64);

/// The URLs of files that a model may be given: `data`, `https`, or hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(
    with = "Value", inline, title = "data|https|HOST,…",
    extend("anyOf" = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}])
)]
pub struct AllowedFiles(pub FileUrls);

/// A text, or a number that stands where a text should. The error about the text says more than one about its type.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(i64),
}

/// The longest time. With a longer one, the sum with the time of day could exceed the range of a clock.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 60 * 60);

// === impl NonEmpty ===

impl TryFrom<String> for NonEmpty {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err("must not be empty") } else { Ok(Self(text)) }
    }
}

// === impl Duration ===

impl Duration {
    /// Reads a time.
    ///
    /// # Errors
    /// Returns an error that names the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Clients also send times, and an error does not repeat all of a long text.
        let shown = shortened(text);
        let time = humantime::parse_duration(text.trim())
            .map_err(|_| format!("{shown} is not a time; write it as 30s, 5m or 24h"))?;
        if time > LONGEST { Err(format!("{shown} is more than ten years")) } else { Ok(Self(time)) }
    }
}

impl TryFrom<Scalar> for Duration {
    type Error = String;

    fn try_from(scalar: Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Text(text) => Self::parse(&text),
            Scalar::Number(number) => Self::parse(&number.to_string()),
        }
    }
}

impl From<Duration> for String {
    fn from(Duration(time): Duration) -> Self {
        humantime::format_duration(time).to_string()
    }
}

// === impl NonZeroDuration ===

impl TryFrom<Duration> for NonZeroDuration {
    type Error = String;

    fn try_from(Duration(time): Duration) -> Result<Self, String> {
        if time.is_zero() {
            Err("\"0s\" is too short; use more than 0s, or leave the key out".to_owned())
        } else {
            Ok(Self(time))
        }
    }
}

impl From<NonZeroDuration> for Duration {
    fn from(NonZeroDuration(time): NonZeroDuration) -> Self {
        Self(time)
    }
}

// === impl HoldTime ===

impl TryFrom<String> for HoldTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self(Hold::Auto)),
            text => Ok(Self(Hold::For(Duration::parse(text)?.0))),
        }
    }
}

impl From<HoldTime> for String {
    fn from(HoldTime(hold): HoldTime) -> Self {
        match hold {
            Hold::Auto => "auto".to_owned(),
            Hold::For(time) => Duration(time).into(),
        }
    }
}

// === impl PostRate ===

impl TryFrom<String> for PostRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let rate = text.split_once('/').and_then(|(posts, period)| {
            let period = match period.trim() {
                "s" => 1,
                "min" => 60,
                "h" => 3_600,
                "day" => 86_400,
                _ => return None,
            };
            Some(Self { posts: posts.trim().parse().ok()?, period: std::time::Duration::from_secs(period) })
        });
        rate.ok_or_else(|| format!("{text:?} is not a rate; write it as 60/min, with s, min, h or day"))
    }
}

impl From<PostRate> for String {
    fn from(PostRate { posts, period }: PostRate) -> Self {
        let period = match period.as_secs() {
            1 => "s",
            60 => "min",
            3_600 => "h",
            _ => "day",
        };
        format!("{posts}/{period}")
    }
}

// === impl Size ===

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = ByteSize::from_str(text.trim()).ok().and_then(|size| usize::try_from(size.as_u64()).ok());
        match bytes {
            Some(bytes) if bytes > 0 => Ok(Self(bytes)),
            Some(_) | None => Err(format!(
                "{text:?} is not a size; write it as 10MB, 64KiB or a number of bytes above zero"
            )),
        }
    }
}

// === impl UpTo ===

impl<const MAX: usize> TryFrom<NonZeroUsize> for UpTo<MAX> {
    type Error = String;

    fn try_from(number: NonZeroUsize) -> Result<Self, String> {
        if number.get() > MAX { Err(format!("the maximum is {MAX}")) } else { Ok(Self(number)) }
    }
}

// === impl Share ===

impl<const TENTHS: u8> TryFrom<f64> for Share<TENTHS> {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        let least = f64::from(TENTHS) / 10.0;
        if (least..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(format!("it must be from {least} to 1"))
        }
    }
}

// === impl AllowedFiles ===

impl TryFrom<String> for AllowedFiles {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.trim() {
            "data" => Ok(Self(FileUrls::Data)),
            "https" => Ok(Self(FileUrls::Https)),
            hosts => {
                let hosts: Vec<&str> =
                    hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
                if hosts.is_empty() {
                    return Err("there is nothing; use data, https, or hosts such as cdn.example.com".into());
                }
                let hosts = hosts.into_iter().map(|host| {
                    parse_host(host).ok_or_else(|| {
                        format!(
                            "{host:?} is not the name of a host; use data, https, or hosts such as cdn.example.com"
                        )
                    })
                });
                Ok(Self(FileUrls::Hosts(hosts.collect::<Result<_, _>>()?)))
            }
        }
    }
}

impl Serialize for AllowedFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            FileUrls::Data => serializer.serialize_str("data"),
            FileUrls::Https => serializer.serialize_str("https"),
            FileUrls::Hosts(hosts) => hosts.serialize(serializer),
        }
    }
}
