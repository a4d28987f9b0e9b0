//! A drain's record as the messages that a console would have got. Pure but for the name, which stands beside the facts.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context as _;

use crate::{
    api::message::{HcStatus, Message, PodStatus, Word},
    drain::{
        fact::{Fact, Timed, Way, stamp},
        intervals::intervals,
        record::{Record, Summary},
        store::INTERVALS,
    },
};

/// Whose record it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// What the daemon made of the facts.
    pub summary: Option<Summary>,
}

impl Named {
    /// By the `intervals.json` beside a timeline, else by the directory's name (`STAMP_NAMESPACE_POD_UID`).
    pub fn beside(timeline: &Path) -> anyhow::Result<Self> {
        let intervals = timeline.with_file_name(INTERVALS);
        if let Ok(text) = fs::read(&intervals) {
            let summary: Summary = serde_json::from_slice(&text).with_context(|| {
                format!(
                    "{} is not what gt writes beside a timeline; copy the record again, or remove that file",
                    intervals.display()
                )
            })?;
            let Summary { namespace, pod, uid, .. } = summary.clone();
            return Ok(Self { namespace, pod, uid, summary: Some(summary) });
        }
        let absolute = fs::canonicalize(timeline).unwrap_or_else(|_| timeline.to_owned());
        let directory =
            absolute.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let parts: Vec<&str> = directory.as_deref().unwrap_or_default().splitn(4, '_').skip(1).collect();
        let part = |place: usize| parts.get(place).map_or("unknown", |part| *part).to_owned();
        Ok(Self { namespace: part(0), pod: part(1), uid: part(2), summary: None })
    }
}

/// The messages, in order: a greeting, each fact with how the pod was after it, and the verdict.
#[must_use]
pub fn messages(named: &Named, mut facts: Vec<Timed>) -> Vec<Message> {
    facts.sort();
    let record = Record::of(&named.namespace, &named.pod, &named.uid, facts.clone(), 0);
    let begun = record.as_ref().and_then(Record::begun);
    let first = facts.first().map_or(0, |fact| fact.ts);
    let mut messages =
        vec![Message::Hello { node: None, version: env!("CARGO_PKG_VERSION").to_owned(), now: stamp(first) }];
    let mut after = After::new(named);
    for (place, timed) in facts.iter().enumerate() {
        messages.push(Message::Fact {
            namespace: named.namespace.clone(),
            pod: named.pod.clone(),
            uid: named.uid.clone(),
            word: Word::Told,
            fact: timed.clone(),
        });
        if after.changed(timed, begun) {
            after.status.intervals = intervals(facts.get(..=place).unwrap_or_default());
        }
        messages.push(Message::Pod(Box::new(after.status.clone())));
    }
    // The daemon knew what it left out; else the facts are all there is.
    let summary = named.summary.clone().or_else(|| record.map(|record| record.summary()));
    messages.extend(summary.map(|summary| Message::Verdict(Box::new(summary))));
    messages
}

/// How a pod was, by its facts.
struct After {
    status: PodStatus,
    cut: BTreeSet<u64>,
}

impl After {
    fn new(named: &Named) -> Self {
        let status = PodStatus {
            namespace: named.namespace.clone(),
            pod: named.pod.clone(),
            uid: named.uid.clone(),
            ..PodStatus::default()
        };
        Self { status, cut: BTreeSet::new() }
    }

    /// Takes a fact in; `true` when the intervals may be others now.
    fn changed(&mut self, Timed { ts, fact }: &Timed, begun: Option<i64>) -> bool {
        let status = &mut self.status;
        status.now = stamp(*ts);
        status.drain_began = begun.filter(|begun| begun <= ts).map(stamp);
        match fact {
            Fact::HcState { to, lb_told, .. } => {
                status.hc = Some(HcStatus { state: *to, since: Some(stamp(*ts)), lb_told: *lb_told });
                false
            }
            Fact::EnvoyActiveCount { downstream, upstream } => {
                let was_zero = status.intervals.drain_to_active_zero.is_some();
                (status.downstream, status.upstream) = (*downstream, *upstream);
                was_zero || (*downstream, *upstream) == (Some(0), Some(0))
            }
            Fact::TcpTeardown(end) => {
                let is_new = end.connection.is_none_or(|connection| !self.cut.contains(&connection));
                if end.is_cut() && is_new {
                    status.cuts = status.cuts.saturating_add(end.count);
                    self.cut.extend(end.connection);
                }
                false
            }
            Fact::TcpRst { direction, .. } => {
                let rsts = match direction {
                    Way::Sent => &mut status.rsts_sent,
                    Way::Received => &mut status.rsts_received,
                };
                *rsts = rsts.saturating_add(1);
                status.intervals.lb_down_to_first_rst.is_none()
            }
            Fact::HaproxyBackendDown { .. } => true,
            Fact::PodGone => {
                status.gone = true;
                false
            }
            _ => false,
        }
    }
}
