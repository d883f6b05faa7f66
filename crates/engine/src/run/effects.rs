//! The effects of an event on the rest of the program, in the order they are performed.

use std::collections::BTreeSet;

use fermata_protocol::{ElicitationId, ToolCallId, UiChunk};
use fermata_tools::{ApprovalDecision, AuditEvent, Check, ElicitationReply, Grant, ResourceKey};

use super::Ending;

use crate::{
    ports::store::{AnswerRoute, Notice},
    run_log::position::Position,
};

/// The effects of an event. They are performed in the order of the fields, here and within each group. So everything that a reader has
/// seen is saved if it had to be.
///
/// Calls and questions that wait for an answer are no effect: they follow from the run ([`Run::awaited`](super::Run::awaited)).
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub before: BeforeCommit,
    pub commit: Commit,
    pub after: AfterCommit,
}

/// The effects that are performed before anything is saved. Their results are the next events, and results that are there at once share
/// the commit.
#[derive(Debug, Default)]
pub(crate) struct BeforeCommit {
    /// Inputs of the model to be checked before anything is decided about their calls. The results are [`Event::InputsChecked`].
    ///
    /// [`Event::InputsChecked`]: super::Event::InputsChecked
    pub checks: Vec<(ToolCallId, Check)>,
    /// Calls that ask to be admitted, in the model's order: each needs the lock of its resource, if it has one, and then has to be one more
    /// call that may run. The next event says for each whether it is admitted or waits ([`Event::Admission`](super::Event::Admission)).
    pub admissions: Vec<(ToolCallId, Option<ResourceKey>)>,
}

/// The changes that are saved, all in one commit.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    /// `true` if the run's own state and its log are saved.
    pub run: bool,
    /// Calls that changed, as indexes in [`Run::calls`](super::Run::calls).
    pub calls: BTreeSet<usize>,
    /// The decisions and votes of people, in order.
    pub decisions: Vec<Decided>,
    /// Grants that were given with decisions, each with the index of the call in [`Run::calls`](super::Run::calls).
    pub grants: Vec<(usize, Grant)>,
    /// The decisions that the audit log keeps.
    pub audit: Vec<AuditEvent>,
    /// The notices to people and services elsewhere.
    pub notices: Vec<Notice>,
    /// Changes of calls in the earlier message that the run continues. No reader of the run's own message is shown this.
    pub earlier: Vec<UiChunk>,
    /// The route of answers that the reading page has shown.
    pub answer_route: Option<AnswerRoute>,
    /// `true` if the commit saves work that would otherwise be repeated after a crash.
    pub is_progress: bool,
    /// `true` if a person, the model or a tool has done something that makes lists show the chat as changed.
    pub is_news: bool,
}

/// The decision of a person about a call, or the vote.
#[derive(Debug)]
pub(crate) struct Decided {
    /// The call, as its index in [`Run::calls`](super::Run::calls).
    pub call: usize,
    pub decision: ApprovalDecision,
}

/// The effects that are performed after the commit.
#[derive(Debug, Default)]
pub(crate) struct AfterCommit {
    /// Calls whose work ends, because a person has cancelled them.
    pub cancel: Vec<ToolCallId>,
    /// Calls that run from now on, in the model's order.
    pub execute: Vec<ToolCallId>,
    /// The chunks that readers are shown, with their positions in the log. Each is an entry of the log, so a reader that starts from
    /// an earlier position receives it again, even a [`transient`](fermata_protocol::DataChunk::transient) one.
    pub publish: Vec<(Position, UiChunk)>,
    /// The replies to tools that have asked the user something.
    pub replies: Vec<(ElicitationId, ElicitationReply)>,
    pub next: Next,
    /// `true` if the call of [`Event::Retries`](super::Event::Retries) may run again.
    pub may_retry: bool,
    /// The id of the question of [`Event::Elicits`](super::Event::Elicits), or the reply if it cannot be asked.
    pub elicited: Option<Result<ElicitationId, ElicitationReply>>,
}

/// The next step of a run after an event.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Next {
    /// Something else has to happen first.
    #[default]
    Nothing,
    /// The model is asked for the next step.
    AskModel,
    /// The run is over.
    Close(Ending),
}

// === impl Effects ===

impl Effects {
    /// Adds the effects of the next event, which are performed together with these.
    pub fn append(&mut self, next: Self) {
        let Self { before, commit, after } = next;
        self.before.checks.extend(before.checks);
        self.before.admissions.extend(before.admissions);

        let Commit {
            run,
            calls,
            decisions,
            grants,
            audit,
            notices,
            earlier,
            answer_route,
            is_progress,
            is_news,
        } = commit;
        self.commit.run |= run;
        self.commit.calls.extend(calls);
        self.commit.decisions.extend(decisions);
        self.commit.grants.extend(grants);
        self.commit.audit.extend(audit);
        self.commit.notices.extend(notices);
        self.commit.earlier.extend(earlier);
        self.commit.answer_route = answer_route.or(self.commit.answer_route);
        self.commit.is_progress |= is_progress;
        self.commit.is_news |= is_news;

        let AfterCommit { cancel, execute, publish, replies, may_retry, elicited, next } = after;
        self.after.cancel.extend(cancel);
        self.after.execute.extend(execute);
        self.after.publish.extend(publish);
        self.after.replies.extend(replies);
        self.after.may_retry |= may_retry;
        self.after.elicited = elicited.or(self.after.elicited.take());
        if next != Next::Nothing {
            self.after.next = next;
        }
    }
}

// === impl Commit ===

impl Commit {
    /// Returns whether nothing is saved.
    pub fn is_empty(&self) -> bool {
        let Self {
            run,
            calls,
            decisions,
            grants,
            audit,
            notices,
            earlier,
            answer_route,
            is_progress: _,
            is_news: _,
        } = self;
        !run && calls.is_empty()
            && decisions.is_empty()
            && grants.is_empty()
            && audit.is_empty()
            && notices.is_empty()
            && earlier.is_empty()
            && answer_route.is_none()
    }
}

// === impl AfterCommit ===

impl AfterCommit {
    /// Returns whether readers are shown something that is saved for its own sake, which is everything but partial outputs and what is
    /// no part of the message.
    pub fn publishes_lasting_chunks(&self) -> bool {
        self.publish.iter().any(|(_, chunk)| match chunk {
            UiChunk::ToolOutputAvailable { preliminary, .. } => *preliminary != Some(true),
            UiChunk::Data(data) => data.transient != Some(true),
            _ => true,
        })
    }
}

// === impl Next ===

impl Next {
    /// Returns how the run has ended, if it has.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Self::Close(ending) => Some(ending),
            Self::Nothing | Self::AskModel => None,
        }
    }
}
