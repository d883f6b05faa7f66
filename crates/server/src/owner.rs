//! The names of owners, as tokens, proxies and settings give them.

use fermata_tools::Owner;

/// The limit on the name of an owner, in characters.
const LONGEST_NAME: usize = 255;

/// Returns the owner with this name, or a predicate that says what is wrong with the name.
pub(crate) fn read_owner(name: &str) -> Result<Owner, &'static str> {
    if name.trim().is_empty() {
        Err("is empty")
    } else if name.chars().nth(LONGEST_NAME).is_some() {
        Err("is longer than 255 characters")
    } else if name.chars().any(char::is_control) {
        Err("has a control character")
    } else {
        Ok(Owner::new(name))
    }
}
