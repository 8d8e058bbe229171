//! How many files and sockets a process may have open.

/// More than this is not asked for: the kernel's tables for them take memory.
#[cfg(unix)]
const MOST: u64 = 1 << 20;

/// Raises the number of files and sockets that this process may have open (RLIMIT_NOFILE) as far as the system lets it, and
/// returns how many that are. `None` where there is no such limit.
///
/// Shells start programs with 1,024, for programs that use `select`; ours do not.
pub fn raise_open_files() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(MOST).min(MOST);
        let now = limit.current.unwrap_or(u64::MAX);
        if now >= most {
            return Some(now);
        }
        let mut wanted = limit;
        wanted.current = Some(most);
        // As many as before are enough to work with.
        Some(setrlimit(Resource::Nofile, wanted).map_or(now, |()| most))
    }
    #[cfg(not(unix))]
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_once() {
        let raised = raise_open_files().unwrap();
        assert!(raised > 0);
        assert_eq!(raise_open_files(), Some(raised));
    }
}
