//! How many files, sockets among them, the process may have open. Not for what they are.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the system lets this process have. Debian begins with 1,024, which is fewer
/// than a server has connections.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: maximum, maximum };
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, ?current, "cannot have more files open: see `ulimit -n`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_taken() {
        raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
