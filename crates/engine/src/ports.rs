//! What the engine needs of others and does not implement: a database, other instances, ids and the names of hosts. The port to models
//! is [`crate::model`].

pub(crate) mod ids;
pub mod peer_transport;
pub mod resolver;
pub mod store;
