//! The configured servers by name, as their tools find them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fermata_tools::{CallContext, ToolError};

use crate::{
    server::Server,
    sessions::{AcquiredSession, Sessions},
};

/// The servers that are configured now, by name. A tool looks its server up for each call, so it stays usable when the
/// server's configuration changes.
#[derive(Default)]
pub(crate) struct Servers(Mutex<BTreeMap<String, Arc<Sessions>>>);

// === impl Servers ===

impl Servers {
    /// Replaces all servers.
    pub(crate) fn replace(&self, servers: BTreeMap<String, Arc<Sessions>>) {
        *self.lock() = servers;
    }

    /// Returns the sessions of the server with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Sessions>> {
        self.lock().get(name).cloned()
    }

    /// Returns whether the server is configured now and has not been replaced by another one of its name.
    pub(crate) fn is_current(&self, server: &Arc<Server>) -> bool {
        self.lock().get(&server.name).is_some_and(|current| Arc::ptr_eq(&current.server, server))
    }

    /// Waits until the server with this name has a session for the call, without a time limit. If the server is replaced
    /// meanwhile, this waits for the new one.
    ///
    /// # Errors
    /// Returns an error if no server of that name is configured.
    pub(crate) async fn acquire_session(
        &self,
        name: &str,
        context: &CallContext,
    ) -> Result<(Arc<Server>, AcquiredSession), ToolError> {
        let mut ended: Option<Arc<Sessions>> = None;
        loop {
            let not_configured =
                || ToolError::internal(format!("The MCP server {name} is no longer configured."));
            let sessions = self.get(name).ok_or_else(not_configured)?;
            // A server that has ended must not be tried again, or this would loop without waiting.
            if ended.is_some_and(|ended| Arc::ptr_eq(&ended, &sessions)) {
                return Err(not_configured());
            }
            match sessions.acquire_session(context).await {
                Some(session) => return Ok((sessions.server.clone(), session)),
                None => ended = Some(sessions),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sessions>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
