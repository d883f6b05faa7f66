//! Memories: facts about a user that are known in all of the user's chats, and the requests about them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of a memory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Something that the user likes, or how the user wants things to be done.
    Preference,
    /// Something that is true of the user or the user's world.
    #[default]
    Fact,
    /// A person, a place or a thing that the user talks about.
    Entity,
    /// A standing instruction of the user.
    Instruction,
}

impl MemoryKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Preference, Self::Fact, Self::Entity, Self::Instruction];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Fact => "fact",
            Self::Entity => "entity",
            Self::Instruction => "instruction",
        }
    }
}
