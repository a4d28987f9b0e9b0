//! Everything the artifacts of one run tell, each by its own clock set right.

use std::{
    fs::File,
    io::{self, BufReader},
};

use super::{
    clients::{self, Seen},
    envoy_active::{self, Active},
    envoy_counters::{self, Counts},
    envoy_log::{self, Cut},
    haproxy_log::{self, Told},
    haproxy_stats::{self, Looks},
    hc_log::{self, Life},
    inputs::{Artifact, InputError, Kind},
    note::{Note, Notes},
    run_log::{self, Done},
    wire::table::{self, Ports, Table},
};
use crate::hc::names::Names;

/// What a file told, and whether nothing of it is lost.
#[derive(Clone, Debug)]
pub struct From<T> {
    pub file: String,
    pub told: T,
    pub whole: bool,
}

/// How artifacts are read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub names: Names,
    pub ports: Ports,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Evidence {
    pub lives: Vec<From<Vec<Life>>>,
    pub active: Vec<From<Active>>,
    pub envoy_cuts: Vec<From<Vec<Cut>>>,
    pub before: Vec<From<Option<Counts>>>,
    pub after: Vec<From<Option<Counts>>>,
    pub looks: Vec<From<Looks>>,
    pub lb_log: Vec<From<Told>>,
    pub captures: Vec<From<Table>>,
    pub clients: Vec<From<Seen>>,
    pub done: Done,
    pub notes: Vec<Note>,
}

/// Reads the files. What is wrong with their contents is a note; that one cannot be read is an error.
pub fn read(artifacts: &[Artifact], settings: &Settings) -> Result<Evidence, InputError> {
    let mut evidence = Evidence::default();
    for artifact in artifacts {
        let wrong = |cause| InputError::Unreadable { path: artifact.path.clone(), cause };
        let file = File::open(&artifact.path).map_err(wrong)?;
        let mut notes = Notes::on(&artifact.name);
        evidence.take(artifact, BufReader::new(file), settings, &mut notes).map_err(wrong)?;
        evidence.notes.extend(notes.list());
    }
    Ok(evidence)
}

impl Evidence {
    fn take(
        &mut self,
        artifact: &Artifact,
        file: BufReader<File>,
        settings: &Settings,
        notes: &mut Notes,
    ) -> io::Result<()> {
        let ahead = artifact.ahead;
        let right = |ts: &mut i64| *ts = ts.saturating_sub(ahead);
        match artifact.kind {
            Kind::Hc => {
                let mut lives = hc_log::read(file, &settings.names, notes)?;
                for life in &mut lives {
                    life.changes.iter_mut().for_each(|(ts, ..)| right(ts));
                    life.answers.iter_mut().for_each(|(ts, _)| right(ts));
                    life.listeners.iter_mut().for_each(right);
                    right(&mut life.first);
                    right(&mut life.last);
                }
                self.lives.push(from(artifact, lives, notes));
            }
            Kind::EnvoyActive => {
                let mut active = envoy_active::read(file, notes)?;
                active.changes.iter_mut().for_each(|(ts, ..)| right(ts));
                active.first.iter_mut().chain(&mut active.last).for_each(right);
                self.active.push(from(artifact, active, notes));
            }
            Kind::EnvoyLog => {
                let mut cuts = envoy_log::read(file, notes)?;
                cuts.iter_mut().for_each(|cut| right(&mut cut.ts));
                self.envoy_cuts.push(from(artifact, cuts, notes));
            }
            Kind::EnvoyBefore => {
                let counts = envoy_counters::read(file, notes)?;
                self.before.push(from(artifact, counts, notes));
            }
            Kind::EnvoyAfter => {
                let counts = envoy_counters::read(file, notes)?;
                self.after.push(from(artifact, counts, notes));
            }
            Kind::HaproxyStats => {
                let mut looks = haproxy_stats::read(file, notes)?;
                looks.values_mut().flatten().for_each(|look| right(&mut look.ts));
                self.looks.push(from(artifact, looks, notes));
            }
            Kind::HaproxyLog => {
                let mut told = haproxy_log::read(file, notes)?;
                told.changes.iter_mut().for_each(|change| right(&mut change.ts));
                told.sessions.iter_mut().for_each(|session| right(&mut session.ts));
                told.ends.values_mut().chain(told.retries.values_mut()).flatten().for_each(right);
                self.lb_log.push(from(artifact, told, notes));
            }
            Kind::Capture => {
                let mut table = table::read(file, &settings.ports, notes);
                table.shift(ahead);
                self.captures.push(from(artifact, table, notes));
            }
            Kind::Clients => {
                let mut seen = clients::read(file, notes)?;
                seen.failures.iter_mut().flat_map(|failure| &mut failure.ts).for_each(right);
                self.clients.push(from(artifact, seen, notes));
            }
            Kind::Run => {
                let mut done = run_log::read(file, notes)?;
                done.killed.iter_mut().for_each(right);
                done.deleted.iter_mut().for_each(|(ts, _)| right(ts));
                self.done.killed.extend(done.killed);
                self.done.deleted.extend(done.deleted);
            }
            Kind::Record => {}
        }
        Ok(())
    }
}

fn from<T>(artifact: &Artifact, told: T, notes: &Notes) -> From<T> {
    From { file: artifact.name.clone(), told, whole: notes.is_whole() }
}
