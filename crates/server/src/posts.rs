//! The limit on the rate of runs that each owner starts.
//!
//! Each instance counts by itself. An owner who was quiet may send a whole period's posts at once; after that they come back one by one,
//! evenly over the period (the generic cell rate algorithm). Answers to calls are no posts in this sense.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderValue, header};
use fermata_tools::Owner;
use tokio::time::Instant;

use crate::{
    config::PostRate,
    error::{ApiError, Code},
};

/// The posts of each owner. Clones share them.
#[derive(Clone, Debug)]
pub struct Posts {
    rate: Option<PostRate>,
    // The mutex is held for a few instructions, never across an await.
    recent: Arc<Mutex<Recent>>,
}

#[derive(Debug, Default)]
struct Recent {
    /// The time when an owner may send a whole period's posts again.
    rested_at: HashMap<Owner, Instant>,
    /// Rested owners are forgotten once there are this many owners.
    forget_at: usize,
}

/// Rested owners are not forgotten while there are fewer owners than this.
const OWNERS: usize = 1_000;

// === impl Posts ===

impl Posts {
    /// Allows each owner this rate; `None` for any.
    pub fn new(rate: Option<PostRate>) -> Self {
        Self { rate, recent: Arc::default() }
    }

    /// Counts a post of an owner.
    ///
    /// # Errors
    /// Returns 429 if the owner has sent too many, with the time until there is room for one.
    pub fn admit(&self, owner: &Owner) -> Result<(), ApiError> {
        let Some(PostRate { posts, period }) = self.rate else { return Ok(()) };
        let now = Instant::now();
        let mut recent = self.recent();
        let rested_at = recent.rested_at.get(owner).copied().unwrap_or(now).max(now);
        let next_rested_at = rested_at + period / posts.get();
        let wait = next_rested_at.saturating_duration_since(now + period);
        // The rounding of a period's shares must not cost the last of a burst.
        if !wait.is_zero() {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let detail = format!(
                "You have sent more posts than you may: {posts} in {} (posts_per_owner). Try again in {seconds} s.",
                humantime::format_duration(period)
            );
            let error = ApiError::new(Code::TooManyPosts, detail);
            return Err(error.with_header(header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
        recent.rested_at.insert(owner.clone(), next_rested_at);
        if recent.rested_at.len() > recent.forget_at.max(OWNERS) {
            recent.rested_at.retain(|_, rested_at| *rested_at > now);
            recent.forget_at = 2 * recent.rested_at.len();
        }
        Ok(())
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use axum::{http::StatusCode, response::IntoResponse};

    use std::{num::NonZeroU32, time::Duration};

    use super::*;

    fn posts(posts: u32, seconds: u64) -> Posts {
        let posts = NonZeroU32::new(posts).expect("a number of posts");
        Posts::new(Some(PostRate { posts, period: Duration::from_secs(seconds) }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_an_even_rate() {
        for (number, seconds) in [(60, 60), (7, 60), (3, 1), (1, 3600), (1000, 7)] {
            let (posts, ada, bob) = (posts(number, seconds), Owner::new("ada"), Owner::new("bob"));
            for post in 0..number {
                posts.admit(&ada).unwrap_or_else(|error| panic!("{post} of {number}: {error:?}"));
            }
            let refusal = posts.admit(&ada).expect_err("it exceeds the limit").into_response();
            assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
            let wait: u64 =
                refusal.headers()["retry-after"].to_str().expect("text").parse().expect("seconds");
            posts.admit(&bob).expect("others are not concerned");
            tokio::time::advance(Duration::from_secs(wait)).await;
            posts.admit(&ada).expect("it has waited as long as the refusal demanded");
            tokio::time::advance(Duration::from_secs(seconds)).await;
            for _ in 0..number {
                posts.admit(&ada).expect("after a quiet period, all posts are possible again");
            }
            assert!(posts.admit(&ada).is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn owners_who_are_quiet_are_forgotten() {
        let posts = posts(5, 1);
        for number in 0..10 * OWNERS {
            posts.admit(&Owner::new(format!("owner {number}"))).expect("the first post");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(posts.recent().rested_at.len() <= 2 * OWNERS);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nobody_waits() {
        let posts = Posts::new(None);
        for _ in 0..100_000 {
            posts.admit(&Owner::anyone()).expect("no limit");
        }
    }
}
