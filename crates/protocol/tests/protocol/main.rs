//! Tests of the wire format, the fold and the request bodies without any client. `real_clients` has those with clients.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod folding;
mod requests;
mod wire;
