//! The directory of `--record`: one daemon's at a time, since each removes what it takes for its own left-overs.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use tracing::warn;

/// How long one that stops may take to let go of its records.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why the directory is not this daemon's.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error(
        "another gt-daemon writes its records to {0}: give each daemon a --record directory of its own, or stop that one"
    )]
    Taken(PathBuf),
    #[error(
        "cannot use {dir} for the records of drains: {cause}; give --record a directory that gt may make and write to"
    )]
    Unusable { dir: PathBuf, cause: io::Error },
}

/// Makes the directory and takes it, until what is given back is dropped or the process ends. Waits a little for a daemon that
/// stops. Where the file system knows no locks, that is told and nothing is taken.
pub(super) fn claim(dir: &Path) -> Result<File, ClaimError> {
    claim_within(dir, PATIENCE)
}

fn claim_within(dir: &Path, patience: Duration) -> Result<File, ClaimError> {
    let unusable = |cause| ClaimError::Unusable { dir: dir.to_owned(), cause };
    fs::create_dir_all(dir).map_err(unusable)?;
    let claim = File::open(dir).map_err(unusable)?;
    let until = Instant::now() + patience;
    loop {
        match claim.try_lock() {
            Ok(()) => return Ok(claim),
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(Duration::from_millis(50)),
            Err(TryLockError::WouldBlock) => return Err(ClaimError::Taken(dir.to_owned())),
            Err(TryLockError::Error(error)) => {
                let dir = dir.display();
                warn!(%dir, %error, "cannot lock the directory of records: no other gt-daemon may write there");
                return Ok(claim);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::spawn;

    use super::*;

    /// Exercises two daemons with one directory, so that the second is refused while the first has it, and comes in when that
    /// one lets go while it waits.
    #[test]
    fn one_at_a_time() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("new");
        let first = claim(&dir).unwrap();
        let refused = claim_within(&dir, Duration::ZERO).unwrap_err().to_string();
        assert!(refused.contains("another gt-daemon") && refused.contains("--record"), "{refused}");
        let waiting = spawn({
            let dir = dir.clone();
            move || claim_within(&dir, Duration::from_secs(60)).map(drop)
        });
        drop(first);
        waiting.join().unwrap().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(matches!(claim(&top.path().join("file")), Err(ClaimError::Unusable { .. })));
    }
}
