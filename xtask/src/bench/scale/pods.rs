//! Pods with nothing but a network namespace and connections inside it.

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    sandbox::{Netns, Process},
    stage::interrupt,
};

/// The Kubernetes namespace of all.
pub(super) const NAMESPACE: &str = "bench";

/// What a pod's name begins with; its number follows.
const NAME: &str = "pod-";

/// Files that one process has open at most: a hard limit of 4,096 is the least that is usual.
const FILES: u32 = 4_000;

/// What stands here first goes first: sockets before their namespaces.
#[derive(Debug)]
pub(super) struct Pods {
    holders: Vec<Process>,
    namespaces: Vec<Netns>,
    file: PathBuf,
}

impl Pods {
    /// Makes the namespaces, and a pods file that names none of them yet.
    pub(super) fn create(count: u32, workdir: &Path) -> Result<Self> {
        let file = workdir.join("pods.toml");
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        let mut pods = Self { holders: Vec::new(), namespaces: Vec::new(), file };
        for number in 0..count {
            interrupt::check()?;
            pods.namespaces.push(Netns::create(&format!("gt-bench-{}-{number}", process::id()))?);
        }
        Ok(pods)
    }

    /// The pods file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.namespaces.len()
    }

    /// The number of the pod of this name.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        name.strip_prefix(NAME)?.parse().ok().filter(|number| *number < self.len())
    }

    /// Names them in the pods file.
    pub(super) fn show(&self) -> Result<()> {
        let mut text = String::new();
        for (number, netns) in self.namespaces.iter().enumerate() {
            let netns = netns.path();
            let _never_fails = writeln!(
                text,
                "[[pod]]\nnamespace = \"{NAMESPACE}\"\nname = \"{NAME}{number}\"\nnetns = \"{}\"",
                netns.display()
            );
        }
        fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Opens so many sockets in all, as many in each.
    pub(super) fn open(&mut self, sockets: u32) -> Result<()> {
        let each = sockets / u32::try_from(self.len())?;
        let at_a_time = usize::try_from(FILES / (each + 1))?.max(1);
        let me = env::current_exe().context("cannot find this program's own file")?;
        for namespaces in self.namespaces.chunks(at_a_time) {
            interrupt::check()?;
            let mut command = Command::new(&me);
            command.args(["bench", "hold", "--connections", &(each / 2).to_string()]);
            command.args(namespaces.iter().map(Netns::path));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut holder = Process::start("the holder of connections", &mut command)?;
            let stdout = holder.child().stdout.take().context("no pipe to the holder of connections")?;
            let mut said = String::new();
            BufReader::new(stdout).read_line(&mut said).context("cannot hear the holder of connections")?;
            ensure!(said.trim() == "open", "connections could not be opened: see the message above");
            self.holders.push(holder);
        }
        Ok(())
    }
}
