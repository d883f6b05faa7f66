//! A call of a run, with the state that only the process has while the run is in memory.

use std::ops::{Deref, DerefMut};

use fermata_tools::Call;
use jiff::Timestamp;
use serde_json::Value;

use super::call_status::CallStatus;
use crate::run_log::position::Position;

/// A call, and its state that is not saved.
#[derive(Clone, Debug)]
pub(crate) struct LiveCall {
    pub call: Call,
    /// The position of the call's outcome in the log.
    pub settled_at: Option<Position>,
    /// The position of the newest approval request in the log, if the call was asked about again.
    pub asked_again_at: Option<Position>,
    /// The newest partial output, while the call runs.
    pub report: Option<Value>,
    /// The time until which a page is believed that a person edits the input.
    pub edited_until: Option<Timestamp>,
    /// The newest `data-call`. It is sent again after a restart.
    pub shown: Option<Box<CallStatus>>,
}

// === impl LiveCall ===

impl LiveCall {
    /// Returns the call for the log of another run, which goes on with it.
    pub fn in_next_log(&self) -> Self {
        Self { settled_at: None, asked_again_at: None, shown: None, ..self.clone() }
    }
}

impl From<Call> for LiveCall {
    fn from(call: Call) -> Self {
        Self { call, settled_at: None, asked_again_at: None, report: None, edited_until: None, shown: None }
    }
}

impl Deref for LiveCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl DerefMut for LiveCall {
    fn deref_mut(&mut self) -> &mut Call {
        &mut self.call
    }
}
