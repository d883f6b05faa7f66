//! The number of connections that the process's limit of open files allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// This process raises its limit of open files to this if no setting gives the number of connections. Some programs that it
/// starts look at each descriptor below the limit.
const ENOUGH_FILES: u64 = 1 << 20;
/// The number of connections where the limit of open files is not known.
const SOME_CONNECTIONS: usize = 4096;

/// Returns the number of connections that the process can have: at most `wanted`, or as many as the limit of open files allows.
///
/// `others` is the number of file descriptors that are certainly needed for other purposes. A quarter of all descriptors is reserved
/// besides, for models, MCP servers and files. If the limit of open files is too low, it is raised as far as an ordinary user may.
pub fn connections(wanted: Option<usize>, others: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return wanted.unwrap_or(SOME_CONNECTIONS);
    };
    let needed = wanted.map_or(ENOUGH_FILES, |wanted| needed(wanted, others)).min(hard);
    if soft < needed
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
    {
        tracing::warn!(%error, soft, needed, "cannot raise the limit of open files");
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(soft, |(soft, _)| soft);
    let allowed = allowed(limit, others);
    let Some(wanted) = wanted else { return allowed };
    if allowed < wanted {
        tracing::warn!(
            "max_connections is {wanted}, but this process may open only {limit} files, so it accepts {allowed} connections at a \
             time; raise the limit of open files (ulimit -n, LimitNOFILE) to allow more"
        );
    }
    wanted.min(allowed)
}

/// Returns the limit of open files that is needed for these connections and other purposes.
fn needed(connections: usize, others: usize) -> u64 {
    let both = u64::try_from(connections.saturating_add(others)).unwrap_or(u64::MAX);
    both.saturating_add(both / 3 + 1)
}

/// Returns the number of connections that a limit of open files allows.
fn allowed(limit: u64, others: usize) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    (limit - limit / 4).saturating_sub(others).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_descriptors_is_reserved() {
        assert_eq!(allowed(1024, 10), 758);
        assert_eq!(allowed(u64::MAX, 10), usize::MAX - usize::MAX / 4 - 10);
        assert_eq!(allowed(8, 10), 1);
    }

    #[test]
    fn the_needed_limit_allows_the_wanted_connections() {
        for (connections, others) in [(1, 0), (2, 5), (758, 10), (4096, 10), (10_000, 3)] {
            let allowed = allowed(needed(connections, others), others);
            assert!(allowed >= connections, "{connections} and {others}: {allowed}");
        }
    }
}
