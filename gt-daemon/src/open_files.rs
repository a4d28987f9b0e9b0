//! The process's limit of open files.

use anyhow::{Context as _, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Hooks, maps, cgroups that are followed, doors and consoles take about a hundred; two calls to a pod at a time the rest.
const FEWEST: u64 = 256;

/// Raises the limit to what this process may have: shells and service managers give 1,024 to programs that use select(2),
/// which gt does not.
///
/// # Errors
/// When that is too little to work with: what would fail then is anything, and says nothing of the cause.
pub fn raise() -> anyhow::Result<()> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files (RLIMIT_NOFILE)")?;
    if hard < FEWEST {
        bail!(
            "this process may open {hard} files (RLIMIT_NOFILE), and gt needs {FEWEST} at least: raise the hard limit, by \
             LimitNOFILE= of its unit or the settings of the container's runtime"
        );
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .with_context(|| format!("cannot raise the limit of open files from {soft} to {hard}"))?;
    }
    Ok(())
}
