//! Tool calls: who may run them, when they run, and what state they are in.
//!
//! This crate knows tools and their schemas, policies, the states of a call, calls that wait for an answer, and resource locks.
//! It does not know models, messages, HTTP or SQL.

mod absent_fields;
mod approval;
mod audit;
mod call;
mod capacity;
mod checker;
mod confirmation;
mod context;
mod decision;
mod execution;
mod failure;
mod field;
mod hash;
pub mod hosts;
mod input_schema;
mod lock_queue;
mod matcher;
mod output;
mod output_schema;
mod owner;
mod pattern;
mod pending_calls;
mod policy;
mod presentation;
mod reading;
mod registered_tool;
mod resource;
mod run_by;
mod schema;
mod scope;
mod tool;
mod toolbox;

pub use approval::{ApprovalTerms, Approver, DecisionChannel, Escalation, People, Person, Vote, may_decide};
pub use audit::{AuditAction, AuditEvent, AuditOutcome, input_hash};
pub use call::{
    ApprovalDecision, ApprovalRequest, AskedFailure, Asking, Call, CallState, Cancelled, ElicitationRecord,
    NoOutput, Receipt, Refusal, StateName, Transition, ValidAnswer, Wait, Work,
};
pub use capacity::{Capacity, LentSlot, Slot, SlotRequest};
pub use checker::{Check, CheckResults, Checker, Checking, InputError};
pub use confirmation::{Confirmation, Grant, GrantEnd, GrantTerms, Grants};
pub use context::{
    Asks, CallContext, CallOrigin, Elicitation, ElicitationReply, NoHost, Pause, ToolHost, Waiting,
};
pub use decision::{Decider, Decision, DecisionSource, Permission, PolicyDecision};
pub use execution::{CANCEL_GRACE, Execution};
pub use failure::{
    ErrorMatch, ErrorPolicy, ErrorStrategy, ErrorType, MAX_RETRIES, ToolError, is_empty_output,
};
pub use hash::sha256;
pub use hosts::HostName;
pub use input_schema::InputSchema;
pub use lock_queue::{Guard, LockQueue, Waiter};
pub use matcher::{Decimal, Folder, HostPattern, Matcher, Program, Side, TextRegex};
pub use output::{Audience, Output};
pub use output_schema::OutputSchema;
pub use owner::{Owner, Principal};
pub use pattern::Pattern;
pub use pending_calls::{PendingCall, PendingCalls};
pub use policy::{
    ApprovalMode, ChainMode, Condition, DefaultPolicy, GateMode, MemoryWrites, Policy, Rule, RulePolicy,
};
pub use presentation::{CallDetails, Confirm, Presentation};
pub use reading::is_invisible;
pub use resource::{NamedBy, Resource, ResourceKey, ResourcePart};
pub use run_by::RunBy;
pub use schema::Misfit;
pub use scope::Scope;
pub use tool::{Fallback, Tool, ToolSettings, ToolSpec, TypedTool, typed};
pub use toolbox::{PostedLimits, ToolRef, Toolbox, ToolboxError};
