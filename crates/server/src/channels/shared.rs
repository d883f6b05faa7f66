//! The settings beside a channel's own that channels need. They are read again without a restart.

use std::sync::{Arc, PoisonError, RwLock};

use fermata_tools::People;

use crate::config::Config;

/// The settings that all channels share. Clones see the same ones.
#[derive(Clone, Default)]
pub struct Shared(Arc<RwLock<Current>>);

#[derive(Clone, Default)]
struct Current {
    public_url: Option<String>,
    people: Arc<People>,
}

// === impl Shared ===

impl Shared {
    /// Replaces the settings.
    pub fn set(&self, config: &Config) {
        let public_url = config.server.public_url.as_ref().map(|url| url.0.clone());
        let current = Current { public_url, people: Arc::new(config.people()) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    #[cfg(test)]
    pub fn of(public_url: &str, people: People) -> Self {
        let current = Current { public_url: Some(public_url.into()), people: Arc::new(people) };
        Self(Arc::new(RwLock::new(current)))
    }

    /// Returns the URL where people reach this server, without a slash at its end.
    pub fn public_url(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).public_url.clone()
    }

    /// Returns the people of the table `users`.
    pub fn people(&self) -> Arc<People> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).people.clone()
    }
}
