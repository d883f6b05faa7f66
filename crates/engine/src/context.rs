//! The part of a chat that its model is sent.
//!
//! A chat may outgrow its model. Then the history is fitted, cheapest step first and no further than it has to be. First the outputs of old
//! calls become one line each, then the oldest turns are left out, and a summary stands for them if there is one. Everything stays
//! in the record.
//!
//! This module decides without I/O. Invariants: a turn is left out as a whole, so calls keep their results; the last user message and
//! what follows it are never left out, and the outputs of the newest steps stay as they are; the same history, fit and measure give the
//! same result, and a history that has been fitted is not fitted further before it has grown. So two steps, two instances, and the time before
//! and after a crash send the same bytes, and providers' caches stay warm.

pub mod summary;

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use fermata_protocol::{ContextUsage, MessageId, Role, ToolCallId, ToolState, UiMessage, UiPart};
use fermata_tools::Pattern;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    context::summary::Covered,
    model::{ModelRequest, tokens},
    ports::store::Change,
};

/// The number of steps, back from the one that is asked for, whose outputs are never cleared.
const RECENT_STEPS: usize = 3;
/// An output of at most this many bytes is never cleared, because a line about it would be no shorter.
const SHORT_OUTPUT: usize = 500;
/// The time without further attempts after several summaries were not written.
const SUMMARY_PAUSE: Duration = Duration::from_secs(300);
/// The limit on messages of a chat that are listed as excluded from memory.
const MAX_UNREMEMBERED: usize = 1_000;

/// The state of a chat's history, as it is saved: the part that the model is sent, and the size that the provider has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ModelContext {
    pub fit: Fit,
    /// The provider's own number for the last request, if the size of the model's window is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// A summary that was written while a run was open; the next run begins with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Covered>>,
    /// The summary that is being written beside the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<SummaryJob>,
    /// `true` if a request had to be fitted into the window since the last summary beside the runs, so that there is little room left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_full: bool,
    /// The number of summaries that were not written since the last one that was.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_summaries: u32,
    /// The time before which no summary is tried that nobody asks for, because several were not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// The messages that the user excludes from memory.
    #[serde(skip_serializing_if = "Unremembered::is_nothing")]
    pub unremembered: Unremembered,
    /// The number of messages, from the first of the chat, where facts about the user have been looked for.
    #[serde(skip_serializing_if = "is_none")]
    pub noted: usize,
    /// The time when they are looked for in the messages after those; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note_at: Option<Timestamp>,
}

/// The part of a chat that the user excludes from memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Unremembered {
    /// These messages.
    Messages(BTreeSet<MessageId>),
    /// The whole chat, because there are too many such messages to be listed.
    Chat,
}

/// A summary that is being written. It is not saved if the chat has no such job any more when it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummaryJob {
    pub id: String,
    /// The number of messages that it covers at most.
    pub most: usize,
    /// The time when it counts as abandoned.
    pub until: Timestamp,
}

/// The part of a history that a model is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Fit {
    /// The number of messages, from the first of the chat, that are left out.
    pub left_out: usize,
    /// The summary that stands for the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Box<Covered>>,
    /// The texts of those among them that are instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
    /// The calls whose outputs are shown to the model as cleared.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub cleared: BTreeSet<ToolCallId>,
}

/// The size of a model's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub tokens: u64,
    /// The number of tokens above which a history is fitted.
    pub compact_at: u64,
}

/// The size of a request: by its provider, and as it is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub tokens: u64,
    pub estimated: u64,
    /// The number of messages that a summary replaced in it.
    pub summarized: usize,
}

/// The messages of a chat, from one of them on.
pub(crate) struct History<'a> {
    /// The number of messages before these.
    pub first: usize,
    pub messages: Vec<&'a UiMessage>,
}

/// The reason why a history is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The request has at most this many tokens.
    Within(u64),
    /// The provider has refused the request for its length, so it has to become much shorter.
    MuchShorter,
}

/// A request that was fitted.
pub(crate) struct Fitted {
    pub fit: Fit,
    pub request: ModelRequest,
    /// About how many tokens it has; `None` if there was no goal.
    pub estimated: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_none(number: &usize) -> bool {
    *number == 0
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns the description of a request of so many tokens for a client.
pub(crate) fn context_usage(input_tokens: u64, window: Option<Window>) -> ContextUsage {
    ContextUsage {
        input_tokens,
        window: window.map(|window| window.tokens),
        compact_at: window.map(|window| window.compact_at),
    }
}

// === impl Window ===

impl Window {
    /// Returns the window of a model that can take so many tokens, with the share of them above which a history is fitted.
    pub fn new(tokens: NonZeroU32, share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the share is from 0 to 1, so the product is from 0 to 2^32"
        )]
        let compact_at = (f64::from(tokens.get()) * share) as u64;
        Self { tokens: tokens.get().into(), compact_at }
    }
}

// === impl ModelContext ===

impl ModelContext {
    /// Reads the saved value. A value that cannot be read counts as nothing, because the history can be fitted again.
    pub fn read(saved: &Value) -> Self {
        Self::deserialize(saved).unwrap_or_default()
    }

    /// Returns the change that saves this.
    pub fn saved(&self) -> Change {
        Change::PutContext { context: json!(self) }
    }

    /// Returns the number of messages that a summary covers.
    pub fn summarized(&self) -> usize {
        self.next.as_ref().or(self.fit.summary.as_ref()).map_or(0, |covered| covered.messages)
    }

    /// Returns the number of tokens of the last request, unless a summary has come since, which makes the next one shorter.
    pub fn last_tokens(&self) -> Option<u64> {
        let measured = self.measured.filter(|measured| measured.summarized == self.summarized())?;
        Some(measured.tokens)
    }

    /// Returns the window, if it is known and the requests are about as long as they may be.
    pub fn full(&self, window: Option<Window>) -> Option<Window> {
        window.filter(|window| {
            self.was_full || self.measured.is_some_and(|measured| measured.tokens >= window.compact_at)
        })
    }

    /// Notes that a summary was not written. One failure may be chance; after the next one, none is tried for a while.
    pub fn note_failed_summary(&mut self, now: Timestamp) {
        self.failed_summaries = self.failed_summaries.saturating_add(1);
        if self.failed_summaries > 1 {
            self.paused_until = now.saturating_add(SUMMARY_PAUSE).ok();
        }
    }

    /// Notes that a summary was written.
    pub fn note_written_summary(&mut self) {
        (self.failed_summaries, self.paused_until) = (0, None);
    }

    /// Returns whether no summary is tried that nobody asks for.
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    /// Begins with the summary that was written meanwhile.
    pub fn use_next(&mut self) {
        if let Some(covered) = self.next.take() {
            self.fit.use_summary(covered);
        }
    }

    /// Notes that only this many messages stay. Returns `false` if what is left out does not stay as it is, so that all of the rest is sent
    /// again.
    pub fn truncate(&mut self, keep: usize) -> bool {
        self.job.take_if(|job| job.most > keep);
        self.next.take_if(|covered| covered.messages > keep);
        self.noted = self.noted.min(keep);
        if self.fit.left_out <= keep {
            return true;
        }
        (self.fit, self.measured, self.was_full) = (Fit::default(), None, false);
        false
    }

    /// Fits the history to a goal, and returns the request that `build` makes of it. Without a goal, nothing more is left out than was
    /// before. If nothing can be left out any more, the goal may be missed.
    pub fn fitted(
        &self,
        history: &History<'_>,
        goal: Option<Goal>,
        never_clear: &[Pattern],
        build: impl Fn(&Fit, &[&UiMessage]) -> ModelRequest,
    ) -> Fitted {
        let request = |fit: &Fit| build(fit, history.from(fit.left_out));
        let current = self.fit.tidied(history);
        let Some(goal) = goal else {
            return Fitted { request: request(&current), fit: current, estimated: None };
        };
        let sized = |fit: Fit| {
            let request = request(&fit);
            let estimated = tokens::of_request(&request);
            (self.tokens(estimated), Fitted { fit, request, estimated: Some(estimated) })
        };
        let (size, current) = sized(current);
        let limit = match goal {
            Goal::Within(limit) => limit,
            Goal::MuchShorter => size / 2,
        };
        if size <= limit {
            return current;
        }
        let (size, cleared) = sized(current.fit.clearing(history, never_clear));
        if size <= limit {
            return cleared;
        }
        // The more is left out, the fewer tokens there are.
        let beginnings = history.turns_after(self.fit.left_out);
        let first =
            beginnings.partition_point(|&begin| sized(cleared.fit.beginning(history, begin)).0 > limit);
        match beginnings.get(first).or(beginnings.last()) {
            Some(&begin) => sized(cleared.fit.beginning(history, begin)).1,
            None => cleared,
        }
    }

    /// Returns about how many tokens a request has.
    pub fn tokens_of(&self, request: &ModelRequest) -> u64 {
        self.tokens(tokens::of_request(request))
    }

    /// Returns about how many tokens a request has: as many as the provider has counted for the last one, and what is estimated of the
    /// difference.
    fn tokens(&self, estimated: u64) -> u64 {
        match self.measured {
            Some(measured) => (measured.tokens + estimated).saturating_sub(measured.estimated),
            None => estimated,
        }
    }
}

// === impl Unremembered ===

impl Unremembered {
    /// Adds messages.
    pub fn add(&mut self, ids: impl IntoIterator<Item = MessageId>) {
        if let Self::Messages(messages) = self {
            messages.extend(ids);
            if messages.len() > MAX_UNREMEMBERED {
                *self = Self::Chat;
            }
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Unremembered {
    fn default() -> Self {
        Self::Messages(BTreeSet::new())
    }
}

// === impl Fit ===

impl Fit {
    /// Has a summary stand for the messages that it covers.
    pub fn use_summary(&mut self, covered: Box<Covered>) {
        if covered.messages > self.left_out {
            self.left_out = covered.messages;
            self.instructions.clone_from(&covered.instructions);
        }
        self.summary = Some(covered);
    }

    /// Returns the fit without the calls that are not sent any more.
    fn tidied(&self, history: &History<'_>) -> Self {
        let mut fit = self.clone();
        if !fit.cleared.is_empty() {
            let sent = history.calls_from(self.left_out);
            fit.cleared.retain(|call| sent.contains(call));
        }
        fit
    }

    /// Returns the fit that also clears the outputs of old calls.
    fn clearing(&self, history: &History<'_>, never_clear: &[Pattern]) -> Self {
        let steps: Vec<&[UiPart]> = history
            .from(self.left_out)
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .flat_map(|message| message.parts.split(|part| *part == UiPart::StepStart))
            .filter(|step| !step.is_empty())
            .collect();
        let old = &steps[..steps.len().saturating_sub(RECENT_STEPS)];
        let mut cleared = self.cleared.clone();
        for part in old.iter().flat_map(|step| step.iter()).filter_map(UiPart::as_tool) {
            let is_long = match &part.state {
                ToolState::OutputAvailable { output, .. } => match output.as_str() {
                    Some(text) => text.len() > SHORT_OUTPUT,
                    None => output.to_string().len() > SHORT_OUTPUT,
                },
                _ => false,
            };
            if is_long && !never_clear.iter().any(|pattern| pattern.matches(part.name.as_str())) {
                cleared.insert(part.tool_call_id.clone());
            }
        }
        Self { cleared, ..self.clone() }
    }

    /// Returns the fit that leaves out everything before a message.
    fn beginning(&self, history: &History<'_>, begin: usize) -> Self {
        let mut instructions = self.instructions.clone();
        let left_out = begin - self.left_out;
        for message in history.from(self.left_out).iter().take(left_out) {
            if message.role == Role::System {
                instructions.extend(message.parts.iter().filter_map(UiPart::as_text).map(str::to_owned));
            }
        }
        Self { left_out: begin, instructions, ..self.clone() }.tidied(history)
    }
}

// === impl History ===

impl<'a> History<'a> {
    /// Returns the messages from this one of the chat on.
    fn from(&self, begin: usize) -> &[&'a UiMessage] {
        &self.messages[begin.saturating_sub(self.first).min(self.messages.len())..]
    }

    /// Returns the calls in the messages from this one of the chat on.
    fn calls_from(&self, begin: usize) -> BTreeSet<&ToolCallId> {
        let parts = self.from(begin).iter().flat_map(|message| &message.parts);
        parts.filter_map(UiPart::as_tool).map(|part| &part.tool_call_id).collect()
    }

    /// Returns the positions after this one where the history may begin: those of user messages.
    fn turns_after(&self, begin: usize) -> Vec<usize> {
        let messages = self.messages.iter().enumerate().map(|(index, message)| (self.first + index, message));
        let users = messages.filter(|(at, message)| *at > begin && message.role == Role::User);
        users.map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests;
