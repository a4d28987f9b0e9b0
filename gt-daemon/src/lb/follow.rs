//! What looks at an LB tell of one pod: what changed, and between which instants. Pure.

use std::{collections::BTreeMap, sync::Arc};

use super::{reader::Look, row::Row, word::Serving};

/// Something that an LB said of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// UTC, microseconds.
    pub ts: i64,
    /// What tells servers apart: `BACKEND/SERVER`, after the LB's name where several are read.
    pub server: String,
    pub what: What,
}

/// What it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Its word, when that changed; `None` for a server that it has no longer.
    Status { status: Option<String>, serving: Option<Serving> },
    /// It took the pod for down. `last_up`: the last instant at which it is known to have served; `None` where the stamp is the
    /// LB's own.
    Down { last_up: Option<i64> },
}

/// Servers of one pod that are told apart; the rest is left out.
const MOST: usize = 16;

/// A second, which is what HAProxy counts in.
const SECOND: i64 = 1_000_000;

/// The last words on one pod.
#[derive(Clone, Debug, Default)]
pub struct Words {
    servers: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    lb: Arc<str>,
    status: Option<String>,
    serving: Option<Serving>,
    /// When it was last asked and answered that it served, UTC microseconds.
    served: Option<i64>,
    downtime_s: Option<f64>,
}

impl Words {
    /// Takes in a look at an LB, of which `rows` are the pod's. `prefix` comes before names of servers.
    pub fn look(&mut self, lb: &Arc<str>, prefix: &str, rows: &[&Row], look: &Look) -> Vec<Said> {
        let mut said = Vec::new();
        for row in rows {
            let server = format!("{prefix}{}", row.name());
            if self.servers.len() >= MOST && !self.servers.contains_key(&server) {
                continue;
            }
            let known = self.servers.entry(server.clone()).or_default();
            known.lb = Arc::clone(lb);
            said.extend(known.look(row, look).into_iter().map(|(ts, what)| Said {
                ts,
                server: server.clone(),
                what,
            }));
        }
        let is_listed =
            |server: &str| rows.iter().any(|row| server.strip_prefix(prefix) == Some(&row.name()));
        for (server, known) in
            self.servers.iter_mut().filter(|(server, known)| known.lb == *lb && !is_listed(server))
        {
            if known.status.take().is_some() {
                known.serving = None;
                let what = What::Status { status: None, serving: None };
                said.push(Said { ts: look.answered.utc_us, server: server.clone(), what });
            }
        }
        said
    }

    /// Takes in a word that the LB brought itself, with its own instant.
    pub fn note(&mut self, server: &str, status: &str, at: i64) -> Vec<Said> {
        let serving = Serving::of(status);
        if self.servers.len() < MOST || self.servers.contains_key(server) {
            let known = self.servers.entry(server.to_owned()).or_default();
            (known.status, known.serving) = (Some(status.to_owned()), serving);
        }
        let status = What::Status { status: Some(status.to_owned()), serving };
        let down = (serving == Some(Serving::Down)).then_some(What::Down { last_up: None });
        let said = |what| Said { ts: at, server: server.to_owned(), what };
        [Some(status), down].into_iter().flatten().map(said).collect()
    }

    /// What all of them together do now: up when one is; `None` where none can be told.
    #[must_use]
    pub fn serving(&self) -> Option<Serving> {
        self.servers.values().filter_map(|known| known.serving).min()
    }
}

impl Known {
    fn look(&mut self, row: &Row, look: &Look) -> Vec<(i64, What)> {
        let (asked, answered) = (look.asked.utc_us, look.answered.utc_us);
        // The old exporter has one number for DOWN and for UP 1/2: the time in DOWN tells.
        let has_grown = self.downtime_s.zip(row.downtime_s).is_some_and(|(before, now)| now > before);
        let serving = row.serving.or_else(|| has_grown.then_some(Serving::Down)).or_else(|| {
            // It stays so until it says another word.
            (self.status.as_ref() == Some(&row.status)).then_some(self.serving).flatten()
        });
        let mut said = Vec::new();
        if (self.status.as_ref(), self.serving) != (Some(&row.status), serving) {
            said.push((answered, What::Status { status: Some(row.status.clone()), serving }));
        }
        if serving == Some(Serving::Down) && self.serving != Some(Serving::Down) {
            let since = row.since_s.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(SECOND));
            match (self.served, since) {
                (Some(last_up), _) => said.push((answered, What::Down { last_up: Some(last_up) })),
                // Down when it was first asked: it tells since when, with an error of a second to either side.
                (None, Some(since)) => {
                    let ts = answered.saturating_sub(since.saturating_sub(SECOND).max(0));
                    let last_up = asked.saturating_sub(since).saturating_sub(SECOND);
                    said.push((ts, What::Down { last_up: Some(last_up) }));
                }
                (None, None) => {}
            }
        }
        if matches!(serving, Some(Serving::Up | Serving::NoNew)) {
            self.served = Some(asked);
        }
        (self.status, self.serving, self.downtime_s) = (Some(row.status.clone()), serving, row.downtime_s);
        said
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
