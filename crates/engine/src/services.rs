//! The services that every part of the engine is handed: the ports, and what this process keeps for all of its chats.
//!
//! Services know no chat and no other instance. Each field is used by itself; nothing is looked up through another service.

mod heartbeat;
mod holds;
mod lease;
mod open_runs;
mod policies;
mod resource_locks;
mod shutdown;

use std::{sync::Arc, time::Duration};

use fermata_tools::Checker;

pub(crate) use heartbeat::Heartbeat;
pub(crate) use holds::Holds;
pub(crate) use lease::{HEARTBEAT_INTERVAL, Lease};
pub(crate) use open_runs::{OpenRun, OpenRuns};
pub use policies::Rules;
pub(crate) use policies::{Policies, PolicySnapshot};
pub(crate) use resource_locks::{LockRequest, ResourceLock, ResourceLocks};
pub(crate) use shutdown::Shutdown;

use crate::{Ids, Model, Settings, Store, deployment_clock::DeploymentClock, model::Usage};

/// The services that all chats of this process share.
pub(crate) struct Services {
    pub model: Arc<dyn Model>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<DeploymentClock>,
    pub ids: Arc<dyn Ids>,
    pub settings: Settings,
    pub policies: Policies,
    /// The locks of the resources that calls use.
    pub locks: ResourceLocks,
    /// The time for which runs hold their readers.
    pub holds: Holds,
    /// The number of open runs per user.
    pub open_runs: OpenRuns,
    /// Checks inputs against schemas.
    pub checker: Arc<Checker>,
    /// This process's right to own chats.
    pub lease: Lease,
    pub shutdown: Shutdown,
}

// === impl Services ===

impl Services {
    /// Records the duration and the tokens of a call of the model.
    pub fn record_model_call(&self, took: Option<Duration>, before: Usage, after: Usage) {
        let model = self.model.name().to_owned();
        if let Some(took) = took {
            let labels =
                [("gen_ai_operation_name", "chat".to_owned()), ("gen_ai_request_model", model.clone())];
            metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels).record(took);
        }
        let counts = [
            ("input", before.input_tokens, after.input_tokens),
            ("output", before.output_tokens, after.output_tokens),
        ];
        for (token_type, before, after) in counts {
            if after <= before {
                continue;
            }
            let labels =
                [("gen_ai_request_model", model.clone()), ("gen_ai_token_type", token_type.to_owned())];
            #[expect(clippy::cast_precision_loss, reason = "the last of 2^53 tokens does not matter")]
            metrics::histogram!("gen_ai_client_token_usage", &labels).record((after - before) as f64);
        }
    }
}
