//! The meaning of a refusal's words, where the status does not tell.
//!
//! Each provider has words of its own, and changes them. So no whole sentence is looked for, but the words that any sentence about the matter
//! needs: for a request that is too long, a word for its length, a word for too much, and a number.

use std::{sync::LazyLock, time::Duration};

use regex::Regex;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern that is tested")
}

/// The words of providers that have no model of the requested name.
static UNKNOWN_MODEL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?is)model.{0,120}?(not found|not exist)|(invalid|unknown|no such|not a valid) model|model_not_found|DeploymentNotFound",
    )
});

/// The words that say by themselves that a request is longer than the model can take.
static TOO_LONG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?isx)
        context_length_exceeded | exceed_context_size
        | maximum\ (context|prompt)\ length
        | (prompt|context|context\ window|input|conversation)\ (is\ )?(too\ (long|large)|exceed(s|ed)?\b)
        | exceeds?\ (the\ )?(available\ )?context\ (size|length|window)
        | input\ length\ exceeds
        | range\ of\ input\ length\ should\ be
        | `inputs`\ tokens\ \+\ `max_new_tokens`
        | reduce\ the\ length\ of\ (the|either)\ ",
    )
});

/// The words for the parts of a request that may be too long.
static LENGTH: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\b(contexts?|prompts?|inputs?|tokens?|conversation|sequence)\b"));

/// The words for too much of it.
static TOO_MUCH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\bexceed|longer than|larger than|greater than|more than|less than|at most|too (long|many|large)|overflow|over the (limit|maximum)|not enough",
    )
});

/// The words for other things that have a limit, some of them in tokens.
static OTHER_LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)max_(completion_|output_)?tokens|(completion|output|generated|thinking|budget)[ _]tokens|\barray\b|\bstring\b|\btools?\b|per[ _](minute|min|hour|day|second)|\b[tr]pm\b|quota|rate.?limit|credit|balance|\bimages?\b|\bfiles?\b|temperature|top_p",
    )
});

static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d[\d,_]*"));

/// The words of providers for an account with nothing left. Waiting does not help then.
static NO_CREDIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)insufficient[ _](quota|balance|credit|funds)|(credit|balance|funds?)\b.{0,40}\b(too low|exhausted|used up|depleted|run out|insufficient|not enough)|(exhausted|no more|out of|not enough|used all)\b.{0,20}\bcredits?\b|billing[ _](hard[ _])?limit|exceeded your current quota|payment required|arrearage|overdue",
    )
});

/// The words of a server that may answer later.
static BUSY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)overload|unavailable|try again|\bbusy\b|internal|time(d )?.?out|capacity")
});

/// The pause that a text names.
static PAUSE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)(?:(?:re)?try(?:ing)?(?: again)?|wait|available|resets?|retryDelay|retry_after(?:_seconds)?)"?\s*(?::|=|in|after|for)*\s*"?(?:(\d+)\s*m(?:in(?:ute)?s?)?\s*)?(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?)?\b"#,
    )
});

/// Returns whether a refusal says that there is no such model.
pub(super) fn names_unknown_model(body: &str) -> bool {
    UNKNOWN_MODEL.is_match(body)
}

/// Returns whether a refusal says that the request is longer than the model can take.
pub(super) fn says_too_long(body: &str) -> bool {
    TOO_LONG.is_match(body)
        || LENGTH.is_match(body)
            && TOO_MUCH.is_match(body)
            && !OTHER_LIMIT.is_match(body)
            && names_a_size(body)
}

/// Returns whether a refusal says that the account has nothing left.
pub(super) fn says_no_credit(body: &str) -> bool {
    NO_CREDIT.is_match(body)
}

/// Returns whether a server says that it may answer later.
pub(super) fn says_busy(body: &str) -> bool {
    BUSY.is_match(body)
}

/// Returns the pause that a text asks for.
pub(super) fn wanted_pause(body: &str) -> Option<Duration> {
    let found = PAUSE.captures(body)?;
    let number = |index| found.get(index).and_then(|text| text.as_str().parse::<f64>().ok());
    let unit = found.get(3).map_or("s", |unit| unit.as_str()).to_ascii_lowercase();
    let factor = match unit.as_str() {
        unit if unit.starts_with("ms") || unit.starts_with("milli") => 0.001,
        unit if unit.starts_with('m') => 60.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number(1).unwrap_or(0.0) * 60.0 + number(2)? * factor).ok()
}

/// Returns whether a text names a number that may be a limit of tokens. Some name the limit alone.
fn names_a_size(text: &str) -> bool {
    let sizes: Vec<u64> = NUMBER
        .find_iter(text)
        .filter_map(|number| number.as_str().replace([',', '_'], "").parse().ok())
        .filter(|size| *size >= 256)
        .collect();
    !sizes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_too_long_is_recognised_in_any_words() {
        for text in [
            "invalid params, context window exceeds limit (2013)",
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 274022)",
            "Prompt exceeds max length",
            "Trying to keep the first 5231 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096).",
            "The input (7000 tokens) is longer than the model's context length (4096 tokens).",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "prompt token count of 130000 exceeds the limit of 128000",
            "too many tokens: total number of tokens in the request cannot exceed 128000",
            "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000",
            "This endpoint's maximum context length is 200,000 tokens. However, you requested about 231,552 tokens",
            "Your conversation has 9001 tokens; at most 8192 fit",
            "Input is too long for requested model.",
            "The sequence is too long: 40,000 > 32,768",
        ] {
            assert!(says_too_long(text), "{text}");
        }
        for text in [
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.",
            "Invalid 'messages[1].name': string too long. Expected a string with maximum length 64, but got 700",
            "Rate limit reached for tokens per min (TPM): Limit 30000, Requested 50000",
            "Invalid token: the input is no JSON",
            "Unsupported parameter: 'stream_options'",
            "thinking budget tokens must be less than 32768",
            "The image is too large: 8000 pixels, at most 4096",
            "Input should be a valid string",
        ] {
            assert!(!says_too_long(text), "{text}");
        }
    }

    #[test]
    fn an_account_with_nothing_left_is_not_a_rate_limit() {
        for text in [
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details",
            "Your credit balance is too low to access the API",
            "insufficient balance (1008)",
            "You have run out of credits",
            "This request requires more credits: your funds are exhausted",
        ] {
            assert!(says_no_credit(text), "{text}");
        }
        for text in ["Rate limit exceeded, try again in 3s", "The quota of requests per minute is used"] {
            assert!(!says_no_credit(text), "{text}");
        }
    }

    #[test]
    fn a_pause_is_read_from_the_text() {
        for (text, milliseconds) in [
            ("Please try again in 3.2s. Visit …", 3200),
            ("Please try again in 250ms.", 250),
            ("try again in 1m2.5s", 62_500),
            (r#""retryDelay": "34s""#, 34_000),
            (r#"{"retryDelay":"0.5s"}"#, 500),
            ("Retry after 20 seconds", 20_000),
            ("please wait 2 minutes", 120_000),
            (r#"{"retry_after": 7}"#, 7_000),
        ] {
            assert_eq!(wanted_pause(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["try again later", "Rate limit of 30000 reached", ""] {
            assert_eq!(wanted_pause(text), None, "{text}");
        }
    }
}
