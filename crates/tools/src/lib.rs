//! Who runs a call, and when it may run.
//!
//! This crate knows tools, the states of a call, who decides about it, where it waits and which locks it takes. It does not
//! know models, messages, HTTP or SQL.

mod call;
mod parking;
mod policy;
mod scheduler;
mod schema;
mod tool;
mod toolbox;

pub use call::{Call, CallState, Cancelled, Decided, Owner, Question, Receipt, Refusal, RunBy, Verdict};
pub use parking::{Parked, ParkingLot};
pub use policy::{Decision, DefaultPolicy, Policy, Ruling};
pub use scheduler::{Guard, Locks, Ticket};
pub use tool::{CallContext, Resource, Tool, ToolError, ToolSpec, TypedTool, typed};
pub use toolbox::{Found, InputError, Toolbox, ToolboxError};
