//! What looks at an LB tell of one pod: what changed, and between which instants. Pure.

use std::{collections::BTreeMap, sync::Arc};

use super::{known::Known, reader::Look, row::Row, word::Serving};

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
    /// Its word, when that changed; `None` from when it is not known to serve, since it is not heard or has that server no longer.
    Status { status: Option<String>, serving: Option<Serving> },
    /// It took the pod for down. `last_up`: the last instant at which it is known to have served; `None` where the stamp is the
    /// LB's own.
    Down { last_up: Option<i64> },
}

/// Servers of one pod that are told apart: what the rest does is not known.
const MOST: usize = 48;

/// The name of the rest.
const REST: &str = "further servers";

/// An LB that served when it was last asked, and is not heard for so long, may have turned away meanwhile: microseconds. A
/// drain's record waits longer than this for late words.
pub const UNHEARD: i64 = 5_000_000;

/// The last words on one pod.
#[derive(Clone, Debug, Default)]
pub struct Words {
    servers: BTreeMap<String, Known>,
}

impl Words {
    /// Takes in a look at an LB, of which `rows` are the pod's. `prefix` comes before names of servers.
    pub fn look(&mut self, lb: &Arc<str>, prefix: &str, rows: &[&Row], look: &Look) -> Vec<Said> {
        let mut said = Vec::new();
        let mut listed = BTreeMap::new();
        for row in rows {
            let server = format!("{prefix}{}", row.name());
            let is_told_apart = self.servers.len() < MOST || self.servers.contains_key(&server);
            let (server, row) = if is_told_apart {
                (server, (*row).clone())
            } else {
                (format!("{prefix}{REST}"), Row { serving: None, ..Row::new("", REST, REST) })
            };
            // Two of one name that do not say the same: which of them it is cannot be told.
            let row = match listed.remove(&server) {
                Some(other) if other != row => unlike(&other, &row),
                _ => row,
            };
            if is_told_apart {
                // Its place is taken from now on.
                self.servers.entry(server.clone()).or_default();
            }
            listed.insert(server, row);
        }
        for (server, row) in &listed {
            let known = self.servers.entry(server.clone()).or_default();
            known.lb = Arc::clone(lb);
            said.extend(known.look(row, look).into_iter().map(|(ts, what)| Said {
                ts,
                server: server.clone(),
                what,
            }));
        }
        let is_missing = |server: &str, known: &Known| known.lb == *lb && !listed.contains_key(server);
        for (server, known) in self.servers.iter_mut().filter(|(server, known)| is_missing(server, known)) {
            let unknown = known.unknown();
            // One that did not serve is not known to stay so from now on.
            let gone = known.status.take().map(|_| {
                known.serving = None;
                (look.answered.utc_us, What::Status { status: None, serving: None })
            });
            said.extend(unknown.or(gone).map(|(ts, what)| Said { ts, server: server.clone(), what }));
        }
        said
    }

    /// Lets time pass, now in UTC microseconds: of LBs that are not heard any more it is not known that they serve.
    pub fn unheard(&mut self, now: i64) -> Vec<Said> {
        let since = now.saturating_sub(UNHEARD);
        let unheard = self.servers.iter_mut().filter(|(_, known)| known.is_unheard(since));
        let said = |(server, known): (&String, &mut Known)| {
            known.unknown().map(|(ts, what)| Said { ts, server: server.clone(), what })
        };
        unheard.filter_map(said).collect()
    }

    /// Takes in a word that the LB brought itself, with its own instant.
    pub fn note(&mut self, server: &str, status: &str, at: i64) -> Vec<Said> {
        let serving = Serving::of(status);
        if self.servers.len() < MOST || self.servers.contains_key(server) {
            let known = self.servers.entry(server.to_owned()).or_default();
            known.note(status, serving);
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

/// Two rows of one name as one.
fn unlike(one: &Row, other: &Row) -> Row {
    let status = if one.status == other.status {
        one.status.clone()
    } else {
        format!("{} and {}", one.status, other.status)
    };
    let serving = one.serving.filter(|_| one.serving == other.serving);
    Row { serving, ..Row::new(&one.backend, &one.server, &status) }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
