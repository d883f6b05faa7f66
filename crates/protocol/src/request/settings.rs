//! Reads `callSettings`: how a model is to answer, by the AI SDK's names.
//!
//! A setting that nobody reads would be a mistake in silence, so an unknown name is an error. Ranges are those that providers have: what
//! is outside would come back as an error of theirs, which says less.

use serde_json::{Map, Value};

use super::{
    RequestError,
    fields::{Fields, shortened, wrong},
};

/// The most stop sequences, and the longest, in bytes.
const STOP_SEQUENCES: usize = 16;
const STOP_SEQUENCE_BYTES: usize = 256;

/// What a setting must be.
enum Kind {
    /// A number in this range.
    Number { from: f64, to: f64 },
    /// A whole number that is not below this.
    Count { from: u64 },
    /// Any whole number.
    Integer,
    /// Texts that end the answer.
    StopSequences,
    /// An object. It is for the client's side of the AI SDK and has no effect.
    Object,
}

const KNOWN: [(&str, Kind); 11] = [
    ("temperature", Kind::Number { from: 0.0, to: 2.0 }),
    ("topP", Kind::Number { from: 0.0, to: 1.0 }),
    ("topK", Kind::Count { from: 0 }),
    ("maxOutputTokens", Kind::Count { from: 1 }),
    ("maxTokens", Kind::Count { from: 1 }),
    ("presencePenalty", Kind::Number { from: -2.0, to: 2.0 }),
    ("frequencyPenalty", Kind::Number { from: -2.0, to: 2.0 }),
    ("stopSequences", Kind::StopSequences),
    ("seed", Kind::Integer),
    ("maxRetries", Kind::Count { from: 0 }),
    ("headers", Kind::Object),
];

/// The settings of a body, without those that are `null`.
pub(super) fn parse(body: &Fields<'_>) -> Result<Map<String, Value>, RequestError> {
    let Some(settings) = body.object("callSettings")? else {
        return Ok(Map::new());
    };
    let mut read = Map::new();
    for (name, value) in settings.entries() {
        let Some((_, kind)) = KNOWN.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
            let name = shortened(name);
            return Err(RequestError(format!(
                "`callSettings` has no setting {name:?}; it has: {}.",
                known.join(", ")
            )));
        };
        if value.is_null() {
            continue;
        }
        if !kind.fits(value) {
            return Err(wrong(&settings.path(name), value, &kind.words()));
        }
        read.insert(name.clone(), value.clone());
    }
    Ok(read)
}

// === impl Kind ===

impl Kind {
    fn fits(&self, value: &Value) -> bool {
        match self {
            Self::Number { from, to } => value.as_f64().is_some_and(|number| (*from..=*to).contains(&number)),
            Self::Count { from } => value.as_u64().is_some_and(|count| count >= *from),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::StopSequences => value.as_array().is_some_and(|texts| {
                texts.len() <= STOP_SEQUENCES
                    && texts.iter().all(|text| {
                        text.as_str().is_some_and(|text| (1..=STOP_SEQUENCE_BYTES).contains(&text.len()))
                    })
            }),
            Self::Object => value.is_object(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Number { from, to } => format!("a number from {from} to {to}"),
            Self::Count { from } => format!("a whole number from {from} on"),
            Self::Integer => "a whole number".to_owned(),
            Self::StopSequences => {
                format!("a list of at most {STOP_SEQUENCES} texts of 1 to {STOP_SEQUENCE_BYTES} bytes each")
            }
            Self::Object => "an object".to_owned(),
        }
    }
}
