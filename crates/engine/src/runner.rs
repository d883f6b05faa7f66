//! The loop for Rust programs: ask the model, run what it called, tell it the results, until it calls
//! nothing.
//!
//! Knows models and tools; no store, chat, stream or page. A [`Runner`] is consumed once: step by step with
//! [`Runner::next_step`], as a stream with [`Runner::steps`], or to the end with [`Runner::run_until_done`].
//! Needs a tokio runtime with time.
//!
//! ```no_run
//! # use std::{error::Error, sync::Arc};
//! # use fermata_engine::{Model, Runner, runner::Params};
//! # use fermata_tools::Tool;
//! # async fn ask(model: Arc<dyn Model>, tool: Arc<dyn Tool>) -> Result<(), Box<dyn Error>> {
//! let params = Params::new(model).user("How many lamps are left?").tools([tool])?;
//! let mut runner = Runner::new(params);
//! while let Some(step) = runner.next_step().await? {
//!     println!("{}", step.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: what a model is asked with is paired, whatever the caller pushed; no call runs while one of
//! its step waits for a decision, and none twice, also where a future of the runner is dropped and asked for
//! again; a tool that fails is a result, a model that fails is an error; when the runner is dropped, its
//! tools are.

mod hooks;
mod pairing;
mod params;
mod response;
mod step;

use std::{num::NonZeroU32, sync::Arc};

use fermata_protocol::ToolChoice;
use futures::{Stream, stream};

pub use self::{
    hooks::{Approval, Hooks, NoHooks},
    params::Params,
    step::{Source, Step},
};
use self::{
    response::{Calls, Response},
    step::{Faults, Heard},
};
use crate::model::{ModelError, ModelMessage, Usage};

/// A conversation between a model and tools that goes on by itself.
///
/// Between steps the conversation can be read and changed. It holds what the model has said as soon as
/// [`Runner::next_step`] returns; the results of its calls come to it when the next step begins, or when they
/// are pushed.
pub struct Runner {
    params: Params,
    hooks: Arc<dyn Hooks>,
    /// How often a model has been asked, also in vain.
    asked: u32,
    /// Whether the model is to be asked, whatever it called last.
    due: bool,
    last: Option<Step>,
    /// Why calls of the last step cannot run as they stand.
    faults: Faults,
    /// What comes of the calls that the conversation ends with.
    response: Option<Response>,
    usage: Usage,
    ending: Option<Ending>,
}

/// How a loop ended that nothing broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model called nothing.
    Answered,
    /// The model was asked as often as it may be. What it called last has run.
    MaxIterations,
    /// The provider cut the model's answer off; what it had called did not run.
    CutOff,
    /// A tool failed in a way for which [`fermata_tools::ErrorStrategy::FailRun`] is set.
    ToolFailed,
}

/// A loop that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The last step.
    pub step: Step,
    /// The whole conversation, paired.
    pub messages: Vec<ModelMessage>,
    /// Tokens of all steps, as far as the provider counted them.
    pub usage: Usage,
    /// How it ended.
    pub ending: Ending,
}

/// What breaks the loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// The model failed. The conversation stands as it was asked with; [`Runner::next_step`] asks again.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model failed as often as it may be asked, so there is no step to return.
    #[error("the model was asked {0} times and never answered")]
    NoStep(u32),
}

// === impl Runner ===

impl Runner {
    /// A loop that has not begun, without hooks.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            hooks: Arc::new(NoHooks),
            asked: 0,
            due: true,
            last: None,
            faults: Faults::new(),
            response: None,
            usage: Usage::default(),
            ending: None,
        }
    }

    /// The same, with somebody who is told what happens and asked what may run.
    #[must_use]
    pub fn with_hooks(self, hooks: Arc<dyn Hooks>) -> Self {
        Self { hooks, ..self }
    }

    /// Runs what the last step called, tells the model and returns its next step; `None` where the loop has
    /// ended, and ever after.
    ///
    /// The future may be dropped: tools that have begun go on and are waited for by the next call, while a
    /// model that was not done is asked anew, which counts as an iteration.
    ///
    /// # Errors
    /// Where the model failed. Calling again asks it again.
    pub async fn next_step(&mut self) -> Result<Option<Step>, RunnerError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let given_up = self.tell_results().await;
        self.ending = if given_up { Some(Ending::ToolFailed) } else { self.end() };
        if self.ending.is_some() {
            return Ok(None);
        }
        self.ask().await.map(Some)
    }

    /// The steps as they come. After an error, the stream is over.
    pub fn steps(self) -> impl Stream<Item = Result<Step, RunnerError>> + Send {
        stream::unfold(Some(self), |runner| async {
            let mut runner = runner?;
            match runner.next_step().await.transpose()? {
                Ok(step) => Some((Ok(step), Some(runner))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Goes on to the end.
    ///
    /// # Errors
    /// Where the model failed.
    pub async fn run_until_done(mut self) -> Result<Outcome, RunnerError> {
        while self.next_step().await?.is_some() {}
        let step = self.last.ok_or(RunnerError::NoStep(self.asked))?;
        let ending = self.ending.unwrap_or(Ending::Answered);
        Ok(Outcome { step, messages: self.params.messages, usage: self.usage, ending })
    }

    /// The results of the calls that the conversation ends with, in their order; none where it ends with
    /// something else. They are computed once: who asks again, and the loop itself, gets the same.
    /// [`Runner::push_messages`] puts others in their place.
    pub async fn tool_response(&mut self) -> &[ModelMessage] {
        let calls = calls_at_the_end(&self.params.messages);
        let response = self.response.get_or_insert_with(|| Response::new(calls.to_vec()));
        let calls = Calls { params: &self.params, hooks: &self.hooks, faults: &self.faults };
        response.messages(&calls).await
    }

    /// What the next step is asked with.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[ModelMessage] {
        &self.params.messages
    }

    /// The last step that came.
    pub fn last_step(&self) -> Option<&Step> {
        self.last.as_ref()
    }

    /// How the loop ended; `None` while it has not.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Asks the next step with these. The loop goes on, also where the model called nothing; a tool response
    /// that was not sent yet is dropped, and its tools are cancelled, unless the new conversation ends with
    /// the same calls.
    pub fn set_params(&mut self, params: Params) {
        self.update_params(|old| *old = params);
    }

    /// As [`Runner::set_params`], changing what there is.
    pub fn update_params(&mut self, change: impl FnOnce(&mut Params)) {
        change(&mut self.params);
        self.due = true;
        let calls = calls_at_the_end(&self.params.messages);
        self.response.take_if(|response| !response.is_for(calls));
    }

    /// Says more, after what the model has said. The loop goes on, also where the model called nothing; a
    /// tool response that was not sent yet is dropped, and its tools are cancelled. Calls that have no result
    /// then, neither here nor there, are told to have none.
    ///
    /// Messages that begin with the step's own ([`Step::message`]) do not repeat it.
    pub fn push_messages(&mut self, messages: impl IntoIterator<Item = ModelMessage>) {
        let own = self.last.as_ref().map(Step::message);
        let mut messages = messages.into_iter().peekable();
        if messages
            .peek()
            .is_some_and(|first| self.params.messages.last() == Some(first) && own.as_ref() == Some(first))
        {
            messages.next();
        }
        self.update_params(|params| params.messages.extend(messages));
    }

    /// Puts the results of the last calls into the conversation. Returns whether one of them ends the loop.
    async fn tell_results(&mut self) -> bool {
        let called = calls_at_the_end(&self.params.messages);
        // What was cut off is final: the model is not asked what it makes of calls that did not run.
        let cut_off = self.last.as_ref().is_some_and(|step| step.is_cut_off() && step.calls == called);
        self.due |= !called.is_empty() && !cut_off;
        let results = self.tool_response().await.to_vec();
        let response = self.response.take();
        self.params.messages.extend(results);
        pairing::pair(&mut self.params.messages);
        response.is_some_and(|response| response.ends_loop())
    }

    /// How the loop ends, where it does now.
    fn end(&self) -> Option<Ending> {
        let most = self.params.max_iterations.map_or(u32::MAX, NonZeroU32::get);
        match &self.last {
            Some(step) if !self.due && step.is_cut_off() => Some(Ending::CutOff),
            Some(_) if !self.due => Some(Ending::Answered),
            Some(_) | None if self.asked >= most => Some(Ending::MaxIterations),
            Some(_) | None => None,
        }
    }

    async fn ask(&mut self) -> Result<Step, RunnerError> {
        self.asked = self.asked.saturating_add(1);
        let Heard { step, faults } = step::ask(&self.params, self.hooks.as_ref(), self.asked).await?;
        self.due = false;
        self.faults = faults;
        self.count(step.usage);
        if matches!(self.params.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_))) {
            // Forced in every step, the loop would never end.
            self.params.tool_choice = None;
        }
        if step.says_something() {
            self.params.messages.push(step.message());
        }
        self.last = Some(step.clone());
        self.hooks.step(&step);
        Ok(step)
    }

    fn count(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.usage.input_tokens += usage.input_tokens;
        self.usage.output_tokens += usage.output_tokens;
        self.usage.total_tokens += usage.total_tokens;
    }
}

/// The calls of the message that a conversation ends with.
fn calls_at_the_end(messages: &[ModelMessage]) -> &[crate::model::ModelCall] {
    match messages.last() {
        Some(ModelMessage::Assistant { calls, .. }) => calls,
        Some(ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. }) | None => &[],
    }
}
