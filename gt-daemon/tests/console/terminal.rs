//! A terminal of tmux: one session on a server of its own, which ends with it.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// For a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(30);

/// Why there is no terminal here.
pub fn missing() -> Option<String> {
    let works = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    (!works).then(|| "tmux is not installed: `apt-get install tmux`, or `cargo xtask setup`".to_owned())
}

/// A recording or a screen below `testdata`.
pub fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// The command of a console that shows a file below `testdata`, or stdin (`-`), for a shell.
pub fn console(file: &str, further: &str) -> String {
    let executable = std::env::current_exe().unwrap_or_default();
    let file = if file == "-" { PathBuf::from(file) } else { testdata(file) };
    format!("{} child {} {further}", executable.display(), file.display())
}

/// A session of tmux.
pub struct Terminal {
    server: String,
    /// What the terminal was sent, byte for byte, when that is wished.
    sent: tempfile::NamedTempFile,
}

impl Terminal {
    /// Runs a shell command on a terminal of so many columns and rows, with variables set.
    pub fn start(columns: u16, rows: u16, variables: &[(&str, &str)], command: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let server = format!("gt-test-{}-{number}", std::process::id());
        let terminal = Self { server, sent: tempfile::NamedTempFile::new()? };
        let mut start = terminal.command();
        start.args(["-u", "-f", "/dev/null", "new-session", "-d"]);
        start.args(["-x", &columns.to_string(), "-y", &rows.to_string()]);
        // A backtrace would move what a panic says out of sight.
        let usual = [("NO_COLOR", ""), ("LC_ALL", "C.UTF-8"), ("RUST_BACKTRACE", "0")];
        // By the shell: tmux has its own word on TERM.
        let set = usual.iter().chain(variables).map(|(name, value)| format!("export {name}={value}; "));
        let command = set.collect::<String>() + command;
        start.args(["/bin/bash", "--norc", "--noprofile", "-c", &command]);
        check(&start.output().context("cannot start tmux")?)?;
        Ok(terminal)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        // A server inside another one refuses to start.
        command.args(["-L", &self.server]).env_remove("TMUX").env_remove("NO_COLOR");
        command
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        check(&self.command().args(arguments).output().context("cannot run tmux")?)
    }

    /// Types keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// Makes the terminal another size.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]).map(drop)
    }

    /// The screen as text, rows without their empty ends.
    pub fn screen(&self) -> Result<String> {
        let text = self.tmux(&["capture-pane", "-p"])?;
        Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
    }

    /// The screen with its colours, as escape sequences.
    pub fn styled(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// A value of tmux's own formats.
    pub fn format(&self, format: &str) -> Result<String> {
        Ok(self.tmux(&["display-message", "-p", format])?.trim_end().to_owned())
    }

    /// Keeps what is sent to the terminal from now on.
    pub fn listen(&self) -> Result<()> {
        let cat = format!("cat > {}", self.sent.path().display());
        self.tmux(&["pipe-pane", "-o", &cat]).map(drop)
    }

    /// What was sent since then.
    pub fn sent(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.sent.path())?).into_owned())
    }

    /// Waits until the screen is as wished.
    pub fn wait(&self, what: &str, is: impl Fn(&str) -> bool) -> Result<String> {
        let until = Instant::now() + LIMIT;
        loop {
            let screen = self.screen()?;
            if is(&screen) {
                return Ok(screen);
            }
            if Instant::now() > until {
                bail!("{what} was not shown within {LIMIT:?}, but\n{screen}");
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a text.
    pub fn wait_for(&self, text: &str) -> Result<String> {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits for a screen that is kept.
    pub fn wait_for_golden(&self, name: &str) -> Result<()> {
        let path = testdata("console").join(format!("{name}.txt"));
        let golden = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        self.wait(&format!("{name}, which is\n{golden}\nand"), |screen| screen == golden).map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server of this session alone; when all has ended it is gone already.
        let _ended = self.tmux(&["kill-server"]);
    }
}

fn check(output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("tmux: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
