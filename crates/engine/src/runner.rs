//! The loop of model and tools for Rust programs: it asks the model, runs the tools that the model called, and asks again with their
//! results, until the model calls nothing.
//!
//! This module knows models and tools, and no store, chat, stream or page. It needs a tokio runtime with time enabled.
//!
//! A [`Runner`] can be awaited, and then runs to the end.
//!
//! ```no_run
//! # use std::{error::Error, sync::Arc};
//! # use fermata_engine::{Model, Runner, runner::Params};
//! # use fermata_tools::Tool;
//! # async fn ask(model: Arc<dyn Model>, tool: Arc<dyn Tool>) -> Result<(), Box<dyn Error>> {
//! let params = Params::new(model).user("How many lamps are left?").tools([tool])?;
//! let outcome = Runner::new(params).await?;
//! println!("{} ({:?})", outcome.step.text, outcome.stop_reason);
//! # Ok(())
//! # }
//! ```
//!
//! A program that wants to look at the steps, or to change the conversation between them, asks for one after the other with
//! [`Runner::next_step`], or gets them as a stream from [`Runner::steps`].
//!
//! ```no_run
//! # use fermata_engine::{Runner, RunnerError, runner::Params};
//! # async fn ask(params: Params) -> Result<(), RunnerError> {
//! let mut runner = Runner::new(params);
//! while let Some(step) = runner.next_step().await? {
//!     println!("{}", step.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: every call in a request to the model has a result, even one that the program left open; no call runs while another one
//! of its step waits for a decision; no call runs twice, even if a future of the runner is dropped and requested again; the failure of a
//! tool is a result, and the failure of a model is an error; tools end when the runner is dropped.

mod hooks;
mod pairing;
mod params;
mod response;
mod step;
mod step_request;

use std::{num::NonZeroU32, sync::Arc};

pub use fermata_protocol::ToolChoice;
use futures::{FutureExt, Stream, future::BoxFuture, stream};
use tokio::sync::watch;

pub use self::{
    hooks::{Approval, Hooks, NoHooks},
    params::Params,
    step::Step,
};
use self::{
    response::{ResponseContext, ToolResponse},
    step_request::{InvalidCalls, ReceivedStep},
};
use crate::model::{ModelCall, ModelError, ModelMessage, Usage};
pub use crate::step::collector::UrlSource;

/// A loop of model and tools, with its conversation.
///
/// Between steps the conversation can be read and changed. A step is part of it as soon as [`Runner::next_step`] returns; the results of
/// its calls are added when the next step begins, unless the program pushes results of its own.
pub struct Runner {
    params: Params,
    hooks: Arc<dyn Hooks>,
    /// The number of requests to the model, including those that failed.
    iterations: u32,
    /// If `true`, the model is asked again even if it called nothing last.
    must_ask: bool,
    last_step: Option<Step>,
    /// The calls of the last step that cannot run as the model made them.
    invalid: InvalidCalls,
    /// The response to the calls that the conversation ends with, from when it is first requested.
    response: Option<ToolResponse>,
    usage: Usage,
    stop_reason: Option<StopReason>,
    /// The outcome of the loop, for those who wait for it elsewhere.
    done: watch::Sender<Option<Outcome>>,
}

/// The reason why a loop stopped without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model called nothing.
    Answered,
    /// The model was asked as often as [`Params::max_iterations`] allows. The calls of the last step have run.
    MaxIterations,
    /// The answer was cut off, by a content filter or otherwise, and its calls did not run.
    CutOff,
    /// A tool failed, and [`fermata_tools::ErrorStrategy::FailRun`] is set for such a failure.
    ToolFailed,
}

/// The result of a loop that has stopped.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The last step.
    pub step: Step,
    /// The whole conversation. Every call in it is paired with its result.
    pub messages: Vec<ModelMessage>,
    /// The tokens of all steps, if the provider counted them.
    pub usage: Usage,
    /// The reason why the loop stopped.
    pub stop_reason: StopReason,
}

/// An error that interrupts the loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// The model failed. The conversation is as it was before the model was asked, and [`Runner::next_step`] asks it again.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's output in one step exceeded [`Params::step_output_bytes`]. Nothing of the step is kept, and [`Runner::next_step`] asks
    /// again.
    #[error("the model said more than {0} bytes in one step")]
    OutputLimit(usize),
    /// The model failed as often as it may be asked, so there is no step to return.
    #[error("the model was asked {0} times and never answered")]
    NoStep(u32),
}

// === impl Runner ===

impl Runner {
    /// Prepares a loop without hooks. Nothing happens until it is awaited or a step is requested.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            hooks: Arc::new(NoHooks),
            iterations: 0,
            must_ask: true,
            last_step: None,
            invalid: InvalidCalls::new(),
            response: None,
            usage: Usage::default(),
            stop_reason: None,
            done: watch::Sender::new(None),
        }
    }

    /// Sets the hooks, which follow the loop and decide about its calls.
    #[must_use]
    pub fn with_hooks(self, hooks: Arc<dyn Hooks>) -> Self {
        Self { hooks, ..self }
    }

    /// Runs the calls of the last step, asks the model with their results and returns its next step. Returns `None` once the loop has
    /// stopped.
    ///
    /// The future may be dropped. Running tools continue, and the next call of this method waits for them; a model that was not
    /// done is asked again, which counts as an iteration.
    ///
    /// # Errors
    /// Returns an error if the model failed. Calling this method again asks the model again.
    pub async fn next_step(&mut self) -> Result<Option<Step>, RunnerError> {
        if self.stop_reason.is_some() {
            return Ok(None);
        }
        // The results of the last calls belong to the conversation now. The model is not asked to go on from an answer that was cut off.
        let calls = last_calls(&self.params.messages);
        let is_cut_off = self.last_step.as_ref().is_some_and(|step| step.is_cut_off() && step.calls == calls);
        self.must_ask |= !calls.is_empty() && !is_cut_off;
        let results = self.tool_response().await.to_vec();
        let has_tool_failed = self.response.take().is_some_and(|response| response.stops_loop);
        self.params.messages.extend(results);
        pairing::pair(&mut self.params.messages);
        let limit = self.params.max_iterations.map_or(u32::MAX, NonZeroU32::get);
        self.stop_reason = match &self.last_step {
            _ if has_tool_failed => Some(StopReason::ToolFailed),
            Some(step) if !self.must_ask && step.is_cut_off() => Some(StopReason::CutOff),
            Some(_) if !self.must_ask => Some(StopReason::Answered),
            Some(_) | None if self.iterations >= limit => Some(StopReason::MaxIterations),
            Some(_) | None => None,
        };
        if self.stop_reason.is_some() {
            self.done.send_replace(self.outcome());
            return Ok(None);
        }
        self.add_step().await.map(Some)
    }

    /// Returns the steps as a stream, which ends after an error. The runner can be used again after it: for its outcome, or to ask again.
    pub fn steps(&mut self) -> impl Stream<Item = Result<Step, RunnerError>> + Send {
        stream::unfold(Some(self), |runner| async {
            let runner = runner?;
            match runner.next_step().await.transpose()? {
                Ok(step) => Some((Ok(step), Some(runner))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Runs the loop to its end. Awaiting the runner does the same, but after an error the conversation is lost with the runner.
    ///
    /// # Errors
    /// Returns an error if the model failed. Calling this method again asks the model again.
    pub async fn run(&mut self) -> Result<Outcome, RunnerError> {
        while self.next_step().await?.is_some() {}
        self.outcome().ok_or(RunnerError::NoStep(self.iterations))
    }

    /// Waits for the outcome of the loop while another part of the program runs it. Returns `None` if the runner is dropped before.
    pub fn done(&self) -> impl Future<Output = Option<Outcome>> + Send + use<> {
        let mut done = self.done.subscribe();
        async move { done.wait_for(Option::is_some).await.ok()?.clone() }
    }

    /// Returns the outcome of the loop once it has stopped; `None` before, and if the model never answered.
    pub fn outcome(&self) -> Option<Outcome> {
        Some(Outcome {
            stop_reason: self.stop_reason?,
            step: self.last_step.clone()?,
            messages: self.params.messages.clone(),
            usage: self.usage,
        })
    }

    /// Returns the tokens of all steps so far, if the provider counted them.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the results of the calls that the conversation ends with, in the order of the calls, or nothing if it does not end with
    /// calls. Each call runs once: calling this method again returns the results that there are, and the loop uses them too.
    /// [`Runner::push_messages`] replaces them.
    pub async fn tool_response(&mut self) -> &[ModelMessage] {
        let calls = last_calls(&self.params.messages);
        let response = self.response.get_or_insert_with(|| ToolResponse::new(calls.to_vec()));
        let context = ResponseContext { params: &self.params, hooks: &self.hooks, invalid: &self.invalid };
        response.messages(&context).await
    }

    /// Returns the parameters of the next step.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the conversation so far.
    pub fn messages(&self) -> &[ModelMessage] {
        &self.params.messages
    }

    /// Returns the newest step.
    pub fn last_step(&self) -> Option<&Step> {
        self.last_step.as_ref()
    }

    /// Returns the reason why the loop stopped; `None` while it runs.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    /// Replaces the parameters. The loop continues, even if the model called nothing. A tool response that the model does not
    /// have yet is dropped and its tools are cancelled, unless the new conversation ends with the calls that the old one ended with.
    pub fn set_params(&mut self, params: Params) {
        self.update_params(|old| *old = params);
    }

    /// Changes the parameters, with the consequences of [`Runner::set_params`].
    pub fn update_params(&mut self, change: impl FnOnce(&mut Params)) {
        change(&mut self.params);
        self.must_ask = true;
        let calls = last_calls(&self.params.messages);
        self.response.take_if(|response| response.calls != calls);
    }

    /// Adds messages to the conversation. The loop continues, even if the model called nothing. A tool response that the model does not have
    /// yet is dropped and its tools are cancelled. If the messages have no result of a call, its result says that there is none.
    ///
    /// If the messages begin with that of the last step ([`Step::message`]), which the conversation has already, it is not added again.
    pub fn push_messages(&mut self, messages: impl IntoIterator<Item = ModelMessage>) {
        let mut messages = messages.into_iter().peekable();
        let own = self.last_step.as_ref().map(Step::message);
        let is_repeated = messages
            .peek()
            .is_some_and(|first| self.params.messages.last() == Some(first) && own.as_ref() == Some(first));
        if is_repeated {
            messages.next();
        }
        self.update_params(|params| params.messages.extend(messages));
    }

    /// Requests a step from the model and adds it to the conversation.
    async fn add_step(&mut self) -> Result<Step, RunnerError> {
        self.iterations = self.iterations.saturating_add(1);
        let received = step_request::request_step(&self.params, self.hooks.as_ref(), self.iterations).await?;
        let ReceivedStep { step, invalid } = received;
        self.must_ask = false;
        self.invalid = invalid;
        if let Some(usage) = step.usage {
            self.usage += usage;
        }
        if matches!(self.params.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_))) {
            // A call that is forced in every step would keep the loop from ever stopping.
            self.params.tool_choice = None;
        }
        // Providers refuse a message without text and calls.
        if !step.text.is_empty() || !step.calls.is_empty() {
            self.params.messages.push(step.message());
        }
        self.last_step = Some(step.clone());
        self.hooks.step(&step);
        Ok(step)
    }
}

/// Runs the loop to its end.
///
/// # Errors
/// Returns an error if the model failed. A program that wants to ask the model again uses [`Runner::next_step`].
impl IntoFuture for Runner {
    type Output = Result<Outcome, RunnerError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        async move { self.run().await }.boxed()
    }
}

/// Returns the calls of the message that a conversation ends with.
fn last_calls(messages: &[ModelMessage]) -> &[ModelCall] {
    match messages.last() {
        Some(ModelMessage::Assistant { calls, .. }) => calls,
        Some(ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. }) | None => &[],
    }
}
