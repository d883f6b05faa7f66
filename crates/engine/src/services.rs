//! The services that every part of the engine is handed: the ports, and what this process keeps for all of its chats.
//!
//! Services know no chat and no other instance. Each field is used by itself; nothing is looked up through another service.

mod approval_feed;
mod due_summaries;
mod heartbeat;
mod holds;
mod lease;
mod open_runs;
mod outage;
mod patience;
mod policies;
mod repeated;
mod resource_locks;
mod shutdown;

use std::sync::Arc;

use fermata_tools::{Capacity, Checker};

pub(crate) use approval_feed::{ApprovalFeed, OVERLAP};
pub(crate) use due_summaries::DueSummaries;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use holds::Holds;
pub(crate) use lease::{HEARTBEAT_INTERVAL, Lease};
pub(crate) use open_runs::{OpenRun, OpenRuns};
pub(crate) use outage::Outage;
pub(crate) use patience::Patience;
pub use policies::{NoticeRoutes, RequesterNotice, Rules};
pub(crate) use policies::{Policies, PolicySnapshot};
pub(crate) use repeated::Repeated;
pub(crate) use resource_locks::{LockRequest, ResourceLock, ResourceLocks};
pub use shutdown::DrainCounts;
pub(crate) use shutdown::Shutdown;

use crate::{
    deployment_clock::DeploymentClock,
    memories::MemoryService,
    ports::traces::Traces,
    ports::{ids::Ids, resolver::Resolver, store::Store},
    settings::Settings,
};

/// The services that all chats of this process share.
pub(crate) struct Services {
    pub store: Arc<dyn Store>,
    pub clock: Arc<DeploymentClock>,
    pub ids: Arc<dyn Ids>,
    /// Looks up the names in URLs of files.
    pub resolver: Arc<dyn Resolver>,
    pub settings: Settings,
    pub policies: Policies,
    /// The locks of the resources that calls use.
    pub locks: ResourceLocks,
    /// The slots of calls that run.
    pub running_calls: Capacity,
    /// The slots of requests that models are answering, for runs, summaries and embeddings.
    pub model_requests: Capacity,
    /// The hold times of runs.
    pub holds: Holds,
    /// The number of open runs per user.
    pub open_runs: OpenRuns,
    /// Checks inputs against schemas.
    pub checker: Arc<Checker>,
    /// This process's right to own chats.
    pub lease: Lease,
    /// The chats that need a summary.
    pub due_summaries: DueSummaries,
    /// The memories of users.
    pub memories: MemoryService,
    pub shutdown: Shutdown,
    /// The log's lines that would come many times.
    pub repeated: Repeated,
    /// Tells the log when the store is away.
    pub outage: Outage,
    /// The changes of approvals.
    pub approval_feed: ApprovalFeed,
    /// Takes the traces of runs, if they are traced.
    pub traces: Option<Arc<dyn Traces>>,
}
