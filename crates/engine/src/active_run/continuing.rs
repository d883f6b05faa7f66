//! A run that goes on in a new message, because a message of the user has decided about its calls or answered its questions.
//!
//! Invariant: the end of the one run, the beginning of the other and the answers are one commit. So there is never a call without a run, and
//! an answer is never lost.

use fermata_protocol::{Assembler, MessageId, Profile, RunId, UiChunk, UiMessage};
use fermata_tools::DecisionChannel;

use super::{ActiveRun, CallSpans, Ownership, Timers};
use crate::{
    api::{
        errors::{AnswerError, SubmitError},
        request::{Following, Submission},
    },
    ports::store::{Change, StoreError, json_bytes},
    post::Reply,
    run::{Continuation, Event, Overruled, Said},
    run_log::{Start, Writer},
    services::{OpenRun, Patience},
};

impl ActiveRun {
    /// Takes a message of the user as the answer that the run waits for, and goes on in a new message. The readers of the message so far
    /// are sent away as if the run had been superseded.
    pub async fn continue_after(
        &mut self,
        submission: &Submission,
        reply: &Reply,
        said: UiMessage,
        profile: Profile,
        open_run: OpenRun,
    ) -> Result<Following, SubmitError> {
        let services = self.services.clone();
        let hold = services.holds.of(submission, &*services.store).await?;
        let by = submission.decider(DecisionChannel::Words);
        let (answers, meaning) = match reply {
            Reply::Decision { approved, shown } => {
                let decisions = self.run.decisions(*approved, &shown.iter().collect());
                let valid = self.validate(&decisions, &by).await;
                let valid = valid.map_err(|error| match error {
                    AnswerError::Unavailable(unavailable) => SubmitError::Unavailable(unavailable),
                    other => SubmitError::Invalid(other.to_string()),
                })?;
                let changed =
                    valid.overruled.iter().find(|(_, reason)| matches!(reason, Overruled::ToolChanged));
                if let Some((index, _)) = changed {
                    let call = &self.run.calls[*index];
                    let error = AnswerError::tool_changed(&call.id, &call.tool);
                    self.apply(Event::ApprovalsOverruled(valid.overruled)).await?;
                    return Err(SubmitError::ToolChanged(error.to_string()));
                }
                (valid.answers, if *approved { Said::Approved } else { Said::Denied })
            }
            Reply::Answer(message) => (self.run.replies(message, by), Said::Answered),
        };
        let answers = self.hand_over(answers).await;

        let continuation = Continuation {
            id: RunId::new(services.ids.next("run_")),
            message: MessageId::new(services.ids.next("msg_")),
            profile,
            hold,
            show: submission.body.fermata.show.clone(),
            now: services.clock.now(),
            said: meaning,
        };
        let next = self.run.continued(continuation);

        // The end of the message so far.
        let answered = answers.elicitations.iter().map(|reply| reply.index).collect();
        let last = self.decide(Event::HandedOver(answered));
        let message = self.run.snapshot();
        self.log.stage(&last.after.publish);
        let from = self.run.id.clone();
        for (first, chunks) in self.log.unsaved() {
            self.unsaved.push(Change::AppendChunks { run: from.clone(), first: first.into(), chunks });
        }
        self.unsaved.push(Change::Posted { profile });
        self.record.head.profile = profile;
        self.record.head.bytes += json_bytes(&message) + json_bytes(&said);
        let messages = [said.id.clone(), next.message.clone()];
        self.unsaved.extend(self.record.note_post(&submission.body.fermata, messages));
        self.unsaved.push(Change::PutMessage(Box::new(message.clone())));
        self.unsaved.push(Change::PutMessage(Box::new(said)));
        self.unsaved.push(Change::CloseRun { run: from.clone(), outcome: "superseded" });

        // The beginning of the next one.
        let to = next.id.clone();
        let owner = services.lease.instance.clone();
        self.unsaved.push(Change::OpenRun { run: to.clone(), message: next.message.clone(), owner });
        self.unsaved.push(Change::MoveCalls { from, to: to.clone() });
        let settings = serde_json::to_value(&next.settings);
        let settings = settings.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        self.unsaved.push(Change::PutSettings { run: to.clone(), settings });
        self.run = next;
        if self.run.state.earlier.as_ref().is_some_and(|earlier| earlier.id == message.id) {
            self.earlier = Some(Box::new(message));
        }
        let mut earlier_log = std::mem::replace(&mut self.log, Writer::new(to));
        self.ownership = Ownership::Claimed(open_run);
        self.attempts = 0;
        self.history = None;
        self.saved_plan = None;
        self.timers = Timers::default();
        self.spans = CallSpans::new(&self.run);
        let following = self.follow(self.log.read(profile, Start::default()));
        if let Err(error) = self.apply(Event::Continued(answers)).await {
            // It is not known what was saved, so the readers look for their run.
            earlier_log.end_moved();
            return Err(error.into());
        }
        earlier_log.publish();
        earlier_log.end(Vec::new());
        metrics::counter!("fermata_runs_total", "outcome" => "superseded").increment(1);
        Ok(following)
    }

    /// Applies the changes to the calls of the earlier message. Returns the change to save; `None` if the message is gone.
    pub(super) async fn change_earlier_message(
        &mut self,
        chunks: &[UiChunk],
    ) -> Result<Option<Change>, StoreError> {
        let Some(earlier) = &self.run.state.earlier else { return Ok(None) };
        let before = match self.earlier.take() {
            Some(message) => *message,
            None => match self
                .services
                .patiently(Patience::Run, || self.services.store.message(&self.record.chat, &earlier.id))
                .await?
            {
                Some((_, message)) => message,
                None => return Ok(None),
            },
        };
        self.record.head.bytes = self.record.head.bytes.saturating_sub(json_bytes(&before));
        let mut assembler = Assembler::from_message(before);
        for chunk in chunks {
            if let Err(error) = assembler.apply(chunk) {
                tracing::error!(run = %self.run.id, %error, "a chunk does not fit into the earlier message");
            }
        }
        let after = assembler.snapshot();
        self.record.head.bytes += json_bytes(&after);
        self.earlier = Some(Box::new(after.clone()));
        Ok(Some(Change::ReplaceMessage(Box::new(after))))
    }
}
