//! Folders, and paths in them. Paths are normalized as texts, without access to a file system, so symbolic links are not followed.

use std::fmt;

use super::Side;
use crate::reading::{decodings, fold};

/// The absolute path of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(Vec<String>);

/// One way to read a path.
enum Reading {
    /// The names are as they are written.
    Exact(Normalized),
    /// The names are folded.
    Folded(Normalized),
}

/// An absolute path without `.` and `..`.
struct Normalized {
    names: Vec<String>,
    /// True if `..` leads out of the root, where a file system stays in it.
    leaves_root: bool,
}

// === impl Folder ===

impl Folder {
    /// Parses the path of a folder.
    ///
    /// # Errors
    /// Returns a message if the path is not absolute or cannot be normalized.
    pub fn new(path: &str) -> Result<Self, String> {
        if path.contains('\\') {
            return Err(format!("{path:?} has a backslash; write the path with slashes"));
        }
        let parts = if path.contains(char::is_control) { None } else { normalize(path) };
        let parts = parts
            .filter(|parts| !parts.leaves_root)
            .ok_or_else(|| format!("{path:?} is not the absolute path of a folder, such as \"/srv/safe\""))?;
        Ok(Self(parts.names))
    }

    /// Returns whether a path is the folder or in it.
    ///
    /// On the side that allows, every reading of the path must be in the folder; on the side that restricts, one is enough, and a path
    /// that may lead anywhere is in every folder. There a case that differs makes no difference.
    pub(super) fn holds(&self, path: &str, side: Side) -> bool {
        let Some(readings) = readings(path) else { return side == Side::Restricts };
        let folded: Vec<String> = self.0.iter().map(|name| fold_name(name)).collect();
        let is_in = |reading: &Reading| match reading {
            Reading::Exact(path) => path.names.starts_with(&self.0),
            Reading::Folded(path) => path.names.starts_with(&folded),
        };
        match side {
            Side::Allows => readings.iter().all(|reading| is_in(reading) && !reading.path().leaves_root),
            Side::Restricts => readings.iter().any(is_in),
        }
    }
}

/// Returns whether a text is an absolute path that leads somewhere in particular.
pub(super) fn is_plain(path: &str) -> bool {
    readings(path).is_some_and(|readings| readings.iter().all(|reading| !reading.path().leaves_root))
}

/// Returns the readings of a path; `None` if it may lead anywhere, because it is relative (to a folder, a home or a scheme), or has a
/// control character or bytes that are not text.
fn readings(path: &str) -> Option<Vec<Reading>> {
    let mut readings = Vec::new();
    for decoding in decodings(path) {
        if decoding.contains(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
            return None;
        }
        let mut spellings = vec![decoding];
        // Some programs read a backslash as a slash.
        if spellings[0].contains('\\') {
            spellings.push(spellings[0].replace('\\', "/"));
        }
        for spelling in spellings {
            readings.push(Reading::Exact(normalize(&spelling)?));
            let folded = spelling.split('/').map(fold).collect::<Vec<_>>().join("/").replace('\\', "/");
            let names: Vec<String> = folded.split('/').map(fold_name).collect();
            readings.push(Reading::Folded(normalize(&names.join("/"))?));
        }
    }
    Some(readings)
}

/// Returns a name in a form that is equal for names that a file system may take for each other. Some ignore case, and spaces and dots at
/// the end.
fn fold_name(name: &str) -> String {
    let name = fold(name);
    let name = name.trim();
    if matches!(name, "." | "..") { name.to_owned() } else { name.trim_end_matches([' ', '.']).to_owned() }
}

/// Returns the names in an absolute path after `.`, `..` and repeated slashes are resolved; `None` if the path is relative.
fn normalize(path: &str) -> Option<Normalized> {
    if !path.starts_with('/') {
        return None;
    }
    let mut normalized = Normalized { names: Vec::new(), leaves_root: false };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => normalized.leaves_root |= normalized.names.pop().is_none(),
            name => normalized.names.push(name.to_owned()),
        }
    }
    Some(normalized)
}

// === impl Reading ===

impl Reading {
    fn path(&self) -> &Normalized {
        match self {
            Self::Exact(path) | Self::Folded(path) => path,
        }
    }
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
            ("/srv/safe%2f..%2f..", false),
            ("/srv/100%/safe", false),
        ] {
            for side in [Side::Allows, Side::Restricts] {
                assert_eq!(safe.holds(path, side), is_in, "{path:?} {side:?}");
            }
        }
        assert!(safe.holds("/srv/safe/100% of it/a%20b", Side::Allows), "both readings are in the folder");
        assert!(safe.holds("/srv/safe/a\\b", Side::Allows), "both readings are in the folder");
        assert!(safe.holds("/srv/safe/Ünï Ⓒode.TXT", Side::Allows));
    }

    #[test]
    fn an_ambiguous_path_matches_to_restrict_and_not_to_allow() {
        let etc = Folder::new("/etc").unwrap();
        for path in [
            "",
            "etc/passwd",
            "./etc/passwd",
            "../etc/passwd",
            "passwd",
            " /etc/passwd",
            "\t/etc/passwd",
            "\u{feff}/etc/passwd",
            "/ etc/passwd",
            "/etc /passwd",
            "/etc./passwd",
            "/tmp/.. /etc/passwd",
            "file:///etc/passwd",
            "file:/etc/passwd",
            "FILE://localhost/etc/passwd",
            "http://a.com/x",
            "~/x",
            "~root/.ssh",
            "$HOME/x",
            "C:\\etc\\passwd",
            "\\\\?\\C:\\etc",
            "/e\0tc/passwd",
            "/etc\0/passwd",
            "/srv/x\0",
            "/srv/new\nline",
            "/ETC/passwd",
            "/Etc/passwd",
            "/ｅｔｃ/passwd",
            "/e\u{ad}tc/passwd",
            "/e\u{200b}tc/passwd",
            "/.\u{200b}./etc/passwd",
            "/ⓔtc/passwd",
            "/tmp/‥/etc/passwd",
            "／etc／passwd",
            "/tmp／..／etc/passwd",
            "/%65tc/passwd",
            "/%2565tc/passwd",
            "/%25252565tc/passwd",
            "%2fetc%2fpasswd",
            "/%2fetc/passwd",
            "/tmp/%2e%2e/etc",
            "/tmp/..%2fetc",
            "/tmp/..%5cetc",
            "/tmp%00/../etc",
            "/tmp/..%c0%afetc",
            "/../etc/passwd",
            "/tmp/..\\etc/passwd",
            "\\etc\\passwd",
            "/etc/x\\..\\..\\home",
            "/etc/%2e%2e/home",
            "/etc/..%2fhome",
        ] {
            assert!(etc.holds(path, Side::Restricts), "{path:?}");
            assert!(!etc.holds(path, Side::Allows), "{path:?}");
        }
        let safe = Folder::new("/srv/safe").unwrap();
        for path in [
            "/srv/safe/%2e%2e/%2e%2e/etc",
            "/srv/safe/..%2fetc",
            "/srv/safe/%252e%252e/etc",
            "/srv/safe/.\u{200b}./x",
            "/srv/safe/‥/x",
            "/srv/safe/.. /x",
            "/srv/safe/．．/x",
            "/srv/safe/a／..／..／x",
            "/SRV/safe/a",
        ] {
            assert!(!safe.holds(path, Side::Allows), "{path:?}");
        }
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
