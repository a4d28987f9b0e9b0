//! What each witness saw of a round: the clients, HAProxy, tcpdump, Envoy, the sidecars, and gt.

use std::{collections::BTreeMap, net::IpAddr};

use super::{api_pod::Deletion, clients::Answer, gateway::Traces, load::Tally};
use crate::stage::{
    counts::{Counts, Kind},
    envoy, hc,
    lb::Line,
    resets::{self, Reset},
    scrape::Scrape,
    wire::{self, Connection, End},
};

/// All of a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) client: Client,
    pub(super) haproxy: HaProxy,
    /// FINs and RSTs of the requests' connections to the pods, packet for packet, as the pods' side of each place saw them.
    pub(super) at_lb: BTreeMap<End, u64>,
    pub(super) at_workers: BTreeMap<End, u64>,
    /// Of the clients' connections to the load balancer, as its side saw them.
    pub(super) at_client: BTreeMap<End, u64>,
    /// The pods in the order in which they were made.
    pub(super) pods: Vec<Pod>,
}

/// What the clients saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Those that asked for something long.
    pub(super) answers: Vec<Answer>,
    /// Those of the continuous load.
    pub(super) load: Tally,
}

/// What HAProxy logged.
#[derive(Clone, Debug, Default)]
pub(super) struct HaProxy {
    /// Requests by the state they ended in.
    pub(super) sessions: BTreeMap<String, u64>,
    /// By server, those of them that ended before their answer, and not by their client.
    pub(super) cut: BTreeMap<String, u64>,
    /// Of these, those of the continuous load: Envoy may have answered them at that very instant.
    pub(super) cut_short: BTreeMap<String, u64>,
    /// Those whose client did not get a whole answer of status 200.
    pub(super) bad: u64,
    pub(super) retries: u64,
    pub(super) redispatches: u64,
    /// How often a server was marked DOWN.
    pub(super) downs: u64,
    pub(super) lines: Vec<String>,
}

/// What is told of one pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) server: String,
    /// Of one that is gone.
    pub(super) deletion: Option<Deletion>,
    pub(super) requests: u64,
    /// Requests that Envoy counts as ended before their answers were whole.
    pub(super) envoy_cut: u64,
    /// Of these, those that were in flight when it was killed.
    pub(super) killed: u64,
    /// FINs and RSTs on its own device.
    pub(super) packets: BTreeMap<End, u64>,
    /// The lines of all RSTs on its own device, by class, and by what they met.
    pub(super) resets: BTreeMap<(&'static str, Reset), Vec<String>>,
    pub(super) connections: BTreeMap<String, Connection>,
    /// The sidecar's transitions, such as `OPEN>DRAINING`.
    pub(super) transitions: Vec<String>,
    pub(super) gt: Gt,
}

/// What gt counted of one pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Gt {
    pub(super) cuts: Vec<(Kind, f64)>,
    pub(super) cut_rsts: Vec<(Kind, f64)>,
    /// RSTs, packet for packet; those within the pod are left out.
    pub(super) rsts: Vec<(Kind, f64)>,
    /// When its drain began, in seconds since 1970.
    pub(super) drain_started: Option<f64>,
    /// Drains by their verdict; `None` for a daemon that does not judge drains.
    pub(super) verdicts: Option<BTreeMap<String, f64>>,
}

impl Client {
    pub(super) fn asked(&self) -> u64 {
        self.answers.len() as u64 + self.load.sent
    }

    /// Those that did not get what they asked for.
    pub(super) fn failed(&self) -> u64 {
        let failed = self.answers.iter().filter(|answer| !answer.good()).count() as u64;
        failed + self.load.refused + self.load.broken
    }

    /// Answers of 500 and more.
    pub(super) fn refused(&self) -> u64 {
        let refused = self.answers.iter().filter(|answer| answer.seen.status >= Some(500)).count() as u64;
        refused + self.load.refused
    }
}

impl HaProxy {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut found = Self { lines: lines.iter().map(ToString::to_string).collect(), ..Self::default() };
        for session in lines.iter().filter_map(Line::session) {
            let mut state = session.termination.chars();
            let (ended_by, about) = (state.next(), state.next());
            // Marked DOWN just after its answer was whole: `D---`. Nothing was left to cut.
            let is_complete = about == Some('-');
            if matches!(ended_by, Some('D' | 'S')) && !is_complete && session.server != "<NOSRV>" {
                if session.request.starts_with("GET / ") {
                    *found.cut_short.entry(session.server.clone()).or_default() += 1;
                }
                *found.cut.entry(session.server).or_default() += 1;
            }
            found.bad += u64::from(session.status != 200 || !is_complete);
            found.retries += u64::from(session.retries);
            found.redispatches += u64::from(session.redispatched);
            *found.sessions.entry(session.termination).or_default() += 1;
        }
        found.downs =
            found.lines.iter().filter(|line| line.contains("Server ") && line.contains(" is DOWN")).count()
                as u64;
        found
    }
}

impl Pod {
    /// Whether it was deleted.
    pub(super) fn gone(&self) -> bool {
        self.deletion.is_some()
    }

    /// What its own traces tell, and what the daemon of its worker counts.
    pub(super) fn of(traces: &Traces, scrape: &Scrape) -> Self {
        let stat = |name: &str| traces.envoy.get(name).copied().unwrap_or_default();
        let cut = if stat("downstream_rq_http2_total") > 0 {
            stat("downstream_rq_rx_reset")
        } else {
            stat("downstream_cx_destroy_remote_active_rq") + stat("downstream_cx_destroy_local_active_rq")
        };
        let address = IpAddr::V4(traces.slot.address());
        let resets = [("data", envoy::PORT), ("health", hc::PORT)].into_iter().flat_map(|(class, port)| {
            resets::resets(&traces.packets, address, port)
                .into_iter()
                .map(move |(kind, lines)| ((class, kind), lines))
        });
        Self {
            name: traces.name.clone(),
            server: traces.slot.server(),
            deletion: traces.deletion,
            requests: stat("downstream_rq_total"),
            envoy_cut: cut + traces.killed,
            killed: traces.killed,
            packets: wire::packets(&traces.packets, envoy::PORT),
            resets: resets.collect(),
            connections: wire::connections(&traces.packets, address, envoy::PORT),
            transitions: traces.hc.lines().filter_map(transition).collect(),
            gt: Gt::since(&traces.before, scrape, &traces.name),
        }
    }
}

impl Gt {
    fn since(before: &Counts, scrape: &Scrape, pod: &str) -> Self {
        let now = Counts::of(scrape, pod);
        let rsts = now.rsts_since(before).unwrap_or_default();
        let verdicts = scrape.declares("gt_drains").then(|| {
            let samples = scrape.select("gt_drains_total", &[]).filter(|sample| sample.label("pod") == pod);
            let told = samples.filter(|sample| sample.value > 0.0);
            told.map(|sample| (sample.label("verdict").to_owned(), sample.value)).collect()
        });
        Self {
            cuts: now.cuts_since(before).unwrap_or_default(),
            cut_rsts: now.cut_rsts_since(before).unwrap_or_default(),
            // Two ends within the pod: tcpdump on its device sees neither.
            rsts: rsts.into_iter().filter(|(kind, _)| kind.label("role") != "loopback").collect(),
            drain_started: scrape
                .select("gt_drain_started_timestamp_seconds", &[("pod", pod)])
                .next()
                .map(|sample| sample.value),
            verdicts,
        }
    }

    pub(super) fn cut(&self) -> f64 {
        self.cuts.iter().fold(0.0, |sum, (_, count)| sum + count)
    }

    /// In one word, where there is exactly one drain.
    pub(super) fn verdict(&self) -> &str {
        match &self.verdicts {
            None => "not told",
            Some(verdicts) => match verdicts.iter().next() {
                None => "none yet",
                Some((verdict, count)) if verdicts.len() == 1 && (*count - 1.0).abs() < f64::EPSILON => {
                    verdict
                }
                Some(_) => "several",
            },
        }
    }
}

impl Record {
    /// Requests of which HAProxy says nothing. When it has no answer to one on a client's kept connection, and not its first, it
    /// closes that without a word in its log, so that the client asks again (`abort_keep_alive` in src/http_ana.c).
    pub(super) fn untold(&self) -> u64 {
        self.client.asked().saturating_sub(self.haproxy.sessions.values().sum())
    }

    pub(super) fn gone(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.gone())
    }

    /// FINs and RSTs at the pods.
    pub(super) fn at_pods(&self) -> BTreeMap<End, u64> {
        let mut sums = BTreeMap::new();
        for (end, count) in self.pods.iter().flat_map(|pod| &pod.packets) {
            *sums.entry(*end).or_default() += count;
        }
        sums
    }
}

/// `.. event=transition from=X to=Y ..` as `X>Y`.
pub(super) fn transition(line: &str) -> Option<String> {
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    (field("event")? == "transition").then(|| Some(format!("{}>{}", field("from")?, field("to")?)))?
}

/// RSTs alone.
pub(super) fn rsts(packets: &BTreeMap<End, u64>) -> BTreeMap<&'static str, u64> {
    let of = |end: &End| packets.get(end).copied().unwrap_or_default();
    BTreeMap::from([("received", of(&End::RstReceived)), ("sent", of(&End::RstSent))])
}

/// The lines of the clients' view, `curl.out`, of what was asked for by certain paths.
pub(super) fn curl(client: &Client, wanted: impl Fn(&str) -> bool) -> String {
    let answers = client.answers.iter().filter(|answer| wanted(&answer.path));
    let mut lines: Vec<_> = answers.map(Answer::line).collect();
    if wanted("/") {
        lines.extend(client.load.lines.iter().cloned());
    }
    lines.sort_unstable();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Exercises HAProxy's lines so that a cut, a refusal without a server and a client that left are told apart.
    #[test]
    fn sessions_are_told_apart() {
        let line = |rest: &str| Line {
            at: Instant::now(),
            text: format!(
                "2026-11-30T07:11:48.5+00:00 127.0.0.1:6 [30/Nov/2026:07:11:43.828] fe gateway/{rest} \"GET / HTTP/1.1\""
            ),
        };
        let mut lines = vec![
            line("worker1-0 0/0/0/-1/4706 502 209 - - DH-- 6/6/5/5/0 0/0"),
            line("worker1-0 0/0/0/1/4706 200 209 - - DD-- 6/6/5/5/+1 0/0"),
            line("worker1-0 0/0/0/1/47 200 209 - - CD-- 6/6/5/5/0 0/0"),
            line("<NOSRV> 0/-1/-1/-1/0 503 217 - - SC-- 1/1/0/0/0 0/0"),
            line("worker2-0 0/0/0/1/2 200 209 - - ---- 6/6/5/5/0 0/0"),
            line("worker2-0 0/0/0/1/2 200 209 - - D--- 6/6/5/5/0 0/0"),
        ];
        lines
            .push(Line { at: Instant::now(), text: "T Server gateway/worker1-0 is DOWN, reason".to_owned() });
        let found = HaProxy::of(&lines);
        assert_eq!(found.cut, BTreeMap::from([("worker1-0".to_owned(), 2)]));
        assert_eq!(found.cut_short, found.cut);
        assert_eq!((found.bad, found.retries, found.redispatches, found.downs), (4, 1, 1, 1));
    }

    /// Exercises hc's log so that its transitions are read and its other lines are not.
    #[test]
    fn transitions_of_a_log() {
        let line =
            "ts=2026-11-30T07:16:46.981444Z event=transition from=CLOSING to=CLOSED reason=lb_buffer_over";
        assert_eq!(transition(line).as_deref(), Some("CLOSING>CLOSED"));
        assert_eq!(transition("ts=T event=active from=1 to=2"), None);
        assert_eq!(transition(""), None);
    }
}
