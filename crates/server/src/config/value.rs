//! The kinds of values that settings have: read from text, shown as TOML, described by a JSON Schema.
//!
//! A value is read from the same text wherever it is set, because a variable and an option have nothing else. No error repeats a
//! secret.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    ops::Deref,
    str::FromStr,
};

use bytesize::ByteSize;
use fermata_engine::{FileUrls, Hold, file_urls::parse_host};
use fermata_protocol::Profile;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, IntoDeserializer, value::Error},
};

use super::{fault::either, text::Text};
use crate::quote::shortened;

/// A number of posts in a period, such as 60 in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostRate {
    /// The number of posts.
    pub posts: NonZeroU32,
    /// The period.
    pub period: std::time::Duration,
}

/// A kind of value.
pub(super) trait Value: Sized {
    /// `true` if it is a size, a number or a time, which can be exceeded.
    const IS_MEASURE: bool = false;

    /// Returns its name in `--help`, such as `TIME`.
    fn name() -> String;

    /// Reads a value.
    ///
    /// # Errors
    /// Returns an error that names the expected form.
    fn read(text: &str) -> Result<Self, String>;

    /// Returns the value for a report, without secrets; `None` if nothing is set.
    fn show(&self) -> Option<toml::Value>;

    /// Returns the JSON Schema of the value in the file. Most values are written as strings.
    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }

    /// Returns the value of a setting that is not set and has no default, if there may be such a setting.
    fn unset() -> Option<Self> {
        None
    }
}

/// An enum without data whose variants are words: serde names them, and their docs explain them in the JSON Schema.
pub(super) trait Word: Copy + DeserializeOwned + Serialize + JsonSchema {}

/// A time of at most ten years, such as `30s`, `5m` or `24h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub std::time::Duration);

/// A time like [`Duration`], and longer than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonZeroDuration(pub std::time::Duration);

/// A number of bytes, such as `10MB`, `64KiB` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

/// A number from 1 to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpTo<const MAX: usize>(pub NonZeroUsize);

/// A share of a whole, from 0.1 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// How similar two things are, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity(pub f32);

/// Several values: a list in the file, and separated by commas elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// The longest time. With a longer one, the sum with the time of day could exceed the range of a clock.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Reads a value in a table of the file, for `#[serde(deserialize_with)]`.
pub(super) fn deserialize<'de, T: Value, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let Text(text) = Text::deserialize(deserializer)?;
    T::read(&text).map_err(D::Error::custom)
}

/// Returns the JSON Schema of a value that is not a string. A string may stand in its place if it names a variable.
fn or_variable(schema: Schema) -> Schema {
    json_schema!({"anyOf": [schema, {"type": "string", "pattern": "\\$\\{.+\\}"}]})
}

fn parsed<T: FromStr>(text: &str, form: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not {form}"))
}

fn whole_number<T: FromStr>(text: &str) -> Result<T, String> {
    parsed(text, "a whole number above zero")
}

fn number_schema(minimum: u32, maximum: Option<usize>) -> Schema {
    let mut schema = json_schema!({"type": "integer", "minimum": minimum});
    if let Some(maximum) = maximum {
        schema.insert("maximum".into(), maximum.into());
    }
    or_variable(schema)
}

fn integer(number: usize) -> Option<toml::Value> {
    i64::try_from(number).ok().map(toml::Value::from)
}

impl Value for u16 {
    fn name() -> String {
        "PORT".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "a port, from 0 to 65535")
    }

    fn show(&self) -> Option<toml::Value> {
        integer((*self).into())
    }

    fn schema() -> Schema {
        number_schema(0, Some(Self::MAX.into()))
    }
}

impl Value for bool {
    fn name() -> String {
        "true|false".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "true or false")
    }

    fn show(&self) -> Option<toml::Value> {
        Some((*self).into())
    }

    fn schema() -> Schema {
        or_variable(json_schema!({"type": "boolean"}))
    }
}

impl Value for NonZeroUsize {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "NUMBER".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        whole_number(text)
    }

    fn show(&self) -> Option<toml::Value> {
        integer(self.get())
    }

    fn schema() -> Schema {
        number_schema(1, None)
    }
}

impl Value for NonZeroU32 {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "NUMBER".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        whole_number(text)
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.get().into())
    }

    fn schema() -> Schema {
        number_schema(1, None)
    }
}

impl<const MAX: usize> Value for UpTo<MAX> {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "NUMBER".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let number: NonZeroUsize = whole_number(text)?;
        if number.get() > MAX { Err(format!("the maximum is {MAX}")) } else { Ok(Self(number)) }
    }

    fn show(&self) -> Option<toml::Value> {
        self.0.show()
    }

    fn schema() -> Schema {
        number_schema(1, Some(MAX))
    }
}

impl Value for Share {
    fn name() -> String {
        "SHARE".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let share: f64 = parsed(text, "a number from 0.1 to 1")?;
        if (0.1..=1.0).contains(&share) { Ok(Self(share)) } else { Err("it must be from 0.1 to 1".into()) }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.0.into())
    }

    fn schema() -> Schema {
        or_variable(json_schema!({"type": "number", "minimum": 0.1, "maximum": 1}))
    }
}

impl Value for Similarity {
    fn name() -> String {
        "NUMBER".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let similarity: f32 = parsed(text, "a number from 0 to 1")?;
        if (0.0..=1.0).contains(&similarity) {
            Ok(Self(similarity))
        } else {
            Err("it must be from 0 to 1".into())
        }
    }

    fn show(&self) -> Option<toml::Value> {
        // As it was written: 0.25 and not the nearest number of 64 bits.
        self.0.to_string().parse::<f64>().ok().map(Into::into)
    }

    fn schema() -> Schema {
        or_variable(json_schema!({"type": "number", "minimum": 0, "maximum": 1}))
    }
}

impl Value for String {
    fn name() -> String {
        "TEXT".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.as_str().into())
    }
}

impl<T: Value> Value for Option<T> {
    const IS_MEASURE: bool = T::IS_MEASURE;

    fn name() -> String {
        T::name()
    }

    fn read(text: &str) -> Result<Self, String> {
        T::read(text).map(Some)
    }

    fn show(&self) -> Option<toml::Value> {
        self.as_ref().and_then(T::show)
    }

    fn schema() -> Schema {
        T::schema()
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Value for Profile {
    fn name() -> String {
        "VERSION".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Self::of_version(text.trim())
    }

    fn show(&self) -> Option<toml::Value> {
        match self.release() {
            Some(release) => Some(release.into()),
            None => integer(self.major().into()),
        }
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"enum": [5, 6, 7]}, {"type": "string"}]})
    }
}

impl Value for FileUrls {
    fn name() -> String {
        "data|https|HOST,…".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "data" => Ok(Self::Data),
            "https" => Ok(Self::Https),
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
                hosts.collect::<Result<_, _>>().map(Self::Hosts)
            }
        }
    }

    fn show(&self) -> Option<toml::Value> {
        match self {
            Self::Data => Some("data".into()),
            Self::Https => Some("https".into()),
            Self::Hosts(hosts) => Some(hosts.clone().into()),
        }
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

// === impl Word ===

impl<T: Word> Value for T {
    fn name() -> String {
        words::<T>().join("|")
    }

    fn read(text: &str) -> Result<Self, String> {
        T::deserialize(text.trim().into_deserializer())
            .map_err(|_: Error| format!("{text:?} is not known; use {}", either(&words::<T>())))
    }

    fn show(&self) -> Option<toml::Value> {
        toml::Value::try_from(self).ok()
    }

    fn schema() -> Schema {
        schemars::schema_for!(T)
    }
}

/// Returns the words for an enum's variants, in their order.
pub(super) fn words<T: Word>() -> Vec<String> {
    let schema = schemars::schema_for!(T);
    let variants = schema.get("oneOf").and_then(|variants| variants.as_array());
    let variants = variants.into_iter().flatten();
    variants.filter_map(|variant| variant["const"].as_str().map(str::to_owned)).collect()
}

// === impl List ===

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Value> Value for List<T> {
    fn name() -> String {
        format!("{},…", T::name())
    }

    fn read(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(T::read).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.0.iter().filter_map(T::show).collect::<Vec<_>>().into())
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "array", "items": T::schema()}, {"type": "string"}]})
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

impl Value for Duration {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "TIME".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn show(&self) -> Option<toml::Value> {
        Some(humantime::format_duration(self.0).to_string().into())
    }
}

impl Value for NonZeroDuration {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        Duration::name()
    }

    fn read(text: &str) -> Result<Self, String> {
        let Duration(time) = Duration::parse(text)?;
        if time.is_zero() {
            Err(format!("{text:?} is too short; use more than 0s, or leave the key out"))
        } else {
            Ok(Self(time))
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Duration(self.0).show()
    }
}

impl Value for Hold {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "auto|TIME".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            text => Ok(Self::For(Duration::parse(text)?.0)),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        match self {
            Self::Auto => Some("auto".into()),
            Self::For(hold) => Duration(*hold).show(),
        }
    }
}

impl Value for PostRate {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "NUMBER/TIME".into()
    }

    fn read(text: &str) -> Result<Self, String> {
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

    fn show(&self) -> Option<toml::Value> {
        let period = match self.period.as_secs() {
            1 => "s",
            60 => "min",
            3_600 => "h",
            _ => "day",
        };
        Some(format!("{}/{period}", self.posts).into())
    }
}

// === impl Size ===

impl Value for Size {
    const IS_MEASURE: bool = true;

    fn name() -> String {
        "SIZE".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let bytes = ByteSize::from_str(text.trim()).ok().and_then(|size| usize::try_from(size.as_u64()).ok());
        match bytes {
            Some(bytes) if bytes > 0 => Ok(Self(bytes)),
            Some(_) | None => Err(format!(
                "{text:?} is not a size; write it as 10MB, 64KiB or a number of bytes above zero"
            )),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        integer(self.0)
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]})
    }
}
