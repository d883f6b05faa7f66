//! The names that the tools of servers have in Fermata.
//!
//! Invariants: every name matches `[A-Za-z0-9_-]{1,64}` · no two tools have one name · names depend only on the tools, so equal
//! lists of tools always get equal names.

use std::collections::BTreeSet;

/// The maximum length of a name that providers accept.
const MAX_LENGTH: usize = 64;

/// Assigns names to tools, which are given as (server, tool). A tool that is listed twice gets a name only once; for the
/// repetition the name is `None`.
///
/// If `server__tool` is a valid name, the tool gets it, so that people can write rules without looking names up. Otherwise
/// invalid characters are replaced by `_`. A name that is too long or already taken is cut and ends in a digest of the server's
/// and the tool's name.
pub(crate) fn assign_names<'a>(tools: &[(&'a str, &'a str)]) -> Vec<Option<String>> {
    let mut names = vec![None; tools.len()];
    let mut taken = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut unnamed = Vec::new();
    // Valid names are assigned first, so that they do not depend on names that must be changed.
    for (index, (server, tool)) in tools.iter().enumerate() {
        if !seen.insert((server, tool)) {
            continue;
        }
        let name = format!("{server}__{tool}");
        if is_valid(&name) && taken.insert(name.clone()) {
            names[index] = Some(name);
        } else {
            unnamed.push(index);
        }
    }
    for index in unnamed {
        let (server, tool) = tools[index];
        let sanitized: String =
            format!("{server}__{tool}").chars().map(|c| if is_valid_char(c) { c } else { '_' }).collect();
        let mut name = sanitized.clone();
        let mut attempt = 0;
        while name.len() > MAX_LENGTH || !taken.insert(name.clone()) {
            let digest = format!("_{:08x}", digest(server, tool, attempt));
            // The sanitized name is ASCII, so it can be cut at any byte.
            name = format!("{}{digest}", &sanitized[..sanitized.len().min(MAX_LENGTH - digest.len())]);
            attempt += 1;
        }
        names[index] = Some(name);
    }
    names
}

fn is_valid(name: &str) -> bool {
    name.len() <= MAX_LENGTH && name.chars().all(is_valid_char)
}

fn is_valid_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the FNV-1a hash, folded to 32 bits. Names are stored in chats and used in rules, so they must not depend on the hash
/// of the standard library, which may change.
fn digest(server: &str, tool: &str, attempt: u32) -> u32 {
    let bytes = server.bytes().chain([0xff]).chain(tool.bytes()).chain(attempt.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tools: &[(&str, &str)]) -> Vec<String> {
        let names: Vec<String> = assign_names(tools).into_iter().flatten().collect();
        for name in &names {
            assert!(!name.is_empty() && is_valid(name), "{name}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        names
    }

    #[test]
    fn a_valid_name_is_not_changed() {
        assert_eq!(check(&[("files", "read_file"), ("s-1", "Echo")]), ["files__read_file", "s-1__Echo"]);
    }

    #[test]
    fn a_character_that_providers_refuse_becomes_an_underscore() {
        assert_eq!(check(&[("my files", "read.file/α")]), ["my_files__read_file__"]);
    }

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let (one, other) = ("x".repeat(80), format!("{}y", "x".repeat(79)));
        let named = check(&[("s", &one), ("s", &other)]);
        assert!(named.iter().all(|name| name.len() == 64), "{named:?}");
        assert_eq!(named, check(&[("s", &one), ("s", &other)]));
    }

    #[test]
    fn a_valid_name_has_precedence_over_a_sanitized_one() {
        let named = check(&[("s", "a.b"), ("s", "a_b"), ("s", "a/b")]);
        assert_eq!(named[1], "s__a_b");
        assert!(named[0].starts_with("s__a_b_") && named[2].starts_with("s__a_b_"), "{named:?}");
    }

    #[test]
    fn two_servers_with_tools_of_one_joined_name_get_different_names() {
        let named = check(&[("a", "b__c"), ("a__b", "c")]);
        assert_eq!(named[0], "a__b__c");
        assert_eq!(named.len(), 2);
    }

    #[test]
    fn a_tool_that_is_listed_twice_gets_one_name() {
        assert_eq!(assign_names(&[("s", "a"), ("s", "a")]), [Some("s__a".to_owned()), None]);
    }

    #[test]
    fn stored_names_do_not_change() {
        let long = "x".repeat(80);
        assert_eq!(assign_names(&[("s", &long)]), [Some(format!("s__{}_4495fac9", "x".repeat(52)))]);
    }
}
