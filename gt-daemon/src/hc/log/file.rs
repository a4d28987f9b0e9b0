//! One log file, read as it grows.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use nix::libc::O_NONBLOCK;

use super::{
    assemble::{Assembler, Whole},
    runtime,
};

/// Bytes of one line of the file. Runtimes split lines at 16 KiB; Docker's escapes may make six times that of it.
const MAX_RAW: usize = 128 << 10;

/// Bytes read at once, and in one round: a flood in one pod's log must not hold up the others'.
const BLOCK: usize = 64 << 10;
const ROUND: usize = 1 << 20;

/// What makes a file this one and no other.
pub(super) type Id = (u64, u64);

pub(super) fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

/// An open log file and how far it was read.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    id: Id,
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    raw: Vec<u8>,
    /// What comes until the next newline belongs to a line whose beginning was not read, or is too long.
    skipping: bool,
    assembler: Assembler,
}

impl LogFile {
    /// Opens a file to read its last `back` bytes and what comes after, whole lines only.
    pub(super) fn open(path: &Path, back: u64) -> io::Result<Self> {
        // A FIFO must not hold the thread up.
        let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        let offset = metadata.len().saturating_sub(back);
        let (raw, assembler) = (Vec::new(), Assembler::default());
        Ok(Self { file, id: id(&metadata), offset, raw, skipping: offset > 0, assembler })
    }

    /// From its beginning.
    pub(super) fn open_whole(path: &Path) -> io::Result<Self> {
        Self::open(path, u64::MAX)
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Whether nothing before what was read is left to read.
    pub(super) fn reaches_beginning(path: &Path, back: u64) -> io::Result<bool> {
        Ok(std::fs::metadata(path)?.len() <= back)
    }

    /// Reads what is new, at most a round's worth, and gives each whole line. `true` when there is more.
    pub(super) fn read(&mut self, mut line: impl FnMut(Whole)) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        if length == self.offset {
            return Ok(false);
        }
        if length < self.offset {
            // Cut to begin anew in the same file (logrotate's copytruncate).
            self.offset = 0;
            self.forget_parts();
            self.skipping = false;
        }
        let mut block = vec![0; BLOCK];
        let mut left = ROUND;
        while left > 0 {
            let read = match self.file.read_at(&mut block, self.offset) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.offset += read as u64;
            left = left.saturating_sub(read);
            self.take(block.get(..read).unwrap_or_default(), &mut line);
        }
        Ok(true)
    }

    /// Forgets the beginnings of lines: their ends will not come.
    pub(super) fn forget_parts(&mut self) {
        self.raw = Vec::new();
        self.assembler.clear();
    }

    fn take(&mut self, mut bytes: &[u8], line: &mut impl FnMut(Whole)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            let short = self.raw.len() + head.len() <= MAX_RAW;
            if !std::mem::take(&mut self.skipping) && short {
                self.raw.extend_from_slice(head);
                let raw = self.raw.strip_suffix(b"\r").unwrap_or(&self.raw);
                if let Some(whole) = self.assembler.push(&runtime::entry(raw)) {
                    line(whole);
                }
            }
            self.raw.clear();
        }
        if self.raw.len() + bytes.len() > MAX_RAW {
            self.skipping = true;
            self.raw = Vec::new();
        } else if !self.skipping {
            self.raw.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use proptest::prelude::*;

    use super::*;

    fn read(file: &mut LogFile) -> Vec<String> {
        let mut lines = Vec::new();
        while file.read(|whole| lines.push(String::from_utf8_lossy(&whole.text).into_owned())).unwrap() {}
        lines
    }

    fn append(path: &Path, text: &str) {
        File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Exercises a line that is written in two halves, so that it is read once and whole.
    #[test]
    fn half_written_lines_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        append(&path, "one\ntw");
        let mut file = LogFile::open_whole(&path).unwrap();
        assert_eq!(read(&mut file), ["one"]);
        append(&path, "o\r\nthree\n");
        assert_eq!(read(&mut file), ["two", "three"]);
        assert_eq!(read(&mut file), [""; 0]);
    }

    /// Exercises the end of a file, so that the line it begins in is left out.
    #[test]
    fn the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        append(&path, "one\ntwo\nthree\n");
        assert_eq!(read(&mut LogFile::open(&path, 8).unwrap()), ["three"]);
        assert_eq!(read(&mut LogFile::open(&path, 100).unwrap()), ["one", "two", "three"]);
        assert!(
            LogFile::reaches_beginning(&path, 14).unwrap() && !LogFile::reaches_beginning(&path, 13).unwrap()
        );
    }

    /// Exercises a file that is cut to nothing and written again.
    #[test]
    fn a_cut_file_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        append(&path, "a long first line\nhalf");
        let mut file = LogFile::open_whole(&path).unwrap();
        assert_eq!(read(&mut file), ["a long first line"]);
        File::options().write(true).truncate(true).open(&path).unwrap();
        append(&path, "new\n");
        assert_eq!(read(&mut file), ["new"]);
    }

    /// Exercises lines without end, so that memory is bounded and later lines are read.
    #[test]
    fn endless_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        append(&path, &"x".repeat(3 * MAX_RAW));
        let mut file = LogFile::open_whole(&path).unwrap();
        assert_eq!(read(&mut file), [""; 0]);
        assert_eq!(file.raw.capacity(), 0);
        append(&path, "end of it\nnext\n");
        assert_eq!(read(&mut file), ["next"]);
    }

    /// Exercises what is no file, so that nothing hangs on it.
    #[test]
    fn no_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(LogFile::open_whole(dir.path()).is_err());
        let fifo = dir.path().join("0.log");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(LogFile::open_whole(&fifo).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Exercises any cuts of a growing file, so that they change nothing about its lines.
        #[test]
        fn any_growth(lines in prop::collection::vec("[a-z ]{0,12}", 1..8), cuts in prop::collection::vec(0_usize..100, 0..6)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("0.log");
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            fs::write(&path, "").unwrap();
            let mut file = LogFile::open_whole(&path).unwrap();
            let mut seen = Vec::new();
            for pair in cuts.windows(2) {
                append(&path, &text[pair[0]..pair[1]]);
                seen.extend(read(&mut file));
            }
            prop_assert_eq!(seen, lines);
        }
    }
}
