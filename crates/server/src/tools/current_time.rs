//! What time it is, anywhere.

use async_trait::async_trait;
use fermata_tools::{CallContext, Decision, ErrorType, ToolError, TypedTool};
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Tells the time.
pub struct CurrentTime;

/// Where.
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
    const DESCRIPTION: &'static str = "Tells the current date and time, in UTC or in a given time zone.";
    const POLICY: Decision = Decision::Allow;
    type Input = Input;

    async fn call(&self, input: Input, _: CallContext) -> Result<Value, ToolError> {
        tell(Timestamp::now(), input.timezone.as_deref())
    }
}

fn tell(now: Timestamp, timezone: Option<&str>) -> Result<Value, ToolError> {
    let name = timezone.map(str::trim).filter(|name| !name.is_empty()).unwrap_or("UTC");
    let unknown = |_| {
        let words = format!(
            "There is no time zone {name:?}. Use an IANA name such as Europe/Zurich or America/New_York."
        );
        ToolError::new(ErrorType::InvalidFormat, words)
    };
    let zoned = now.to_zoned(TimeZone::get(name).map_err(unknown)?);
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
    fn the_time_is_told_in_the_zone_that_was_asked_for() {
        let now: Timestamp = "2026-07-01T22:30:00Z".parse().expect("a time");
        let told = tell(now, Some("Europe/Zurich")).expect("a known zone");
        assert_eq!(
            told,
            json!({"time": "2026-07-02T00:30:00+02:00", "timezone": "Europe/Zurich", "weekday": "Thursday"})
        );
        let told = tell(now, None).expect("UTC");
        assert_eq!(
            told,
            json!({"time": "2026-07-01T22:30:00+00:00", "timezone": "UTC", "weekday": "Wednesday"})
        );
    }

    #[test]
    fn an_unknown_zone_is_named() {
        let words = tell(Timestamp::UNIX_EPOCH, Some("Mars/Olympus")).expect_err("no such zone").text;
        assert!(words.contains("Mars/Olympus"), "{words}");
    }
}
