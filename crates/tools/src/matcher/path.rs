//! Folders, and paths in them. Paths are normalized as texts, without access to a file system, so symbolic links are not followed.

use std::fmt;

use super::Side;

/// The absolute path of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(Vec<String>);

impl Folder {
    /// Parses the path of a folder.
    ///
    /// # Errors
    /// Returns a message if the path is not absolute or cannot be normalized.
    pub fn new(path: &str) -> Result<Self, String> {
        if path.contains('\\') {
            return Err(format!("{path:?} has a backslash; write the path with slashes"));
        }
        let parts = normalize(path, Side::Allows)
            .ok_or_else(|| format!("{path:?} is not the absolute path of a folder, such as \"/srv/safe\""))?;
        Ok(Self(parts.into_iter().map(str::to_owned).collect()))
    }

    /// Returns whether a path is the folder or in it.
    ///
    /// Some programs read a backslash as a slash. On the side that allows, both readings must be in the folder; on the side that
    /// restricts, one is enough.
    pub(super) fn holds(&self, path: &str, side: Side) -> bool {
        let is_in = |path: &str| {
            let Some(parts) = normalize(path, side) else { return false };
            parts.len() >= self.0.len() && self.0.iter().zip(parts).all(|(own, part)| own == part)
        };
        if !path.contains('\\') {
            return is_in(path);
        }
        let with_slashes = path.replace('\\', "/");
        match side {
            Side::Allows => is_in(path) && is_in(&with_slashes),
            Side::Restricts => is_in(path) || is_in(&with_slashes),
        }
    }
}

/// Returns the names in an absolute path after `.`, `..` and repeated slashes are resolved; `None` if the path is relative or contains
/// NUL.
///
/// `..` at the root stays there, as in a file system. On the side that allows, a path that relies on this is refused.
pub(super) fn normalize(path: &str, side: Side) -> Option<Vec<&str>> {
    if !path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() && side == Side::Allows {
                    return None;
                }
            }
            name => parts.push(name),
        }
    }
    Some(parts)
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_normalized_before_it_is_compared_with_a_folder() {
        let safe = Folder::new("/srv/safe/").unwrap();
        for (path, is_in) in [
            ("/srv/safe", true),
            ("/srv/safe/", true),
            ("/srv/safe/a/b", true),
            ("//srv/./safe//a", true),
            ("/srv/x/../safe/a", true),
            ("/srv/safe/a/..", true),
            ("/srv/safe/..a", true),
            ("/srv/safer", false),
            ("/srv/safe/..", false),
            ("/srv/safe/../../etc/passwd", false),
            ("/SRV/safe/a", false),
            ("srv/safe/a", false),
            ("./srv/safe", false),
            ("", false),
            ("/srv/safe/a\0", false),
            ("/srv/safe%2f..%2f..", false),
            ("file:///srv/safe/a", false),
        ] {
            for side in [Side::Allows, Side::Restricts] {
                assert_eq!(safe.holds(path, side), is_in, "{path:?} {side:?}");
            }
        }
    }

    #[test]
    fn an_ambiguous_path_matches_to_restrict_and_not_to_allow() {
        let etc = Folder::new("/etc").unwrap();
        for path in ["/../etc/passwd", "/tmp/..\\etc/passwd", "\\etc\\passwd", "/etc/x\\..\\..\\home"] {
            assert!(etc.holds(path, Side::Restricts), "{path:?}");
            assert!(!etc.holds(path, Side::Allows), "{path:?}");
        }
        assert!(etc.holds("/etc/a\\b", Side::Allows), "both readings are in the folder");
    }

    #[test]
    fn a_folder_is_an_absolute_path() {
        assert_eq!(Folder::new("/srv//a/../safe/").unwrap().to_string(), "/srv/safe");
        assert_eq!(Folder::new("/").unwrap().to_string(), "/");
        for bad in ["", "srv", "~/x", "C:\\srv", "/srv\\x", "/a\0", "/..", "/a/../../b"] {
            assert!(Folder::new(bad).is_err(), "{bad:?}");
        }
    }
}
