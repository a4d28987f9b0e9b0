//! The lab, ended before its end by a signal or by a program that does not work: nothing of it may stay.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;

use super::overview::Ended;
use crate::{
    sandbox::{Process, cgroup2_root},
    stage::workdir::Workdir,
};

/// A command line's end, and what it is ended by: at a line with these words, a signal.
struct Case {
    arguments: &'static [&'static str],
    ended_by: Option<(&'static str, Signal)>,
}

const CASES: [Case; 4] = [
    // While pods are started.
    Case { arguments: &["s1", "--short"], ended_by: Some(("round 1", Signal::SIGINT)) },
    // With a request in flight, while the kubelet's part is played.
    Case { arguments: &["s2", "--short"], ended_by: Some(("is deleted", Signal::SIGTERM)) },
    // With load, and all pods there.
    Case {
        arguments: &["s3", "--short", "--mode", "improved"],
        ended_by: Some(("is deleted", Signal::SIGINT)),
    },
    // A sidecar that ends at once.
    Case { arguments: &["s1", "--short", "--hc", "/bin/false"], ended_by: None },
];

/// How long the lab may take to the line, and after it to its end.
const LIMIT: Duration = Duration::from_secs(60);

/// Ends the lab in each way, and looks what is left.
pub(super) fn check(daemon: &Path, hc: &Path) -> Result<Ended> {
    for case in &CASES {
        let words = case.arguments.join(" ");
        end(case, daemon, hc).with_context(|| format!("`cargo xtask lab {words}`, ended before its end"))?;
    }
    Ok(Ended::ok())
}

fn end(case: &Case, daemon: &Path, hc: &Path) -> Result<()> {
    let cgroups = cgroup2_root()?.join("kubepods");
    let was_there = cgroups.exists();
    let workdir = Workdir::create()?;
    // In a session of its own, by which its processes are known; `setsid` becomes the lab itself.
    let mut command = Command::new("setsid");
    command.arg(env::current_exe().context("cannot find this program's own file")?).arg("lab");
    command.args(case.arguments).arg("--daemon").arg(daemon);
    if !case.arguments.contains(&"--hc") {
        command.arg("--hc").arg(hc);
    }
    command
        .env("TMPDIR", workdir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut lab = Process::start("the lab", &mut command)?;
    let stdout = lab.child().stdout.take().context("the lab has no output to read")?;
    let mut told = String::new();
    let started = Instant::now();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some((words, signal)) = case.ended_by
            && line.contains(words)
        {
            lab.signal(signal)?;
        }
        for part in ["    ", &line, "\n"] {
            told.push_str(part);
        }
        ensure!(started.elapsed() < LIMIT * 2, "it does not end; it told:\n{told}");
    }
    let status = lab.wait(LIMIT)?.with_context(|| format!("it does not end; it told:\n{told}"))?;
    ensure!(!status.success(), "it ended as if all were well; it told:\n{told}");
    let mut left = left(lab.id(), workdir.path())?;
    if !was_there && cgroups.exists() {
        left.push(format!("cgroup {}", cgroups.display()));
    }
    if !left.is_empty() {
        bail!("it left behind {}; it told:\n{told}", left.join(", "));
    }
    Ok(())
}

/// Processes, namespaces and files of the lab with this process id, which was the leader of a session.
fn left(id: u32, workdir: &Path) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.filter_map(Result::ok) {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // `<pid> (<name>) <state> <parent> <group> <session> ..`, where a name may have any character.
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<_> = rest.split_whitespace().collect();
        if fields.get(3).and_then(|session| session.parse().ok()) == Some(id) && fields.first() != Some(&"Z")
        {
            left.push(format!("process {name})"));
        }
    }
    let ours = format!("gt-lab-{id}-");
    for (directory, prefix) in [(Path::new("/run/netns"), &*ours), (workdir, "")] {
        // No namespace was ever made where there is no such directory.
        let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        left.extend(
            names
                .filter(|name| name.starts_with(prefix))
                .map(|name| format!("{}/{name}", directory.display())),
        );
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a process of the session and a file so that what stays is found.
    #[test]
    fn what_stays_is_found() {
        let workdir = Workdir::create().unwrap();
        let mut sleeper = Process::start("sleep", Command::new("setsid").args(["sleep", "60"])).unwrap();
        let found = || left(sleeper.id(), workdir.path()).unwrap();
        crate::sandbox::eventually("the session", Duration::from_secs(10), || {
            (found().len() == 1).then_some(())
        })
        .unwrap();
        fs::write(workdir.path().join("a"), "").unwrap();
        assert!(found()[1].ends_with("/a"), "{:?}", found());
        sleeper.signal(Signal::SIGKILL).unwrap();
        sleeper.wait(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(left(sleeper.id(), workdir.path()).unwrap().len(), 1);
    }
}
