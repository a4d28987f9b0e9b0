//! `gt-daemon report`: the page of a drain as a file.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    input::{self, Input},
    page::{Page, page},
};
use crate::{cli::ReportOptions, client::Way, drain::record::Record};

/// Writes the page. What is to be said of the input goes to stderr too.
pub fn report(options: &ReportOptions) -> anyhow::Result<ExitCode> {
    let input = match options.drain.to_str().filter(|id| !options.drain.exists() && !id.contains('/')) {
        Some(id) => asked(options, id)?,
        None => input::read(&options.drain)?,
    };
    for remark in &input.remarks {
        eprintln!("gt-daemon: {remark}");
    }
    let html = page(&Page { record: &input.record, goes_on: false, remarks: &input.remarks, home: None });
    if options.output.as_os_str() == "-" {
        match io::stdout().write_all(html.as_bytes()) {
            // Whoever reads has had enough.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                return Err(error).context("cannot write the page to stdout");
            }
            _ => {}
        }
    } else {
        write(&options.output, &html).with_context(|| {
            let path = options.output.display();
            format!("cannot write {path}: give a file in a directory that you may write to with -o, or - for stdout")
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A drain that a daemon still has in memory.
fn asked(options: &ReportOptions, id: &str) -> anyhow::Result<Input> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start; is the process or memory limit of this machine reached?")?;
    let whole = runtime
        .block_on(async { Way::open(options.client.choice()).await?.drain(id).await })
        .with_context(|| format!("{id} is no file or directory here, and no daemon tells of such a drain"))?;
    let summary = whole.listed.summary;
    let record = Record::of(&summary.namespace, &summary.pod, &summary.uid, whole.timeline, summary.left_out);
    let record = record.with_context(|| format!("the daemon's facts of {id} tell of no drain"))?;
    Ok(Input { record, remarks: Vec::new() })
}

/// There as a whole or not at all: whoever looks at the file meanwhile sees the one before. A link stays one, and what is no
/// regular file, such as a device, is written to and never replaced.
fn write(path: &Path, html: &str) -> io::Result<()> {
    let path = &match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(html.as_bytes());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".unfinished-{}", std::process::id()));
    let unfinished: PathBuf = path.with_file_name(name);
    let written = fs::write(&unfinished, html).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // Nothing of it stays; what failed is told.
        let _left = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    /// Exercises what is at the place of the page already, so that a file is replaced, the file behind a link too, and what is no
    /// file is left what it is.
    #[test]
    fn what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("new"), "1").unwrap();
        write(&at("new"), "2").unwrap();
        symlink("new", at("link")).unwrap();
        write(&at("link"), "3").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read_to_string(at("new")).unwrap(), "3");
        assert!(write(dir.path(), "x").is_err() && dir.path().is_dir());
        // A pipe in place of a device, which a test cannot make; somebody has its other end.
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let other = fs::OpenOptions::new().read(true).write(true).open(at("pipe")).unwrap();
        write(&at("pipe"), "4").unwrap();
        assert!(fs::symlink_metadata(at("pipe")).unwrap().file_type().is_fifo());
        drop(other);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing unfinished stays");
    }
}
