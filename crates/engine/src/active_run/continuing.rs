//! Clients that go on reading a run by posting its message again.

use std::{net::IpAddr, time::Duration};

use fermata_protocol::{PostedMessage, Profile};

use super::ActiveRun;
use crate::{
    AnswerError, Following, Reader, SubmitError,
    run::{AnswerSource, Event, claims_settled_call, client_view},
    run_log::Start,
    store::Change,
};

impl ActiveRun {
    /// Returns a reader as the reply to a request.
    pub fn follow(&self, reader: Reader) -> Following {
        Following { chat: self.record.chat.clone(), run: self.run.id.clone(), reader }
    }

    /// Continues the run for a client that has posted its message again, and accepts the answers in it.
    pub async fn continue_with(
        &mut self,
        posted: &PostedMessage,
        profile: Profile,
        hold: Duration,
        address: Option<IpAddr>,
    ) -> Result<Following, SubmitError> {
        let view = client_view(&posted.parts);
        let answers = self.run.new_answers(&posted.parts);
        // A run that is at work will show something that this client does not have.
        let has_all = self.run.is_waiting() && self.run.is_up_to_date(&view);
        if answers.is_empty() && (has_all || !claims_settled_call(&self.run.snapshot(), &view)) {
            return Err(SubmitError::nothing_new());
        }
        if !answers.is_empty() && self.run.is_detached() && !self.run.state.hold.is_zero() {
            tracing::info!(
                chat = %self.record.chat,
                run = %self.run.id,
                hold = ?self.run.state.hold,
                "the answer came by a second POST /api/chat after the stream had been held; a client that answers only so should ask for fermata.hold \"0s\""
            );
        }
        let reconciliation = self.run.reconcile(&view).ok_or_else(SubmitError::nothing_new)?;
        // The reader is opened first, because the answers may be the end of the run.
        let start = Start { after: reconciliation.after, prologue: reconciliation.prologue };
        let following = self.follow(self.log.read(profile, start));
        // The post brings its own hold and client version; the run's other settings stay.
        self.record.profile = profile;
        self.unsaved.push(Change::Posted { profile });
        self.apply(Event::Followed { profile, hold }).await?;
        self.answer(&answers, AnswerSource::InMessage, address).await.map_err(|error| match error {
            AnswerError::Unavailable(unavailable) => SubmitError::Unavailable(unavailable),
            AnswerError::TooLarge(text) => SubmitError::TooLarge(text),
            other => SubmitError::Invalid(other.to_string()),
        })?;
        Ok(following)
    }
}
