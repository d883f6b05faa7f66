//! The tool `current_time`.

use async_trait::async_trait;
use fermata_tools::{CallContext, Decision, ErrorType, ToolError, TypedTool};
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool that tells the current time in a time zone.
pub struct CurrentTime;

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`CurrentTime`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// IANA name of a time zone, such as Europe/Zurich. UTC where it is left out.
    #[serde(default)]
    timezone: Option<String>,
}

#[async_trait]
impl TypedTool for CurrentTime {
    const NAME: &'static str = "current_time";
    const TITLE: Option<&'static str> = Some("Tell the time");
    const DESCRIPTION: &'static str = "Tells the current date and time, in UTC or in a given time zone.";
    const POLICY: Decision = Decision::Allow;
    const REPEATABLE: bool = true;
    type Input = Input;

    fn reads_from(&self, _: &Self::Input) -> Option<String> {
        None
    }

    async fn call(&self, input: Input, _: CallContext) -> Result<Value, ToolError> {
        time_in(Timestamp::now(), input.timezone.as_deref())
    }
}

fn time_in(now: Timestamp, timezone: Option<&str>) -> Result<Value, ToolError> {
    let name = match timezone.map(str::trim) {
        Some("") | None => "UTC",
        Some(name) => name,
    };
    let Ok(zone) = TimeZone::get(name) else {
        let text = format!(
            "There is no time zone {name:?}. Use an IANA name such as Europe/Zurich or America/New_York."
        );
        return Err(ToolError::new(ErrorType::InvalidFormat, text));
    };
    let zoned = now.to_zoned(zone);
    Ok(json!({
        "time": zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "timezone": name,
        "weekday": zoned.strftime("%A").to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_in_the_zone_that_was_asked_for() {
        let now: Timestamp = "2026-07-01T22:30:00Z".parse().expect("a time");
        let output = time_in(now, Some("Europe/Zurich")).expect("a known zone");
        assert_eq!(
            output,
            json!({"time": "2026-07-02T00:30:00+02:00", "timezone": "Europe/Zurich", "weekday": "Thursday"})
        );
        let output = time_in(now, None).expect("UTC");
        assert_eq!(
            output,
            json!({"time": "2026-07-01T22:30:00+00:00", "timezone": "UTC", "weekday": "Wednesday"})
        );
    }

    #[test]
    fn an_unknown_zone_is_named() {
        let text = time_in(Timestamp::UNIX_EPOCH, Some("Mars/Olympus")).expect_err("no such zone").text;
        assert!(text.contains("Mars/Olympus"), "{text}");
    }
}
