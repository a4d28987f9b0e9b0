//! `gt-daemon report`: the page of a drain as a file.

use std::{
    fs,
    io::Write as _,
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
        std::io::stdout().write_all(html.as_bytes()).context("cannot write the page to stdout")?;
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
