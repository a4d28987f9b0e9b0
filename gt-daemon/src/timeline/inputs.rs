//! Which files are artifacts, of which kind, and by how much their clocks are to be set right.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::drain::store::TIMELINE;

/// Files in one directory: with more of them it is no folder of artifacts.
const MOST: usize = 10_000;

/// What is wrong with what was asked for: the environment, not the drain.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("cannot read {path}: {cause}; give the directory of a run's artifacts, or their files")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{path} is no regular file; copy its contents into one")]
    Special { path: PathBuf },
    #[error("{path} has more than {MOST} files; give a directory of one run's artifacts, or their files")]
    TooMany { path: PathBuf },
    #[error("{path} has no artifacts; they are named {}", NAMES)]
    Nothing { path: PathBuf },
    #[error("{path} is no artifact by its name; they are named {}", NAMES)]
    Unknown { path: PathBuf },
    #[error("--offset {name}=.. names no file: it is the beginning of a file's name, or a directory; here are {}", .files.join(", "))]
    NoSuchHost { name: String, files: Vec<String> },
}

/// The names, for messages and the manual.
const NAMES: &str = "timeline.jsonl (gt's records), hc*.log, envoy-active.tsv, envoy.log, *stats_before.txt, *stats_after.txt, \
                     haproxy*.csv, haproxy*.log, *.pcap, *.pcapng, curl*.out, run.log";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Record,
    Hc,
    EnvoyActive,
    EnvoyLog,
    EnvoyBefore,
    EnvoyAfter,
    HaproxyStats,
    HaproxyLog,
    Capture,
    Clients,
    Run,
}

impl Kind {
    /// By the name of a file.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let is = |beginning: &str, end: &str| name.starts_with(beginning) && name.ends_with(end);
        let ends = |end: &str| name.ends_with(end);
        Some(match () {
            () if name == TIMELINE => Self::Record,
            () if name == "run.log" => Self::Run,
            () if ends("stats_before.txt") || ends("stats-before.txt") => Self::EnvoyBefore,
            () if ends("stats_after.txt") || ends("stats-after.txt") => Self::EnvoyAfter,
            () if is("envoy-active", ".tsv") => Self::EnvoyActive,
            () if is("envoy", ".log") || is("istio-proxy", ".log") => Self::EnvoyLog,
            () if is("haproxy", ".csv") || is("haproxy", ".tsv") => Self::HaproxyStats,
            () if is("haproxy", ".log") => Self::HaproxyLog,
            () if ends(".pcap") || ends(".pcapng") => Self::Capture,
            () if is("curl", ".out") => Self::Clients,
            () if is("hc", ".log") => Self::Hc,
            () => return None,
        })
    }
}

/// One artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Artifact {
    pub kind: Kind,
    /// What messages call it.
    pub name: String,
    pub path: PathBuf,
    /// By how much its clock was ahead, microseconds.
    pub ahead: i64,
}

/// A clock that was wrong: `HOST=+0.120s`, ahead of the others by so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    pub host: String,
    pub ahead: i64,
}

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "{text:?} is no offset: write HOST=+0.120s for a clock that was 0.120 s ahead, or HOST=-2s"
            )
        };
        let (host, time) = text.split_once('=').ok_or_else(wrong)?;
        let time = time.strip_suffix('s').ok_or_else(wrong)?;
        let (sign, digits) = match time.split_at_checked(1).ok_or_else(wrong)? {
            ("+", digits) => (1, digits),
            ("-", digits) => (-1, digits),
            _ => return Err(wrong()),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if host.is_empty() || !is_number(whole) || !is_number(part) || whole.len() > 8 || part.len() > 6 {
            return Err(wrong());
        }
        let seconds: i64 = whole.parse().map_err(|_| wrong())?;
        let micros: i64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
        Ok(Self { host: host.to_owned(), ahead: sign * (seconds * 1_000_000 + micros) })
    }
}

impl Offset {
    /// Whether it is meant for a file: its name begins with the host's, or it lies in a directory of that name.
    fn is_of(&self, path: &Path) -> bool {
        let is_host = |name: &str| {
            let rest = name.strip_prefix(&self.host);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']))
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let directory = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.is_some_and(is_host) || directory == Some(&self.host)
    }
}

/// What is to be read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Artifacts of one run, in an order of their own.
    Artifacts(Vec<Artifact>),
    /// The records of drains: `timeline.jsonl` each.
    Records(Vec<Artifact>),
    /// Artifacts that are no run's, and not read.
    Unread(Vec<Artifact>),
}

/// Finds what is to be read, run by run. Files that are given by name are one run; so is a directory with an hc.log. Without one
/// each directory in it that has artifacts is a run, with what the directory itself says of what was done, also where a sidecar was
/// not seen; and each record in them is judged. Where a directory has artifacts beside a `timeline.jsonl`, that is what was made of
/// them, and left out.
pub fn find(paths: &[PathBuf], offsets: &[Offset]) -> Result<Vec<Found>, InputError> {
    let (mut runs, mut files, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let meta =
            fs::metadata(path).map_err(|cause| InputError::Unreadable { path: path.clone(), cause })?;
        if meta.is_dir() {
            let inside = below(path, &mut unread)?;
            if inside.is_empty() {
                return Err(InputError::Nothing { path: path.clone() });
            }
            runs.extend(inside);
        } else if !meta.is_file() {
            return Err(InputError::Special { path: path.clone() });
        } else {
            files.push(artifact(path).ok_or_else(|| InputError::Unknown { path: path.clone() })?);
        }
    }
    if !files.is_empty() {
        runs.push(files);
    }
    for offset in offsets {
        let mut is_used = false;
        for artifact in runs.iter_mut().flatten().filter(|artifact| offset.is_of(&artifact.path)) {
            (artifact.ahead, is_used) = (offset.ahead, true);
        }
        if !is_used {
            let files = runs.iter().flatten().take(20).map(|artifact| artifact.name.clone()).collect();
            return Err(InputError::NoSuchHost { name: offset.host.clone(), files });
        }
    }
    let unread = (!unread.is_empty()).then_some(Found::Unread(unread));
    Ok(runs.into_iter().map(found).chain(unread).collect())
}

fn found(mut run: Vec<Artifact>) -> Found {
    run.sort();
    run.dedup_by(|one, other| one.path == other.path);
    let (records, artifacts): (Vec<_>, Vec<_>) =
        run.into_iter().partition(|artifact| artifact.kind == Kind::Record);
    if artifacts.is_empty() { Found::Records(records) } else { Found::Artifacts(artifacts) }
}

/// The runs in a directory.
fn below(path: &Path, unread: &mut Vec<Artifact>) -> Result<Vec<Vec<Artifact>>, InputError> {
    let is_hc = |found: &Artifact| found.kind == Kind::Hc;
    let own = list(path, unread)?;
    if own.iter().any(is_hc) {
        return Ok(vec![own]);
    }
    let (mut records, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|found| found.kind == Kind::Record);
    if !records.is_empty() && !own.is_empty() {
        records.clear();
    }
    let (mut runs, mut others) = (Vec::new(), Vec::new());
    for directory in directories(path)? {
        let (of_it, inside): (Vec<_>, Vec<_>) =
            list(&directory, unread)?.into_iter().partition(|found| found.kind == Kind::Record);
        match inside.is_empty() {
            true => records.extend(of_it),
            false if inside.iter().any(is_hc) => runs.push(inside),
            false => others.push(inside),
        }
    }
    let (done, beside): (Vec<_>, Vec<_>) = own.into_iter().partition(|found| found.kind == Kind::Run);
    if runs.is_empty() && !beside.is_empty() {
        // One run, of which some files may lie below.
        runs.push(beside);
        unread.extend(others.into_iter().flatten());
    } else {
        runs.append(&mut others);
        unread.extend(beside);
    }
    if runs.is_empty() && records.is_empty() && !done.is_empty() {
        return Ok(vec![done]);
    }
    for run in &mut runs {
        run.extend(done.iter().cloned());
    }
    runs.extend((!records.is_empty()).then_some(records));
    Ok(runs)
}

fn list(directory: &Path, unread: &mut Vec<Artifact>) -> Result<Vec<Artifact>, InputError> {
    let files = || entries(directory).map(|all| all.into_iter().filter(|(_, is_file)| *is_file));
    unread.extend(files()?.filter_map(|(path, _)| put_away(&path)));
    Ok(files()?.filter_map(|(path, _)| artifact(&path)).collect())
}

/// What would be an artifact, were it not rotated or compressed: `haproxy.log.1`, `envoy.log.2.gz`.
fn put_away(path: &Path) -> Option<Artifact> {
    let name = path.file_name()?.to_str()?;
    let is_end = |end: &str| {
        let is_number = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
        is_number || ["gz", "xz", "zst", "bz2"].contains(&end)
    };
    let mut rest = name;
    while let Some((before, end)) = rest.rsplit_once('.')
        && is_end(end)
    {
        rest = before;
    }
    let kind = Kind::of(rest).filter(|_| rest != name)?;
    Some(Artifact { kind, name: name.to_owned(), path: path.to_owned(), ahead: 0 })
}

fn directories(directory: &Path) -> Result<Vec<PathBuf>, InputError> {
    let found = entries(directory)?.into_iter().filter(|(path, is_file)| !is_file && path.is_dir());
    Ok(found.map(|(path, _)| path).collect())
}

fn entries(directory: &Path) -> Result<Vec<(PathBuf, bool)>, InputError> {
    let wrong = |cause| InputError::Unreadable { path: directory.to_owned(), cause };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if found.len() >= MOST {
            return Err(InputError::TooMany { path: directory.to_owned() });
        }
        let is_file = path.is_file();
        if !is_file && !path.is_dir() && path.exists() && artifact(&path).is_some() {
            return Err(InputError::Special { path });
        }
        found.push((path, is_file));
    }
    found.sort();
    Ok(found)
}

fn artifact(path: &Path) -> Option<Artifact> {
    let name = path.file_name()?.to_str()?.to_owned();
    let kind = Kind::of(&name)?;
    Some(Artifact { kind, name, path: path.to_owned(), ahead: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the names that runs leave behind, so that each is what it is, and others are none.
    #[test]
    fn names() {
        for (name, kind) in [
            ("timeline.jsonl", Some(Kind::Record)),
            ("hc.log", Some(Kind::Hc)),
            ("envoy-active.tsv", Some(Kind::EnvoyActive)),
            ("envoy.log", Some(Kind::EnvoyLog)),
            ("stats_before.txt", Some(Kind::EnvoyBefore)),
            ("igw-1.stats_after.txt", Some(Kind::EnvoyAfter)),
            ("haproxy-stat-timeline.csv", Some(Kind::HaproxyStats)),
            ("haproxy.log", Some(Kind::HaproxyLog)),
            ("Worker1.PCAP", Some(Kind::Capture)),
            ("curl_s0.out", Some(Kind::Clients)),
            ("run.log", Some(Kind::Run)),
            ("kernel-trace.log", None),
            ("table.txt", None),
            ("intervals.json", None),
            ("haproxy.log.1", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
        let kind = |name: &str| put_away(Path::new(name)).map(|found| found.kind);
        assert_eq!(kind("a/haproxy.log.1"), Some(Kind::HaproxyLog));
        assert_eq!(kind("pod.pcap.2.gz"), Some(Kind::Capture));
        assert!(kind("haproxy.log").is_none() && kind("notes.1.gz").is_none());
    }

    /// Exercises offsets, so that a sign and a unit are wanted, and parts of a second are exact.
    #[test]
    fn offsets() {
        let ahead = |text: &str| text.parse::<Offset>().map(|offset| offset.ahead);
        assert_eq!(ahead("lb=+0.120s"), Ok(120_000));
        assert_eq!(ahead("lb=-2s"), Ok(-2_000_000));
        assert_eq!(ahead("lb=+1.000001s"), Ok(1_000_001));
        for wrong in [
            "lb",
            "lb=",
            "lb=1s",
            "lb=+1",
            "=+1s",
            "lb=+1.s",
            "lb=+.5s",
            "lb=+1e3s",
            "lb=+1.0000001s",
            "lb=+é",
        ] {
            assert!(ahead(wrong).unwrap_err().contains("HOST=+0.120s"), "{wrong}");
        }
    }

    /// Exercises a folder of artifacts, one of records and an empty one, so that the first two are told apart, what was made
    /// of artifacts is not read for them, and an offset for nobody is refused.
    #[test]
    fn folders() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("run/gt-record/one")).unwrap();
        for file in [
            "run/hc.log",
            "run/timeline.jsonl",
            "run/worker1.pcap",
            "run/table.txt",
            "run/gt-record/one/timeline.jsonl",
        ] {
            fs::write(at(file), "").unwrap();
        }
        let names = |paths: &[PathBuf], offsets: &[&str]| {
            let offsets: Vec<Offset> = offsets.iter().map(|text| text.parse().unwrap()).collect();
            let told = |found: Found| match found {
                Found::Artifacts(all) => {
                    all.iter().map(|one| format!("{}{:+}", one.name, one.ahead)).collect::<Vec<_>>().join(" ")
                }
                Found::Records(all) => format!("records {}", all.len()),
                Found::Unread(all) => format!("unread {}", all[0].name),
            };
            find(paths, &offsets).map(|found| found.into_iter().map(told).collect::<Vec<_>>())
        };
        assert_eq!(names(&[at("run")], &["worker1=+1s"]).unwrap(), ["hc.log+0 worker1.pcap+1000000"]);
        assert_eq!(names(&[at("run/gt-record")], &[]).unwrap(), ["records 1"]);
        assert_eq!(names(&[at("run/gt-record/one")], &[]).unwrap(), ["records 1"]);
        assert_eq!(
            names(&[at("run/hc.log"), at("run/worker1.pcap")], &[]).unwrap(),
            ["hc.log+0 worker1.pcap+0"]
        );
        // A directory for each pod, and what was done to all of them above.
        fs::create_dir_all(at("pods/one")).unwrap();
        fs::create_dir_all(at("pods/two")).unwrap();
        for file in ["pods/run.log", "pods/haproxy.log", "pods/one/hc.log", "pods/two/hc.log"] {
            fs::write(at(file), "").unwrap();
        }
        let two = ["hc.log+0 run.log+0", "hc.log+0 run.log+0"];
        assert_eq!(names(&[at("pods")], &[]).unwrap(), [&two[..], &["unread haproxy.log"]].concat());
        // One without a sidecar's log, and one that is gt's record.
        fs::create_dir_all(at("pods/gone")).unwrap();
        fs::create_dir_all(at("pods/seen")).unwrap();
        fs::write(at("pods/gone/pod.pcap"), "").unwrap();
        fs::write(at("pods/seen/timeline.jsonl"), "").unwrap();
        assert_eq!(
            names(&[at("pods")], &[]).unwrap(),
            [&two[..], &["pod.pcap+0 run.log+0", "records 1", "unread haproxy.log"]].concat()
        );
        assert!(names(&[at("run")], &["worker=+1s"]).unwrap_err().to_string().contains("hc.log"));
        assert!(names(&[at("run/table.txt")], &[]).unwrap_err().to_string().contains("haproxy*.csv"));
        assert!(names(&[at("nowhere")], &[]).unwrap_err().to_string().contains("cannot read"));
        fs::create_dir(at("empty")).unwrap();
        assert!(names(&[at("empty")], &[]).unwrap_err().to_string().contains("no artifacts"));
    }
}
