//! Records in files: a directory for each drain, seen whole or not at all.
//!
//! ```text
//! DIR/20260531T071234.000001Z_NAMESPACE_POD_UID/timeline.jsonl    one fact a line
//! DIR/20260531T071234.000001Z_NAMESPACE_POD_UID/intervals.json    the verdict and what led to it
//! ```

use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::record::Record;

/// What a record's directory holds.
pub const TIMELINE: &str = "timeline.jsonl";
pub const INTERVALS: &str = "intervals.json";

/// Directories that are being written or removed begin so: nobody takes them for records.
const UNFINISHED: &str = ".gt-unfinished-";

/// Records of one pod with the same beginning: of more than these none is a drain's.
const MOST_OF_ONE_NAME: u32 = 100;

/// Why a record is not on the disk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "cannot use {dir} for the records of drains: {cause}; give --record a directory that gt may make and write to"
    )]
    Unusable { dir: PathBuf, cause: io::Error },
    #[error("the record of a drain is not written below {dir}: {cause}; {remedy}")]
    Unwritten { dir: PathBuf, cause: io::Error, remedy: &'static str },
    #[error("old records of drains below {dir} are not removed: {cause}; remove what gt may not")]
    Unremoved { dir: PathBuf, cause: io::Error },
}

impl StoreError {
    /// Whether the record itself is there.
    #[must_use]
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Unremoved { .. })
    }
}

/// A directory of records.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    keep: usize,
}

impl Store {
    /// Makes the directory where it is missing, and tries whether it can be written to. What an earlier run has left
    /// unfinished is removed. Keeps the last `keep` records.
    pub fn open(dir: PathBuf, keep: usize) -> Result<Self, StoreError> {
        let store = Self { dir, keep };
        let opened = fs::create_dir_all(&store.dir).and_then(|()| {
            for name in store.names(|name| name.starts_with(UNFINISHED))? {
                fs::remove_dir_all(store.dir.join(name))?;
            }
            let trial = store.unfinished("trial");
            fs::create_dir(&trial)?;
            fs::remove_dir(trial)
        });
        match opened {
            Ok(()) => Ok(store),
            Err(cause) => Err(StoreError::Unusable { dir: store.dir, cause }),
        }
    }

    /// Writes a record and removes the oldest ones beyond the number that is kept. Returns where it is.
    pub fn write(&self, record: &Record) -> Result<PathBuf, StoreError> {
        let name = record.id();
        let unfinished = self.unfinished("new");
        let written = vacant(&unfinished).and_then(|()| fs::create_dir(&unfinished)).and_then(|()| {
            fill(&unfinished, record)?;
            self.finish(&unfinished, &name)
        });
        let place = written.map_err(|cause| {
            // What cannot be removed now is at the next start.
            let _left = fs::remove_dir_all(&unfinished);
            let remedy = remedy(&cause);
            StoreError::Unwritten { dir: self.dir.clone(), cause, remedy }
        })?;
        self.remove_oldest().map_err(|cause| StoreError::Unremoved { dir: self.dir.clone(), cause })?;
        Ok(place)
    }

    /// Gives a directory its name. A record of that name stays, and the new one gets a number.
    fn finish(&self, unfinished: &Path, name: &str) -> io::Result<PathBuf> {
        let numbered = (2..=MOST_OF_ONE_NAME).map(|number| format!("{name}.{number}"));
        for name in std::iter::once(name.to_owned()).chain(numbered) {
            let place = self.dir.join(name);
            if place.symlink_metadata().is_ok() {
                continue;
            }
            fs::rename(unfinished, &place)?;
            File::open(&self.dir)?.sync_all()?;
            return Ok(place);
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, format!("there are many records named {name}")))
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let names = self.names(is_record)?;
        for name in names.iter().take(names.len().saturating_sub(self.keep)) {
            let unfinished = self.unfinished("old");
            vacant(&unfinished)?;
            fs::rename(self.dir.join(name), &unfinished)?;
            fs::remove_dir_all(unfinished)?;
        }
        Ok(())
    }

    fn names(&self, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        names(&self.dir, wanted)
    }

    fn unfinished(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{UNFINISHED}{what}-{}", std::process::id()))
    }
}

/// The records in a directory, the oldest first.
pub fn ids(dir: &Path) -> io::Result<Vec<String>> {
    names(dir, is_record)
}

/// Names of directories in one, in order. A link to one is none.
fn names(dir: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && wanted(&name)
            && entry.file_type()?.is_dir()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// What could not be removed before may be in the way.
pub(crate) fn vacant(unfinished: &Path) -> io::Result<()> {
    match fs::remove_dir_all(unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes both files of a record into a directory that has none of them.
pub(crate) fn fill(dir: &Path, record: &Record) -> io::Result<()> {
    write(&dir.join(TIMELINE), |file| {
        for timed in &record.facts {
            serde_json::to_writer(&mut *file, timed)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })?;
    write(&dir.join(INTERVALS), |file| {
        serde_json::to_writer_pretty(&mut *file, &record.summary())?;
        file.write_all(b"\n")
    })?;
    File::open(dir)?.sync_all()
}

fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create_new(path)?);
    content(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there, or keep fewer records with --record-keep"
        }
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            "let gt write there, or give --record another directory"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "the directory was there when gt started: make it anew, or mount its file system again"
        }
        _ => "look at that file system, or give --record another directory",
    }
}

/// Whether a name is that of a record: nothing else is ever removed.
fn is_record(name: &str) -> bool {
    let Some((stamp, rest)) = name.split_once('_') else { return false };
    let shape = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
    stamp.chars().map(shape).eq("00000000T000000.000000Z".chars()) && rest.matches('_').count() == 2
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
