//! `gt-daemon timeline`: one timeline and its verdict from what a run has left behind.
//!
//! [`inputs`] finds the artifacts; each kind has a reader of its own ([`hc_log`], [`envoy_active`], [`envoy_log`],
//! [`envoy_counters`], [`haproxy_stats`], [`haproxy_log`], [`wire`], [`clients`], [`run_log`]); [`evidence`] is what they tell.
//! [`drains`] says which drains there were, [`lb`] what the LB did in one, [`join`] makes the ends of connections of all
//! witnesses into one list ([`items`]) and asks for an account of every request ([`accounts`]). The facts and the verdict are
//! those of [`crate::drain`]; [`gaps`] is what was not seen. gt's own records are read by [`gt_records`]; [`output`] tells.
//!
//! Owns: what artifacts prove. Refuses: to call a drain protected by what they do not show.

pub mod accounts;
pub mod clients;
pub mod drains;
pub mod envoy_active;
pub mod envoy_counters;
pub mod envoy_log;
pub mod evidence;
pub mod gaps;
pub mod gt_records;
pub mod haproxy_log;
pub mod haproxy_stats;
pub mod hc_log;
pub mod inputs;
pub mod items;
pub mod join;
pub mod lb;
mod lines;
pub mod note;
pub mod output;
pub mod run_log;
mod stamped;
pub mod wire;

#[cfg(test)]
mod account_attacks;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;

use std::{
    io::{self, ErrorKind, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};

use crate::{
    drain::record::Record,
    hc::names::{Alias, Names},
};
use evidence::Settings;
use inputs::{Found, InputError, Offset};
use note::Note;
use wire::table::Ports;

/// What is read, and how.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A directory of artifacts or of gt's records, or the files themselves.
    #[arg(required = true, value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Write timeline.jsonl and intervals.json into this directory, of several drains into one each below it.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The clock of a host was ahead (+) or behind (-): HOST=+0.120s, for files that begin with its name or lie in its directory.
    #[arg(long, value_name = "HOST=+S", allow_hyphen_values = true)]
    pub offset: Vec<Offset>,
    /// Print what intervals.json holds, a line a drain, instead of words.
    #[arg(long)]
    pub json: bool,
    /// Another word for a state of the health sidecar: STOPPED=CLOSED.
    #[arg(long, value_delimiter = ',')]
    pub hc_alias: Vec<Alias>,
    /// Ports of the pod that serve health checks.
    #[arg(long, value_delimiter = ',', default_value = "18180,15021")]
    pub health_ports: Vec<u16>,
    /// Ports of the pod that serve administration.
    #[arg(long, value_delimiter = ',', default_value = "15000,15020,15090")]
    pub admin_ports: Vec<u16>,
}

/// Reads, judges, tells. The exit code is the verdict's: 0 protected, 2 broken, 3 inconclusive.
pub fn timeline(options: &Options) -> Result<ExitCode> {
    let (records, notes) = read(options)?;
    let text = if options.json {
        output::json(&records).context("cannot write JSON")?
    } else {
        output::words(&records)
    };
    io::stderr()
        .write_all(output::notes(&notes).as_bytes())
        .or_else(closed)
        .context("cannot write to stderr")?;
    if let Some(directory) = &options.output {
        output::write(directory, &records)?;
    }
    io::stdout().write_all(text.as_bytes()).or_else(closed).context("cannot write to stdout")?;
    Ok(ExitCode::from(join::worst(&records) as u8))
}

/// The records of all drains that the paths tell of, and what was wrong with the files.
pub fn read(options: &Options) -> Result<(Vec<Record>, Vec<Note>), InputError> {
    let settings = Settings {
        names: Names::default().with(options.hc_alias.iter().cloned()),
        ports: Ports {
            health: options.health_ports.iter().copied().collect(),
            admin: options.admin_ports.iter().copied().collect(),
        },
    };
    let (mut records, mut notes) = (Vec::new(), Vec::new());
    for found in inputs::find(&options.paths, &options.offset)? {
        match found {
            Found::Artifacts(artifacts) => {
                let evidence = evidence::read(&artifacts, &settings)?;
                records.extend(join::records(&evidence));
                notes.extend(evidence.notes);
            }
            Found::Unread(artifacts) => notes.extend(artifacts.iter().map(Note::unread)),
            Found::Records(artifacts) => {
                for artifact in &artifacts {
                    let (record, of_it) = gt_records::read(artifact)?;
                    records.push(record);
                    notes.extend(of_it);
                }
            }
        }
    }
    Ok((records, notes))
}

/// Whoever reads has had enough.
fn closed(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}
