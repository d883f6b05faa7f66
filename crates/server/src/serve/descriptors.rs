//! How many connections this process can have open beside everything else that it opens.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many connections as are wanted, or as many as the process's limit of descriptors allows. `others` is how many descriptors are
/// certain to be needed for other things; a quarter of all is left besides, for models, MCP servers and files. When the limit is too low,
/// it is raised as far as an ordinary user may.
pub fn connections(wanted: usize, others: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let needed = needed(wanted, others).min(hard);
    if soft < needed
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
    {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(soft, |(soft, _)| soft);
    let allowed = allowed(limit, others);
    if allowed < wanted {
        tracing::warn!(
            "max_connections is {wanted}, but this process may open {limit} files, so it takes {allowed} connections at a time; \
             raise the limit of open files (ulimit -n, LimitNOFILE) for more"
        );
    }
    wanted.min(allowed)
}

/// Descriptors for so many connections and everything else.
fn needed(connections: usize, others: usize) -> u64 {
    let both = u64::try_from(connections.saturating_add(others)).unwrap_or(u64::MAX);
    both.saturating_add(both / 3 + 1)
}

/// Connections for which there are descriptors.
fn allowed(limit: u64, others: usize) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    (limit - limit / 4).saturating_sub(others).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_descriptors_is_left_for_other_things() {
        assert_eq!(allowed(1024, 10), 758);
        assert_eq!(allowed(u64::MAX, 10), usize::MAX - usize::MAX / 4 - 10);
        assert_eq!(allowed(8, 10), 1);
    }

    #[test]
    fn what_is_asked_for_is_enough_for_what_is_wanted() {
        for (connections, others) in [(1, 0), (2, 5), (758, 10), (4096, 10), (10_000, 3)] {
            let allowed = allowed(needed(connections, others), others);
            assert!(allowed >= connections, "{connections} and {others}: {allowed}");
        }
    }
}
