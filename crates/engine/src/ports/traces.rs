//! The port to a collector of traces.

use jiff::Timestamp;

/// Receives the traces of runs that have ended.
pub trait Traces: Send + Sync {
    /// Takes a trace. Must not block.
    fn run_ended(&self, trace: RunTrace);

    /// Returns whether spans have the inputs and outputs of calls.
    fn has_content(&self) -> bool;
}

/// The trace of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTrace {
    /// The id of the trace.
    pub id: [u8; 16],
    /// The spans. The first one is the root.
    pub spans: Vec<TraceSpan>,
    /// The header `traceparent` of the post that began the run.
    pub caller: Option<String>,
}

/// A span of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpan {
    /// The id of the span.
    pub id: [u8; 8],
    /// The span that it is a part of; `None` for the root.
    pub parent: Option<[u8; 8]>,
    /// The name, such as `chat gpt-5-mini`.
    pub name: String,
    /// The start.
    pub started: Timestamp,
    /// The end.
    pub ended: Timestamp,
    /// The attributes.
    pub attributes: Vec<(&'static str, TraceValue)>,
    /// The failure, if the work of the span failed.
    pub error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}
