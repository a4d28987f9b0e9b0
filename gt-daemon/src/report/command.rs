//! `gt-daemon report`: the page of a drain as a file.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    input,
    page::{Page, page},
};
use crate::cli::ReportOptions;

/// Writes the page. What is to be said of the input goes to stderr too.
pub fn report(options: &ReportOptions) -> anyhow::Result<ExitCode> {
    let input = input::read(&options.drain)?;
    for remark in &input.remarks {
        eprintln!("gt-daemon: {remark}");
    }
    let html = page(&Page { record: &input.record, goes_on: false, remarks: &input.remarks, home: None });
    if options.output.as_os_str() == "-" {
        std::io::stdout().write_all(html.as_bytes()).context("cannot write the page to stdout")?;
    } else {
        write(&options.output, &html).with_context(|| {
            let path = options.output.display();
            format!("cannot write {path}: give a file in a directory that you may write to with -o, or - for stdout")
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// There as a whole or not at all: whoever looks at the file meanwhile sees the one before.
fn write(path: &Path, html: &str) -> std::io::Result<()> {
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
