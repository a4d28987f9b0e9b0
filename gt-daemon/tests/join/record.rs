//! What each of the four witnesses saw between two moments: HAProxy, Envoy, tcpdump, gt.

use std::{collections::BTreeMap, fmt};

use anyhow::Result;
use xtask::stage::{
    counts::{Counts, Kind},
    envoy, lb, network, pod,
    wire::{self, Connection, End},
};

use crate::scene::Scene;

/// Envoy's counters that tell of requests, and of connections that took requests with them.
pub const ENVOY: [&str; 5] = [
    "downstream_cx_destroy_remote_active_rq",
    "downstream_cx_destroy_local_active_rq",
    "downstream_rq_rx_reset",
    "downstream_rq_total",
    "downstream_rq_http2_total",
];

/// A moment, from which on is counted.
pub struct Mark {
    log: usize,
    packets: usize,
    /// `None` while there is no Envoy to be asked.
    envoy: Option<BTreeMap<String, u64>>,
    gt: Counts,
}

/// What happened since a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// HAProxy's sessions by the state they ended in, such as `DH--`.
    pub sessions: BTreeMap<String, u64>,
    pub haproxy: Vec<String>,
    /// Growth of [`ENVOY`]; `None` when Envoy could not be asked, or is another one than before.
    pub envoy: Option<BTreeMap<&'static str, u64>>,
    /// The gateway's connections of which something was on the wire.
    pub wire: BTreeMap<String, Connection>,
    pub cuts: Vec<(Kind, f64)>,
    pub cut_rsts: Vec<(Kind, f64)>,
}

impl Mark {
    pub fn now(scene: &Scene) -> Result<Self> {
        Ok(Self {
            log: scene.lb.log().length(),
            packets: scene.wire.lines().len(),
            envoy: scene.envoy.stats().ok(),
            gt: Counts::of(&scene.daemon.scrape()?, pod::NAME),
        })
    }

    /// What happened since.
    pub fn until_now(&self, scene: &Scene) -> Result<Record> {
        let lines = scene.lb.log().after(self.log);
        let mut sessions = BTreeMap::new();
        for session in lines.iter().filter_map(lb::Line::session) {
            *sessions.entry(session.termination).or_default() += 1;
        }
        let packets = scene.wire.lines();
        let scrape = scene.daemon.scrape()?;
        let gt = Counts::of(&scrape, pod::NAME);
        Ok(Record {
            sessions,
            haproxy: lines.iter().map(ToString::to_string).collect(),
            envoy: scene.envoy.stats().ok().and_then(|now| growth(self.envoy.as_ref()?, &now)),
            wire: wire::connections(
                packets.get(self.packets..).unwrap_or_default(),
                network::POD,
                envoy::PORT,
            ),
            cuts: gt.cuts_since(&self.gt).unwrap_or_default(),
            cut_rsts: gt.cut_rsts_since(&self.gt).unwrap_or_default(),
        })
    }
}

/// `None` when a counter has fallen: another Envoy. One that is not there yet is zero: Envoy makes them with its listener.
fn growth(
    before: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
) -> Option<BTreeMap<&'static str, u64>> {
    let value = |stats: &BTreeMap<String, u64>, name: &str| stats.get(name).copied().unwrap_or_default();
    ENVOY.into_iter().map(|name| Some((name, value(now, name).checked_sub(value(before, name))?))).collect()
}

impl Record {
    /// How the connections that ended began to.
    pub fn ends(&self) -> BTreeMap<End, u64> {
        wire::ends(&self.wire)
    }

    /// On how many connections there was an RST, by the direction of the first.
    pub fn resets(&self) -> BTreeMap<End, u64> {
        wire::resets(&self.wire)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HAProxy's sessions: {:?}", self.sessions)?;
        for line in &self.haproxy {
            writeln!(f, "    {line}")?;
        }
        match &self.envoy {
            Some(counters) => writeln!(f, "Envoy's counters: {counters:?}")?,
            None => writeln!(f, "Envoy's counters: there is no Envoy, or another")?,
        }
        writeln!(f, "the wire: ends {:?}, RSTs {:?}", self.ends(), self.resets())?;
        for line in self.wire.values().flat_map(|connection| &connection.lines) {
            writeln!(f, "    {line}")?;
        }
        for (what, counts) in [("cuts", &self.cuts), ("cuts with an RST", &self.cut_rsts)] {
            writeln!(f, "gt's {what}:")?;
            for (kind, count) in counts {
                writeln!(f, "    {count} {kind}")?;
            }
        }
        Ok(())
    }
}
