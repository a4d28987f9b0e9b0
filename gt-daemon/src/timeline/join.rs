//! From what the artifacts tell of one drain to its record. Pure: the order of files and lines changes nothing.
//!
//! Ends come from captures; Envoy's and HAProxy's words decide what the bytes do not tell, and add what no capture shows. That
//! nothing was cut is taken only from an account of every request ([`accounts`](super::accounts)).

use super::{
    accounts,
    drains::{Drain, hc_facts},
    evidence::Evidence,
    gaps::gaps,
    items::{Item, Items, Witness},
    lb::{Lb, SLACK},
    wire::conversation::{Conversation, Phase},
};
use crate::{
    correlate::{
        cause::{Cause, cause},
        torn::{Ending, Proof},
    },
    drain::{
        fact::{Fact, Timed, Way},
        facts::Facts,
        record::Record,
        verdict::Outcome,
    },
    lb::history::Held,
};

/// How far the clocks of one host and what its programs write may be apart, microseconds.
const WITHIN: i64 = 1_000_000;

/// A process that is killed has no connections any more after so long.
const KILLED: i64 = 2_000_000;

/// The records of all drains in a run.
#[must_use]
pub fn records(evidence: &Evidence) -> Vec<Record> {
    Drain::all(evidence).iter().map(|drain| record(evidence, drain)).collect()
}

fn record(evidence: &Evidence, drain: &Drain<'_>) -> Record {
    let lb = Lb::of(evidence, drain);
    let ends = ends(evidence, drain, &lb);
    let (mut items, mut facts) = (ends.items, ends.rsts);
    let since = drain.begun.unwrap_or(i64::MIN);
    let account = accounts::settle(evidence, drain, &lb, &ends.users, &mut items);
    facts.extend(items.facts());
    facts.extend(lb.facts(since.saturating_sub(SLACK)));
    if let Some(life) = drain.life {
        facts.extend(hc_facts(life).into_iter().map(|(ts, fact)| Timed { ts, fact }));
        facts.extend(life.listeners.map(|ts| Timed { ts, fact: Fact::EnvoyDrainListeners }));
    }
    for active in drain.files(&evidence.active) {
        facts.extend(active.told.changes.iter().map(|(ts, downstream, upstream)| Timed {
            ts: *ts,
            fact: Fact::EnvoyActiveCount { downstream: *downstream, upstream: *upstream },
        }));
    }
    facts.retain(|timed| drain.has(timed.ts));
    let ended = drain.begun.and_then(|begun| accounts::ended(evidence, drain, &lb, begun));
    facts.extend(ended.map(|ts| Timed { ts, fact: Fact::Ended }));
    let last = facts.iter().map(|timed| timed.ts).max().unwrap_or(0).max(since);
    let why = gaps(evidence, drain, &lb, &account, &items);
    facts.extend(
        why.into_iter()
            .map(|(source, why)| Timed { ts: last, fact: Fact::Gap { source, length_us: 0, why } }),
    );
    bounded(drain, facts, last)
}

/// Within the bounds that the daemon's records have.
fn bounded(drain: &Drain<'_>, all: Vec<Timed>, last: i64) -> Record {
    let mut facts = Facts::default();
    for timed in all {
        facts.add(timed);
    }
    let first = facts.first().unwrap_or(0);
    let pod = drain.pod.unwrap_or_default();
    let list = facts.list(drain.begun.unwrap_or(first), [], last);
    match drain.begun {
        Some(_) => Record::of("", pod, "", list.clone(), facts.left_out()),
        None => None,
    }
    .unwrap_or_else(|| Record::without_drain(pod, list, facts.left_out()))
}

struct Ends<'a> {
    items: Items,
    rsts: Vec<Timed>,
    users: Vec<&'a Conversation>,
}

/// Ends of connections and streams, by captures and by who tells of more.
fn ends<'a>(evidence: &'a Evidence, drain: &Drain<'_>, lb: &Lb<'_>) -> Ends<'a> {
    let users = conversations(evidence, drain);
    let blame = |ts: i64, ending: Ending| {
        let killed = evidence.done.killed.iter().any(|at| (-WITHIN / 10..=KILLED).contains(&(ts - at)));
        // What the LB's own words change in this is seen to where the record is judged.
        cause(ending, killed, drain.hc_at(ts), Held::Untold)
    };
    let (mut items, mut rsts) = (Vec::new(), Vec::new());
    for (number, one) in (1_u64..).zip(&users) {
        items.extend(one.resets.iter().map(|(ts, way)| {
            let ending = Ending::StreamReset;
            let by_peer = *way == Way::Received;
            let cause = if by_peer { blame(*ts, ending) } else { blame(*ts, Ending::FinSent) };
            Item {
                proof: Some(Proof::Socket),
                phase: None,
                protocol: Some("http2"),
                remote: Some(one.client),
                blamed: false,
                captured: true,
                ..Item::told(*ts, ending, cause)
            }
        }));
        let Some(end) = one.end else { continue };
        let is_cut = matches!(end.phase, Phase::Awaiting | Phase::Streaming);
        items.push(Item {
            proof: is_cut.then_some(Proof::Socket),
            sure: end.phase != Phase::Unknown,
            count: if one.protocol() == "http2" { end.in_flight.max(1) } else { 1 },
            connection: Some(number),
            phase: Some(end.phase.word()),
            protocol: Some(one.protocol()),
            remote: Some(one.client),
            blamed: false,
            captured: true,
            ..Item::told(end.ts, end.ending, blame(end.ts, end.ending))
        });
        rsts.extend(one.rst.map(|(ts, direction)| Timed {
            ts,
            fact: Fact::TcpRst { connection: Some(number), direction, in_flight: is_cut },
        }));
    }
    let mut items = Items::of(items, drain.begun);
    envoys(evidence, drain, &mut items, &blame);
    sessions(lb, &mut items, &blame);
    looks(lb, drain, &mut items);
    // Whether a request was in flight at an RST is known by now.
    for timed in &mut rsts {
        if let Fact::TcpRst { connection, in_flight, .. } = &mut timed.fact {
            *in_flight |= items.iter().any(|item| item.connection == *connection && item.is_cut());
        }
    }
    Ends { items, rsts, users }
}

/// The pod's connections of users, each once however many hosts captured it.
fn conversations<'a>(evidence: &'a Evidence, drain: &Drain<'_>) -> Vec<&'a Conversation> {
    let files = drain.files(&evidence.captures);
    let own: Vec<_> = files.iter().copied().filter(|from| is_pods(&from.file)).collect();
    // One that is damaged or empty may lack what another host saw.
    let is_enough = !own.is_empty() && own.iter().all(|from| from.whole && from.told.first.is_some());
    let mut files = if is_enough { own } else { files };
    files.sort_by_key(|from| (!from.whole, !is_pods(&from.file)));
    let mut all: Vec<&Conversation> = Vec::new();
    for from in files {
        for one in &from.told.conversations {
            let is_known = |known: &&Conversation| {
                (known.client, known.server) == (one.client, one.server)
                    && known.first.abs_diff(one.first) < 2 * WITHIN.unsigned_abs()
            };
            if drain.has(one.last) && !all.iter().any(is_known) {
                all.push(one);
            }
        }
    }
    all.sort_by_key(|one| (one.first, one.client, one.server));
    all
}

/// Whether a capture is the pod's own by its name: `pod.pcap`, `pod-eth0.pcap`.
fn is_pods(file: &str) -> bool {
    file.strip_prefix("pod").is_some_and(|rest| rest.starts_with(['.', '-', '_']))
}

/// What Envoy's access log shows as cut.
fn envoys(evidence: &Evidence, drain: &Drain<'_>, items: &mut Items, blame: &impl Fn(i64, Ending) -> Cause) {
    let mut cuts: Vec<_> =
        drain.files(&evidence.envoy_cuts).into_iter().flat_map(|from| &from.told).collect();
    cuts.retain(|cut| drain.has(cut.ts));
    cuts.sort_by_key(|cut| (cut.ts, cut.remote, cut.by_peer));
    for cut in cuts {
        let ending = if cut.http2 { Ending::StreamReset } else { Ending::Unseen };
        let cause = if cut.by_peer { blame(cut.ts, Ending::StreamReset) } else { Cause::Proxy };
        let told = Item { blamed: false, remote: cut.remote, ..Item::told(cut.ts, ending, cause) };
        items.claim(Witness::EnvoyLog, (cut.ts - WITHIN, cut.ts + WITHIN), told, |item| {
            cut.remote.is_none() || item.remote.is_none() || item.remote == cut.remote
        });
    }
}

/// What HAProxy's log shows as cut: it says itself who ended a session.
fn sessions(lb: &Lb<'_>, items: &mut Items, blame: &impl Fn(i64, Ending) -> Cause) {
    for session in &lb.sessions {
        let ts = session.ts;
        let (cause, sure) = match session.who {
            'D' | 'K' | 'U' => (Cause::LbFlush, true),
            'C' | 'c' => (Cause::ClientAbort, true),
            // Its own time limit: the other side of the pod gave up.
            's' => (blame(ts, Ending::FinReceived), true),
            'S' => (blame(ts, Ending::FinSent), true),
            _ => (Cause::Unknown, false),
        };
        let blamed = session.who != 's';
        // In TCP mode a session without a request ends in the same way.
        let sure = sure && session.status.is_some();
        let proof = if sure { Proof::L7 } else { Proof::Possible };
        let told = Item { proof: Some(proof), sure, blamed, ..Item::told(ts, Ending::Unseen, cause) };
        items.claim(Witness::LbLog, (ts - WITHIN, ts + WITHIN), told, |_| true);
    }
}

/// Answers that HAProxy counted as broken off between two looks.
fn looks(lb: &Lb<'_>, drain: &Drain<'_>, items: &mut Items) {
    for (_, looks) in &lb.looks {
        for pair in looks.windows(2) {
            let [before, after] = pair else { continue };
            let rise = after.broken.zip(before.broken).and_then(|(after, before)| after.checked_sub(before));
            for _ in 0..rise.unwrap_or(0).min(4_096) {
                let cause = match drain.hc_at(after.ts).shown_up() {
                    Some(false) => Cause::LbFlush,
                    Some(true) => Cause::Proxy,
                    None => Cause::Unknown,
                };
                let told = Item { blamed: false, ..Item::told(after.ts, Ending::Unseen, cause) };
                items.claim(Witness::LbLooks, (before.ts - WITHIN, after.ts + WITHIN), told, |item| {
                    item.cause != Cause::ClientAbort || !item.blamed
                });
            }
        }
    }
}

/// The verdict over several drains: the worst of them.
#[must_use]
pub fn worst(records: &[Record]) -> Outcome {
    let outcomes: Vec<_> = records.iter().map(Record::outcome).collect();
    match () {
        () if outcomes.contains(&Outcome::Broken) => Outcome::Broken,
        () if outcomes.contains(&Outcome::Inconclusive) || outcomes.is_empty() => Outcome::Inconclusive,
        () => Outcome::Protected,
    }
}
