//! The time for which a run holds its readers.
//!
//! A stock page that answers by posting its chat again posts only when the stream has ended, so a hold makes it wait for nothing. With
//! [`Hold::Auto`] this happens once per owner: the first answer that came so after a whole hold is remembered, here and in the store, and
//! later posts of the owner that do not know Fermata are not held.

use std::time::Duration;

use dashmap::DashMap;
use fermata_tools::Owner;

use crate::{
    Hold, Submission,
    store::{ChatStore, StoreError},
};

/// The limit on the owners that are remembered here; the store has all of them.
const OWNERS_LIMIT: usize = 10_000;

/// The owners whose clients answer by posting the chat again, as far as this process has asked the store.
pub(crate) struct Holds {
    hold: Hold,
    answers_by_post: DashMap<Owner, bool>,
}

impl Holds {
    pub fn new(hold: Hold) -> Self {
        Self { hold, answers_by_post: DashMap::new() }
    }

    /// Returns the hold of the run that a post starts or continues.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub async fn of(&self, submission: &Submission, store: &dyn ChatStore) -> Result<Duration, StoreError> {
        match (submission.hold, self.hold) {
            (Some(hold), _) | (None, Hold::For(hold)) => Ok(hold),
            (None, Hold::Auto) if submission.knows_fermata() => Ok(Hold::AUTO),
            (None, Hold::Auto) => {
                let owner = &submission.owner;
                let known = self.answers_by_post.get(owner).map(|known| *known);
                let answers_by_post = match known {
                    Some(known) => known,
                    None => {
                        let saved = store.answers_by_post(owner).await?;
                        self.remember(owner, saved);
                        saved
                    }
                };
                Ok(if answers_by_post { Duration::ZERO } else { Hold::AUTO })
            }
        }
    }

    /// Notes that a post has answered a call after the readers were held for nothing. Returns whether that is to be saved.
    pub fn learn(&self, submission: &Submission) -> bool {
        let learns = self.hold == Hold::Auto && submission.hold.is_none() && !submission.knows_fermata();
        if learns {
            self.remember(&submission.owner, true);
        }
        learns
    }

    fn remember(&self, owner: &Owner, answers_by_post: bool) {
        if self.answers_by_post.len() >= OWNERS_LIMIT {
            self.answers_by_post.clear();
        }
        self.answers_by_post.insert(owner.clone(), answers_by_post);
    }
}
