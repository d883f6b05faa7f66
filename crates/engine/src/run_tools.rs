//! The tools that a run has by itself: the plan, and questions to the person.

pub mod plan;
pub mod questions;
