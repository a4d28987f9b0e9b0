//! One container's log files, through rotation and restarts.
//!
//! The kubelet names them `<restarts>.log`, and when one gets long renames it to `<restarts>.log.<time>`, asks the
//! runtime to open a new one, and later compresses the old one (kubernetes, `pkg/kubelet/logs`). Lines written
//! between renaming and opening go into the renamed file, which stays open here.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    assemble::Whole,
    file::{self, LogFile},
    line::Line,
    stamp,
};
use crate::{
    clock::Moment,
    hc::{
        names::Names,
        observation::{Observation, Source, What},
    },
};

/// How much of a log's end is looked at for the last transition: more, the fewer were found. Health checks may
/// fill the log between two transitions.
const TAILS: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Transitions of before the start that are told.
const MOST_OLD: usize = 16;

/// Rounds in which a renamed file is still read: the runtime may write to it until it has opened the new one.
const FAREWELL: u8 = 5;

/// In which of the rounds the directory is read, for a container that was started again.
const DIRECTORY_EVERY: u8 = 5;

/// Why a log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "hc's log directory {0} is not there; in a container mount the host's /var/log/pods, in a pods file see its `logs`"
    )]
    Missing(PathBuf),
    #[error(
        "cannot read hc's log {path}: {cause}; gt must run as root and see the files the runtime's links lead to"
    )]
    Unreadable { path: PathBuf, cause: io::Error },
}

/// The log of one pod's hc.
#[derive(Debug)]
pub(super) struct PodLog {
    directory: PathBuf,
    names: Arc<Names>,
    current: Option<(u32, LogFile)>,
    renamed: Option<(LogFile, u8)>,
    /// Whether the files that were there at the start have been looked at.
    begun: bool,
    /// Another run of the container writes, and none of its lines was read yet.
    restarted: bool,
    rounds: u8,
    /// Lines about transitions that could not be understood.
    pub(super) unreadable: u64,
}

impl PodLog {
    pub(super) fn new(directory: PathBuf, names: Arc<Names>) -> Self {
        Self {
            directory,
            names,
            current: None,
            renamed: None,
            begun: false,
            restarted: false,
            rounds: 0,
            unreadable: 0,
        }
    }

    /// Reads what is new. At the first round, what the log's end tells of before.
    pub(super) fn round(&mut self, out: &mut Vec<Observation>) -> Result<(), LogError> {
        if self.current.is_none() && !self.find(out)? {
            return Ok(());
        }
        self.read(out)?;
        self.follow_rotation(out)?;
        self.rounds = (self.rounds + 1) % DIRECTORY_EVERY;
        if self.rounds == 0 {
            self.follow_restarts(out)?;
        }
        Ok(())
    }

    /// Looks for the container's newest log. `false` while it has none.
    fn find(&mut self, out: &mut Vec<Observation>) -> Result<bool, LogError> {
        let numbers = self.numbers()?;
        let first_look = !std::mem::replace(&mut self.begun, true);
        let Some(newest) = numbers.last().copied() else { return Ok(false) };
        let path = self.path(newest);
        let file = if first_look {
            let begin = out.len();
            let file = self.tail(&path, out)?;
            if out.len() == begin
                && let Some(renamed) = self.newest_renamed(newest)
            {
                // A renamed log that cannot be read only means that less is known.
                let _less = self.tail(&renamed, out);
            }
            out.drain(begin..out.len().saturating_sub(MOST_OLD).max(begin));
            file
        } else {
            self.open(&path)?
        };
        self.current = Some((newest, file));
        Ok(true)
    }

    fn read(&mut self, out: &mut Vec<Observation>) -> Result<(), LogError> {
        let mut reading = Reading {
            names: &self.names,
            restarted: &mut self.restarted,
            unreadable: &mut self.unreadable,
            out,
        };
        if let Some((file, rounds)) = &mut self.renamed {
            // What it had to say is less than what the new file has to.
            let _gone = file.read(|whole| reading.take(&whole));
            *rounds -= 1;
            if *rounds == 0 {
                self.renamed = None;
            }
        }
        if let Some((number, file)) = &mut self.current {
            let number = *number;
            file.read(|whole| reading.take(&whole))
                .map_err(|cause| LogError::Unreadable { path: path_of(&self.directory, number), cause })?;
        }
        Ok(())
    }

    /// Another file under the same name: what is left in the old one is read first.
    fn follow_rotation(&mut self, out: &mut Vec<Observation>) -> Result<(), LogError> {
        let Some((number, file)) = &self.current else { return Ok(()) };
        let (number, known) = (*number, file.id());
        let path = self.path(number);
        match fs::metadata(&path) {
            Ok(metadata) if file::id(&metadata) == known => return Ok(()),
            Ok(_) => {}
            // Renamed and not opened yet, or the pod is going.
            Err(_) => return Ok(()),
        }
        let new = self.open(&path)?;
        self.read(out)?;
        if let Some((_, old)) = self.current.replace((number, new)) {
            self.renamed = Some((old, FAREWELL));
        }
        self.read(out)
    }

    /// The next run of the container, and the ones after it.
    fn follow_restarts(&mut self, out: &mut Vec<Observation>) -> Result<(), LogError> {
        let Some((known, _)) = &self.current else { return Ok(()) };
        let known = *known;
        for next in self.numbers()?.into_iter().filter(|number| *number > known) {
            self.read(out)?;
            let new = self.open(&self.path(next))?;
            self.current = Some((next, new));
            self.renamed = None;
            self.restarted = true;
            self.read(out)?;
        }
        Ok(())
    }

    /// Opens a file at its end, after telling the transitions found there.
    fn tail(&mut self, path: &Path, out: &mut Vec<Observation>) -> Result<LogFile, LogError> {
        let unreadable = |cause| LogError::Unreadable { path: path.to_owned(), cause };
        let begin = out.len();
        for back in TAILS {
            let mut file = LogFile::open(path, back).map_err(unreadable)?;
            let mut reading = Reading {
                names: &self.names,
                restarted: &mut self.restarted,
                unreadable: &mut self.unreadable,
                out,
            };
            while file.read(|whole| reading.take(&whole)).map_err(unreadable)? {}
            if out.len() > begin || LogFile::reaches_beginning(path, back).map_err(unreadable)? {
                return Ok(file);
            }
        }
        // Further back than this is not looked: `/state` tells the present.
        LogFile::open(path, 0).map_err(unreadable)
    }

    fn open(&self, path: &Path) -> Result<LogFile, LogError> {
        LogFile::open_whole(path).map_err(|cause| LogError::Unreadable { path: path.to_owned(), cause })
    }

    fn path(&self, number: u32) -> PathBuf {
        path_of(&self.directory, number)
    }

    /// The runs whose logs are there, the newest last.
    fn numbers(&self) -> Result<Vec<u32>, LogError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LogError::Missing(self.directory.clone()));
            }
            Err(cause) => return Err(LogError::Unreadable { path: self.directory.clone(), cause }),
        };
        let number = |name: &str| name.strip_suffix(".log")?.parse().ok();
        let mut numbers: Vec<_> =
            entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The newest renamed log of a run that is not compressed: their names end with the time.
    fn newest_renamed(&self, number: u32) -> Option<PathBuf> {
        let begin = format!("{number}.log.");
        let is_plain = |name: &str| {
            name.strip_prefix(&begin)
                .is_some_and(|time| !time.is_empty() && !time.ends_with(".gz") && !time.ends_with(".tmp"))
        };
        let names = fs::read_dir(&self.directory).ok()?.flatten();
        let newest = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_plain(name))
            .max()?;
        Some(self.directory.join(newest))
    }
}

fn path_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number}.log"))
}

/// What lines are read into.
struct Reading<'a> {
    names: &'a Names,
    restarted: &'a mut bool,
    unreadable: &'a mut u64,
    out: &'a mut Vec<Observation>,
}

impl Reading<'_> {
    fn take(&mut self, whole: &Whole) {
        if *self.restarted
            && let Some(at_us) = whole.stamp_us
        {
            *self.restarted = false;
            self.tell(What::Restarted, at_us, None, None);
        }
        match Line::parse(&whole.text, self.names) {
            Line::Transition(line) => match stamp::instant(line.stamp, whole.stamp_us) {
                Some(at_us) => {
                    let what = What::Transition { from: line.from, to: line.to };
                    self.tell(what, at_us, line.reason, line.active);
                }
                // Without an instant it cannot be put in order.
                None => *self.unreadable += 1,
            },
            Line::Unreadable => *self.unreadable += 1,
            Line::Other => {}
        }
    }

    fn tell(&mut self, what: What, at_us: i64, reason: Option<Box<str>>, active: Option<u64>) {
        self.out.push(Observation {
            source: Source::Log,
            what,
            at_us,
            seen: Moment::now(),
            took_ns: 0,
            reason,
            active,
        });
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
