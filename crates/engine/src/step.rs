//! One step of a run: collecting the model's answer, and calling tools. Runs of chats and the loop for Rust programs share it.

pub(crate) mod call_executor;
pub(crate) mod collector;
