//! The requests to chats, with their replies, their errors and the forms in which they are sent to other instances.

pub(crate) mod answer_batch;
pub(crate) mod errors;
pub(crate) mod request;
pub(crate) mod view;
