//! The engine's ports, which other crates implement: a database, other instances, ids, host names and a collector of traces. The port to models is
//! [`crate::model`].

pub(crate) mod ids;
pub mod peer_transport;
pub mod resolver;
pub mod store;
pub mod traces;
