//! A configured server, and which of its sessions a call must use. This module does not know the sessions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fermata_protocol::ChatId;
use fermata_tools::CallContext;

use crate::{
    calls::Unanswered,
    config::{Processes, Secrets, ServerConfig},
};

/// A configured server, as all its sessions know it.
pub(crate) struct Server {
    /// The server's name in the settings.
    pub(crate) name: String,
    /// The values that must be removed from texts.
    pub(crate) secrets: Secrets,
    /// `true` if the annotations of its tools are trusted.
    pub(crate) trusts_annotations: bool,
    /// The maximum number of sessions besides the shared one.
    pub(crate) max_processes: usize,
    /// An unused session is closed after this time. The shared session is never closed for this reason.
    pub(crate) idle_timeout: Duration,
    processes: Option<Processes>,
    /// `true` once the server has sent an elicitation that does not name its call. It never becomes `false` again.
    pub(crate) elicits_unattributed: Arc<AtomicBool>,
}

/// The calls that a session serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The calls of all owners.
    Shared,
    /// The calls of one owner.
    Owner(String),
    /// The calls of one chat. The first field is its owner.
    Chat(String, ChatId),
}

// === impl Server ===

impl Server {
    pub(crate) fn new(name: impl Into<String>, config: &ServerConfig) -> Self {
        Self {
            name: name.into(),
            secrets: config.secrets(),
            trusts_annotations: config.trust_annotations,
            max_processes: config.max_processes.get(),
            idle_timeout: config.idle_timeout,
            processes: config.processes,
            elicits_unattributed: Arc::default(),
        }
    }

    /// Returns the scope of the session that the call must use.
    pub(crate) fn scope(&self, context: &CallContext) -> Scope {
        match self.processes {
            Some(Processes::Shared) => Scope::Shared,
            Some(Processes::PerOwner) => Scope::Owner(context.owner.as_str().to_owned()),
            None if !self.elicits_unattributed.load(Ordering::SeqCst) => Scope::Shared,
            Some(Processes::PerChat) | None => {
                Scope::Chat(context.owner.as_str().to_owned(), context.chat.clone())
            }
        }
    }

    /// Returns the text for a person and a model about an elicitation that was not answered.
    pub(crate) fn explain_unanswered(&self, unanswered: &Unanswered) -> String {
        let name = &self.name;
        match unanswered {
            Unanswered::SeveralChats => {
                let from_now_on = match self.processes {
                    None => "From now on each chat has a process of its own",
                    Some(Processes::Shared | Processes::PerOwner | Processes::PerChat) => {
                        "From now on the process serves one chat at a time"
                    }
                };
                format!(
                    "The MCP server {name} asked the person something, but the question was shown to no one: calls of several \
                     chats ran in one process of it, and the server does not say which call asked. {from_now_on}, so the \
                     tool can be called again."
                )
            }
            Unanswered::Reason(reason) => {
                format!("What the MCP server {name} asked the person was not answered: {reason}")
            }
        }
    }
}
