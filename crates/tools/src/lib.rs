//! Who runs a call, and when it may run.
//!
//! This crate knows tools, the states of a call, who decides about it, where it waits and which locks it takes. It does not
//! know models, messages, HTTP or SQL.

mod audit;
mod call;
mod checker;
mod confirmation;
mod context;
mod execution;
mod failure;
mod field;
mod matcher;
mod parking;
mod pattern;
mod policy;
mod resource;
mod scheduler;
mod schema;
mod tool;
mod toolbox;

pub use audit::{AuditEvent, Audited, input_hash};
pub use call::{
    Call, CallState, Cancelled, Decided, Entered, Owner, Question, Receipt, Refusal, Reply, RunBy, StateName,
    Verdict,
};
pub use checker::{Check, Checker};
pub use confirmation::{Confirmation, Consent, Grant, GrantEnd, Grants, grants};
pub use context::{Alone, CallContext, Elicitation, ElicitationReply, Pause, Surroundings, Waiting};
pub use execution::{Execution, WIND_UP};
pub use failure::{ErrorType, MOST_RETRIES, Strategies, Strategy, ToolError};
pub use matcher::{Decimal, Folder, HostName, HostPattern, Matcher, Side, TextRegex};
pub use parking::{Parked, ParkingLot};
pub use pattern::Pattern;
pub use policy::{
    ApprovalMode, ChainMode, Condition, Decision, DefaultPolicy, GateMode, Policy, Rule, RulePolicy, RuledBy,
    Ruling,
};
pub use resource::{NamedBy, Resource, ResourceKey, ResourcePart};
pub use scheduler::{Guard, Locks, Ticket};
pub use tool::{Tool, ToolSettings, ToolSpec, TypedTool, typed};
pub use toolbox::{Found, InputError, PostedLimits, Toolbox, ToolboxError};
