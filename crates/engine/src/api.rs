//! The requests to chats, with their replies, their errors and their wire forms between instances.

pub(crate) mod approval;
pub(crate) mod errors;
pub(crate) mod request;
pub(crate) mod view;
