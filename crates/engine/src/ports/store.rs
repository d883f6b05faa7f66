//! The port to everything that survives the process.
//!
//! [`ChatStore`] keeps chats, [`Memories`] keeps the knowledge of users across chats, [`Membership`] knows which instances are alive,
//! [`LockStore`] keeps the locks that they share, and [`Outbox`] what channels have to send. One database usually does all of it, which is
//! a [`Store`].
//!
//! Several instances may share a store. The [`Version`] of each chat keeps two of them from writing to it: every commit has to know the
//! version and draws a new one, so an instance that read a chat before another one changed it can no longer write to it, however much time
//! has passed. An open run also names the instance that owns it, and the other instances leave the run alone while its owner is
//! alive.

mod approvals;
mod audit;
mod change;
mod chat_store;
mod error;
pub mod in_memory;
mod lock_store;
mod membership;
pub mod memories;
mod outbox;
pub mod page;
mod record;

pub use approvals::{
    ApprovalList, ApprovalRecord, ApprovalRow, ApprovalState, Approvals, ListedFor, ListedState, SavedTerms,
    Settled,
};
pub use audit::AuditEntry;
pub use change::{AnswerRoute, Change};
pub use chat_store::ChatStore;
pub use error::StoreError;
pub use in_memory::InMemoryStore;
pub use lock_store::LockStore;
pub use membership::{ClockMark, InstanceId, Joined, LEASE, Membership, Renewed};
pub use memories::Memories;
pub use outbox::{Attempt, ClaimedNotice, Notice, NoticeEvent, Outbox, SavedNotice};
pub use page::{ChatPage, ChatQuery, ChatSummary, Listing};
pub use record::{
    ChatHead, ChatOwner, ChatRecord, Files, MessageOutline, OwnerUsage, RunRecord, STORED_FILE,
    SummaryRecord, Version, WantedUsage, json_bytes,
};

/// Everything that survives the process.
pub trait Store: ChatStore + Approvals + Memories + Membership + LockStore + Outbox {}

impl<T: ChatStore + Approvals + Memories + Membership + LockStore + Outbox + ?Sized> Store for T {}
