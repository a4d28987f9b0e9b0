//! What a round must leave behind, and in what the witnesses disagree with it and with one another. Pure.

use std::{collections::BTreeMap, ops::RangeInclusive};

use xtask::stage::{counts::by, wire::End};

use crate::record::Record;

/// A round's outcome.
#[derive(Clone, Debug)]
pub struct Expected {
    /// HAProxy's sessions: the state they all end in, and their number.
    pub sessions: (&'static str, u64),
    /// What Envoy counts; `None` where it is gone and cannot judge.
    pub envoy: Option<Requests>,
    /// Connections that end on the wire, and how they may begin to.
    pub ended: RangeInclusive<u64>,
    pub ends: &'static [End],
    /// What gt has to count; `None` for no cut.
    pub cut: Option<Cut>,
}

/// Requests as Envoy counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    pub http1: u64,
    pub http2: u64,
    /// Those that the peer ended before their answer was whole, with their connection (HTTP/1.1) or without (HTTP/2).
    pub cut: u64,
}

impl Requests {
    /// The counters' growth, one for each name in [`ENVOY`](crate::record::ENVOY).
    fn counters(self) -> BTreeMap<&'static str, u64> {
        let Self { http1, http2, cut } = self;
        BTreeMap::from([
            ("downstream_cx_destroy_remote_active_rq", if http2 == 0 { cut } else { 0 }),
            ("downstream_cx_destroy_local_active_rq", 0),
            ("downstream_rq_rx_reset", cut),
            ("downstream_rq_total", http1 + http2),
            ("downstream_rq_http2_total", http2),
        ])
    }
}

/// The cuts of a round. All have the same labels but `how`.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub count: u64,
    pub how: How,
    pub cause: &'static str,
    pub hc_state: &'static str,
    /// Any of these.
    pub evidence: &'static [&'static str],
}

/// What the label `how` has to say.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// What was on the wire. Each connection that ended was cut.
    AsOnTheWire,
    /// Streams of HTTP/2: nothing of it is on the wire that tcpdump could tell.
    StreamReset,
}

impl Expected {
    /// In what a record disagrees; empty when in nothing.
    pub fn disagreements(&self, record: &Record) -> Vec<String> {
        let mut found = Vec::new();
        let (end, count) = self.sessions;
        let sessions = BTreeMap::from([(end.to_owned(), count)]);
        differ("HAProxy's sessions by their end", &record.sessions, &sessions, &mut found);
        if let Some(requests) = self.envoy {
            differ("Envoy's counters", &record.envoy, &Some(requests.counters()), &mut found);
        }
        let ended = record.ends().values().sum();
        if !self.ended.contains(&ended) {
            found.push(format!("connections that ended on the wire: {ended}, not {:?}", self.ended));
        }
        if let Some(other) = record.ends().keys().find(|end| !self.ends.contains(end)) {
            found.push(format!("an end on the wire is {other:?}, not one of {:?}", self.ends));
        }
        self.gt(record, &mut found);
        found
    }

    fn gt(&self, record: &Record, found: &mut Vec<String>) {
        let (mut hows, mut resets) = (BTreeMap::new(), BTreeMap::new());
        if let Some(Cut { count, how, .. }) = self.cut {
            match how {
                How::AsOnTheWire => {
                    hows = record.ends().into_iter().map(|(end, count)| (end.how(), count)).collect();
                    resets =
                        record.resets().into_iter().map(|(end, count)| (end.direction(), count)).collect();
                }
                How::StreamReset => drop(hows.insert("stream_reset", count)),
            }
        }
        differ("gt's cuts by how", &by(&record.cuts, "how"), &whole(&hows), found);
        differ(
            "gt's cuts with an RST by direction",
            &by(&record.cut_rsts, "direction"),
            &whole(&resets),
            found,
        );
        let Some(cut) = self.cut else { return };
        for (kind, _) in record.cuts.iter().chain(&record.cut_rsts) {
            if !cut.evidence.contains(&kind.label("evidence")) {
                found.push(format!("gt has {kind}: the evidence should be one of {:?}", cut.evidence));
            }
            if kind.label("hc_state") != cut.hc_state {
                found.push(format!("gt has {kind}: hc_state should be {}", cut.hc_state));
            }
        }
        for (kind, _) in &record.cuts {
            if kind.label("cause") != cut.cause {
                found.push(format!("gt has {kind}: the cause should be {}", cut.cause));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a test")]
fn whole(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, f64> {
    counts.iter().map(|(word, count)| ((*word).to_owned(), *count as f64)).collect()
}

fn differ<T: std::fmt::Debug + PartialEq>(what: &str, is: &T, should: &T, found: &mut Vec<String>) {
    if is != should {
        found.push(format!("{what}: {is:?}, not {should:?}"));
    }
}
