//! The time that a run keeps its readers while it waits.
//!
//! Stock pages of the AI SDK send the same posts, but answer in two ways. Some post the chat again, and only once the stream has ended, so a
//! hold delays their answers. Others answer by `POST /chat/tool-result` and read on. With [`Hold::Auto`] the streams of an owner's stock pages
//! are held briefly until one page has shown which way it answers; that is remembered here and in the store.

use dashmap::DashMap;
use fermata_tools::Owner;

use crate::{
    api::request::Submission,
    ports::store::{AnswerRoute, ChatStore, StoreError},
    settings::{Hold, RunHold},
};

/// The limit on the owners that are remembered here; the store has all of them.
const OWNERS_LIMIT: usize = 10_000;

/// The holds of runs, and how the stock pages of owners answer, as far as this process has asked the store.
pub(crate) struct Holds {
    hold: Hold,
    routes: DashMap<Owner, Option<AnswerRoute>>,
}

impl Holds {
    pub fn new(hold: Hold) -> Self {
        Self { hold, routes: DashMap::new() }
    }

    /// Returns the hold of the run that a post starts or continues.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub async fn of(&self, submission: &Submission, store: &dyn ChatStore) -> Result<RunHold, StoreError> {
        match (submission.hold, self.hold) {
            (Some(hold), _) | (None, Hold::For(hold)) => Ok(RunHold::For(hold)),
            (None, Hold::Auto) if !submission.body.is_stock => Ok(RunHold::For(Hold::AUTO)),
            (None, Hold::Auto) => Ok(match self.route(&submission.owner, store).await? {
                None => RunHold::Trial,
                Some(AnswerRoute::ToolResult) => RunHold::For(Hold::AUTO),
                Some(AnswerRoute::Repost) => RunHold::ZERO,
            }),
        }
    }

    async fn route(&self, owner: &Owner, store: &dyn ChatStore) -> Result<Option<AnswerRoute>, StoreError> {
        let known = self.routes.get(owner).map(|known| *known);
        if let Some(route) = known {
            return Ok(route);
        }
        let saved = store.answer_route(owner).await?;
        self.insert(owner, saved);
        Ok(saved)
    }

    /// Notes that a post has answered a call after its readers were held in vain. Returns whether that is to be saved.
    pub fn learn_from_repost(&self, submission: &Submission) -> bool {
        let learns = self.hold == Hold::Auto && submission.hold.is_none() && submission.body.is_stock;
        if learns {
            self.remember(&submission.owner, AnswerRoute::Repost);
        }
        learns
    }

    /// Notes how a stock page of the owner answers.
    pub fn remember(&self, owner: &Owner, route: AnswerRoute) {
        self.insert(owner, Some(route));
    }

    fn insert(&self, owner: &Owner, route: Option<AnswerRoute>) {
        if self.routes.len() >= OWNERS_LIMIT {
            self.routes.clear();
        }
        self.routes.insert(owner.clone(), route);
    }
}
