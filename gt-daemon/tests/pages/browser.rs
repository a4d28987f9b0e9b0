//! A headless Chromium.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};

/// A page of some hundred kilobytes takes a second; a browser that hangs is ended after so many.
const LIMIT: &str = "60";

/// Why there is no browser to look with; `None` when there is one.
pub fn missing() -> Option<String> {
    let reason = "no chromium on PATH: `apt-get install chromium`, or `cargo xtask setup`";
    executable().is_none().then(|| reason.to_owned())
}

fn executable() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join("chromium")).find(|file| file.is_file())
}

/// A browser with a profile of its own.
pub struct Browser {
    profile: PathBuf,
}

impl Browser {
    /// Its profile is made below a directory.
    pub fn new(dir: &Path) -> Self {
        Self { profile: dir.join("profile") }
    }

    /// A page's document as the browser has it.
    pub fn dom(&self, page: &Path) -> Result<String> {
        let output = self.run(page, &["--dump-dom"])?;
        String::from_utf8(output.stdout).context("the DOM is no UTF-8")
    }

    /// What a page makes the browser say to its console.
    pub fn console(&self, page: &Path) -> Result<Vec<String>> {
        let output = self.run(page, &["--dump-dom", "--enable-logging=stderr"])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect())
    }

    /// A page as it is printed.
    pub fn pdf(&self, page: &Path) -> Result<Vec<u8>> {
        let file = page.with_extension("pdf");
        self.run(page, &[&format!("--print-to-pdf={}", file.display())])?;
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    fn run(&self, page: &Path, arguments: &[&str]) -> Result<Output> {
        let browser = executable().context("no chromium on PATH")?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT]).arg(browser);
        // Root has no sandbox there; pages come from this test alone.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.arg(format!("--user-data-dir={}", self.profile.display()));
        command.args(arguments).arg(format!("file://{}", page.display()));
        let output = command.output().context("cannot start chromium by `timeout`")?;
        ensure!(
            output.status.success(),
            "chromium ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output)
    }
}
