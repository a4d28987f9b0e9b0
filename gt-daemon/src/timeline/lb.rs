//! What the load balancer's artifacts tell of the pod in a drain: which of its servers the pod is, when it was DOWN, and which
//! sessions it cut.

use std::collections::BTreeSet;

use super::{
    drains::Drain,
    evidence::Evidence,
    haproxy_log::{Change, Session},
    haproxy_stats::Look,
};
use crate::{
    drain::fact::{Fact, Timed},
    lb::word::Serving,
};

/// How far the log's instant and a look at the statistics may be apart, microseconds.
pub(super) const SLACK: i64 = 1_000_000;

/// The pod's servers, and all that is told of them.
#[derive(Debug, Default)]
pub struct Lb<'a> {
    pub servers: BTreeSet<&'a str>,
    /// In order of time.
    pub changes: Vec<&'a Change>,
    pub sessions: Vec<&'a Session>,
    /// By log and server, what each log tells of it.
    pub logs: Vec<Log<'a>>,
    pub retries: usize,
    /// By server.
    pub looks: Vec<(&'a str, &'a [Look])>,
    pub log_is_whole: bool,
    pub looks_are_whole: bool,
    /// Requests in the drain that HAProxy answered with an error of a server's kind (5xx), without one being cut.
    pub refused: u64,
    /// Requests in the drain that HAProxy gave up by a time limit of its own, and answered with such an error.
    pub timed_out: u64,
}

/// What one log tells of one server in a drain: its own HAProxy's word, which accounts for nobody else's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    pub server: &'a str,
    /// Each DOWN, with the sessions it had then.
    pub downs: Vec<(i64, Option<u64>)>,
    /// When each session ended.
    pub ends: Vec<i64>,
}

/// When the pod was taken for DOWN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down<'a> {
    pub server: &'a str,
    pub ts: i64,
    /// The last look that found it up; `None` where the log has the instant.
    pub last_up: Option<i64>,
    /// Sessions it had then.
    pub sessions: Option<u64>,
    /// Whether an answer of hc was the reason, as far as one can tell; else nobody answered.
    pub by_answer: bool,
}

impl<'a> Lb<'a> {
    /// Picks what is about the pod: of several servers those that went DOWN in its drain.
    #[must_use]
    pub fn of(evidence: &'a Evidence, drain: &Drain<'_>) -> Self {
        let looks = || evidence.looks.iter().flat_map(|from| &from.told);
        let changes = || evidence.lb_log.iter().flat_map(|from| &from.told.changes);
        let named = evidence.lb_log.iter().flat_map(|from| from.told.ends.keys());
        let mut servers: BTreeSet<&str> = looks().map(|(server, _)| server.as_str()).collect();
        servers.extend(changes().map(|change| change.server.as_str()));
        servers.extend(named.map(String::as_str).filter(|server| !server.ends_with("/<NOSRV>")));
        if servers.len() > 1 && drain.begun.is_some() {
            let in_log = changes().filter(|change| !change.up && is_in(drain, change.ts));
            let mut downs: Vec<(&str, bool)> =
                in_log.map(|change| (change.server.as_str(), change.by_answer)).collect();
            for (server, looks) in looks() {
                let in_looks = went_down(looks).filter(|(_, look)| is_in(drain, look.ts));
                downs.extend(in_looks.map(|(_, look)| (server.as_str(), look.by_answer)));
            }
            // One that nobody answered for may be another's that was not there yet, or not any more.
            let answered = downs.iter().any(|(_, by_answer)| *by_answer);
            let is_ours = |server: &str| downs.contains(&(server, answered));
            servers.retain(|server| is_ours(server));
        }
        let until = up_again(evidence, drain, &servers);
        let drain = &Drain { until, ..drain.clone() };
        let mut lb = Self {
            log_is_whole: !evidence.lb_log.is_empty() && evidence.lb_log.iter().all(|from| from.whole),
            looks_are_whole: !evidence.looks.is_empty() && evidence.looks.iter().all(|from| from.whole),
            looks: looks()
                .filter(|(server, _)| servers.contains(server.as_str()))
                .map(|(server, looks)| (server.as_str(), within(looks, drain)))
                .collect(),
            ..Self::default()
        };
        let is_ours = |server: &str, ts: i64| servers.contains(server) && drain.has(ts);
        lb.changes.extend(changes().filter(|change| is_ours(&change.server, change.ts)));
        lb.changes.sort_by_key(|change| change.ts);
        for told in evidence.lb_log.iter().map(|from| &from.told) {
            lb.sessions
                .extend(told.sessions.iter().filter(|one| is_ours(&one.server, one.ts) && one.is_cut()));
            let is_error = |one: &&Session| {
                let is_in = one.ts < drain.until && drain.begun.is_none_or(|begun| one.ts >= begun);
                is_in && one.status.is_some_and(|status| status >= 500)
            };
            let errors = || told.sessions.iter().filter(is_error);
            lb.refused += errors().filter(|one| !one.is_cut()).count() as u64;
            let is_timeout =
                |one: &&Session| one.is_cut() && one.who == 's' && servers.contains(one.server.as_str());
            lb.timed_out += errors().filter(is_timeout).count() as u64;
            for server in &servers {
                let downs =
                    told.changes.iter().filter(|one| !one.up && one.server == *server && drain.has(one.ts));
                let ends = told.ends.get(*server).into_iter().flatten().filter(|ts| drain.has(**ts));
                let log = Log {
                    server,
                    downs: downs.map(|down| (down.ts, down.sessions)).collect(),
                    ends: ends.copied().collect(),
                };
                lb.logs.extend((!log.downs.is_empty() || !log.ends.is_empty()).then_some(log));
            }
            for (server, tries) in &told.retries {
                lb.retries += tries.iter().filter(|ts| is_ours(server, **ts)).count();
            }
        }
        lb.sessions.sort_by_key(|session| (session.ts, session.who, session.phase));
        lb.servers = servers;
        lb
    }

    /// The first DOWN of each server since an instant: from the log, or else between two looks.
    #[must_use]
    pub fn downs(&self, since: i64) -> Vec<Down<'a>> {
        let mut downs: Vec<Down<'a>> = Vec::new();
        for change in self.changes.iter().filter(|change| !change.up && change.ts >= since) {
            if downs.iter().all(|down| down.server != change.server) {
                downs.push(Down {
                    server: &change.server,
                    ts: change.ts,
                    last_up: None,
                    sessions: change.sessions,
                    by_answer: change.by_answer,
                });
            }
        }
        for (server, looks) in &self.looks {
            let first = went_down(looks).find(|(_, look)| look.ts >= since);
            if let Some((last_up, look)) = first
                && downs.iter().all(|down| down.server != *server)
            {
                let by_answer = look.by_answer;
                downs.push(Down { server, ts: look.ts, last_up: Some(last_up), sessions: None, by_answer });
            }
        }
        downs.sort_by_key(|down| (down.ts, down.server));
        downs
    }

    /// When one of the servers was last seen to come UP before an instant.
    #[must_use]
    pub fn last_up(&self, until: i64) -> Option<i64> {
        let logged = self.changes.iter().filter(|change| change.up).map(|change| change.ts);
        let looked = self.looks.iter().flat_map(|(_, looks)| came_up(looks)).map(|look| look.ts);
        logged.chain(looked).filter(|ts| *ts < until).max()
    }

    /// What it said and did, as facts.
    #[must_use]
    pub fn facts(&self, since: i64) -> Vec<Timed> {
        let mut facts = Vec::new();
        for (server, looks) in &self.looks {
            let mut last = None;
            for look in *looks {
                if last.replace((&look.status, look.serving)) != Some((&look.status, look.serving)) {
                    let (status, serving) = (Some(look.status.clone()), look.serving);
                    facts.push(Timed {
                        ts: look.ts,
                        fact: Fact::LbStatus { server: (*server).to_owned(), status, serving },
                    });
                }
            }
        }
        let logged = self.changes.iter().filter(|_| self.looks.is_empty());
        facts.extend(logged.map(|change| {
            let (status, serving) = if change.up { ("UP", Serving::Up) } else { ("DOWN", Serving::Down) };
            let server = change.server.clone();
            Timed {
                ts: change.ts,
                fact: Fact::LbStatus { server, status: Some(status.to_owned()), serving: Some(serving) },
            }
        }));
        facts.extend(self.downs(since).into_iter().map(|down| Timed {
            ts: down.ts,
            fact: Fact::HaproxyBackendDown {
                server: down.server.to_owned(),
                last_up: down.last_up,
                predicted: false,
            },
        }));
        facts
    }
}

/// When a server is UP again after its DOWN in a drain: from then on it is another pod's. Else where the drain's time ends.
fn up_again(evidence: &Evidence, drain: &Drain<'_>, servers: &BTreeSet<&str>) -> i64 {
    let logged = evidence.lb_log.iter().flat_map(|from| &from.told.changes);
    let mut seen: Vec<(i64, bool)> = logged
        .filter(|change| servers.contains(change.server.as_str()))
        .map(|change| (change.ts, change.up))
        .collect();
    for (server, looks) in evidence.looks.iter().flat_map(|from| &from.told) {
        if servers.contains(server.as_str()) {
            seen.extend(went_down(looks).map(|(_, look)| (look.ts, false)));
            seen.extend(came_up(looks).map(|look| (look.ts, true)));
        }
    }
    seen.sort_unstable();
    let since = seen.iter().skip_while(|(ts, up)| *up || !is_in(drain, *ts));
    let up = since.filter(|(_, up)| *up).map(|(ts, _)| *ts).next();
    up.map_or(drain.until, |up| up.min(drain.until))
}

/// Whether a DOWN belongs to a drain: the LB turns away after it began.
fn is_in(drain: &Drain<'_>, ts: i64) -> bool {
    ts < drain.until && drain.begun.is_none_or(|begun| ts >= begun.saturating_sub(SLACK))
}

/// Looks at which a server is DOWN that was not before, with when it was last seen so.
fn went_down(looks: &[Look]) -> impl Iterator<Item = (i64, &Look)> {
    looks.windows(2).filter_map(|pair| match pair {
        [before, after]
            if before.serving.is_some_and(|was| was != Serving::Down)
                && after.serving == Some(Serving::Down) =>
        {
            Some((before.ts, after))
        }
        _ => None,
    })
}

/// Looks at which a server is UP that was DOWN before.
fn came_up(looks: &[Look]) -> impl Iterator<Item = &Look> {
    looks.windows(2).filter_map(|pair| match pair {
        [before, after] if before.serving == Some(Serving::Down) && after.serving == Some(Serving::Up) => {
            Some(after)
        }
        _ => None,
    })
}

/// Those in a drain, with the last one before it.
fn within<'a>(looks: &'a [Look], drain: &Drain<'_>) -> &'a [Look] {
    let begun = drain.begun.unwrap_or(i64::MIN);
    let first = looks.partition_point(|look| look.ts < begun.saturating_sub(5_000_000)).saturating_sub(1);
    let end = looks.partition_point(|look| look.ts < drain.until);
    looks.get(first..end).unwrap_or_default()
}
