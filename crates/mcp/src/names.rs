//! What a server's tools are called here.
//!
//! Invariants: every name is `[A-Za-z0-9_-]{1,64}`, no two are the same, and the same tools get the same names
//! whenever they are named.

use std::collections::BTreeSet;

/// The longest name that providers take.
const LONGEST: usize = 64;

/// Names tools, given as (server, tool); `None` for one that is there twice.
///
/// A tool has the name `server__tool` where that is fit, so that rules can be written without looking. What is unfit
/// in it becomes `_`; what is too long, or taken by an earlier one, ends in a digest of what it stands for.
pub(crate) fn assign_names<'a>(tools: &[(&'a str, &'a str)]) -> Vec<Option<String>> {
    let raw = |(server, tool): (&str, &str)| format!("{server}__{tool}");
    let mut named = vec![None; tools.len()];
    let mut taken = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut later = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        if !seen.insert(*tool) {
            continue;
        }
        let name = raw(*tool);
        // A name that is fit as it is comes before one that was made so.
        if is_fit(&name) && taken.insert(name.clone()) {
            named[at] = Some(name);
        } else {
            later.push(at);
        }
    }
    for at in later {
        let (server, tool) = tools[at];
        let fit = made_fit(&raw((server, tool)));
        let candidates = (fit.len() <= LONGEST).then(|| fit.clone()).into_iter();
        let mut candidates = candidates.chain((0_u32..).map(|turn| {
            let digest = format!("_{:08x}", digest(server, tool, turn));
            format!("{}{digest}", &fit[..fit.len().min(LONGEST - digest.len())])
        }));
        named[at] = candidates.find(|name| taken.insert(name.clone()));
    }
    named
}

fn is_fit(name: &str) -> bool {
    name.len() <= LONGEST && name.bytes().all(is_fit_byte)
}

fn is_fit_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// ASCII only, so that it may be cut anywhere.
fn made_fit(name: &str) -> String {
    let fit = |c: char| u8::try_from(c).is_ok_and(is_fit_byte);
    name.chars().map(|c| if fit(c) { c } else { '_' }).collect()
}

/// FNV-1a, folded to 32 bits: names are saved in records and rules, so that they may not change with the hash that a
/// standard library prefers.
fn digest(server: &str, tool: &str, turn: u32) -> u32 {
    let bytes = server.bytes().chain([0xff]).chain(tool.bytes()).chain(turn.to_le_bytes());
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
            assert!(!name.is_empty() && is_fit(name), "{name}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        names
    }

    #[test]
    fn a_fit_name_stays_as_it_is() {
        assert_eq!(check(&[("files", "read_file"), ("s-1", "Echo")]), ["files__read_file", "s-1__Echo"]);
    }

    #[test]
    fn what_providers_refuse_becomes_an_underscore() {
        assert_eq!(check(&[("my files", "read.file/α")]), ["my_files__read_file__"]);
    }

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let (one, other) = ("x".repeat(80), format!("{}y", "x".repeat(79)));
        let named = check(&[("s", &one), ("s", &other)]);
        assert!(named.iter().all(|name| name.len() == 64), "{named:?}");
        assert_eq!(named, check(&[("s", &one), ("s", &other)]));
    }

    #[test]
    fn a_name_that_is_fit_comes_before_one_that_was_made_so() {
        let named = check(&[("s", "a.b"), ("s", "a_b"), ("s", "a/b")]);
        assert_eq!(named[1], "s__a_b");
        assert!(named[0].starts_with("s__a_b_") && named[2].starts_with("s__a_b_"), "{named:?}");
    }

    #[test]
    fn two_servers_whose_names_run_together_keep_their_tools_apart() {
        let named = check(&[("a", "b__c"), ("a__b", "c")]);
        assert_eq!(named[0], "a__b__c");
        assert_eq!(named.len(), 2);
    }

    #[test]
    fn a_tool_that_is_listed_twice_is_one() {
        assert_eq!(assign_names(&[("s", "a"), ("s", "a")]), [Some("s__a".to_owned()), None]);
    }

    #[test]
    fn saved_names_stay_the_same() {
        let long = "x".repeat(80);
        assert_eq!(assign_names(&[("s", &long)]), [Some(format!("s__{}_4495fac9", "x".repeat(52)))]);
    }
}
