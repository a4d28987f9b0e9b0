//! tcpdump on a device: the independent witness of what was on the wire.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    net::IpAddr,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::sandbox::{Netns, Process};

/// A capture that runs until it is dropped.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    /// What it says at its end.
    farewell: Arc<Mutex<String>>,
}

/// Who began to end a connection, as the host at one end of it sees that, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    FinReceived,
    FinSent,
    RstReceived,
    RstSent,
}

/// What was on the wire of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The first FIN or RST.
    pub end: Option<End>,
    /// Whether the first RST was sent or received, [`End::RstSent`] or [`End::RstReceived`].
    pub rst: Option<End>,
    /// Its segments with SYN, FIN or RST, as tcpdump tells them.
    pub lines: Vec<String>,
}

impl Capture {
    /// Starts tcpdump with a filter and waits until it captures. `file` gets the packets themselves.
    pub fn start(netns: &Netns, device: &str, filter: &str, file: Option<&Path>) -> Result<Self> {
        let mut command = netns.command("tcpdump");
        command.args(["-i", device, "-n", "-l", "-tt", "--immediate-mode"]);
        // The heads of segments alone, or the buffer holds some thirty of them and loses the rest of a burst.
        command.args(["-s", "256", "-B", "8192"]);
        if let Some(file) = file {
            // -Z: it would give the file to a user of its own otherwise.
            command.args(["-U", "-Z", "root", "--print", "-w"]).arg(file);
        }
        command.arg(filter).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start("tcpdump", &mut command)?;
        let stdout = process.child().stdout.take().context("tcpdump has no output to read")?;
        let mut stderr =
            BufReader::new(process.child().stderr.take().context("tcpdump has no stderr to read")?);
        let mut message = String::new();
        while !message.contains("listening on") {
            if stderr.read_line(&mut message).context("cannot read tcpdump's stderr")? == 0 {
                bail!("tcpdump does not capture: {message}");
            }
        }
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let farewell = Arc::new(Mutex::new(String::new()));
        let last_words = Arc::clone(&farewell);
        let reader = thread::spawn(move || {
            // Interrupted, tcpdump ends its output with an empty line.
            for line in BufReader::new(stdout).lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
            // Words that cannot be read are missed by whoever wants to know whether packets were lost.
            let mut words = String::new();
            let _read = stderr.read_to_string(&mut words);
            *last_words.lock().unwrap_or_else(PoisonError::into_inner) = words;
        });
        Ok(Self { process, lines, reader: Some(reader), farewell })
    }

    /// What was captured so far, a line a packet.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the capture and gives all lines; an error when it lost any packet.
    pub fn finish(mut self) -> Result<Vec<String>> {
        self.process.signal(Signal::SIGINT)?;
        self.process.wait(Duration::from_secs(5))?.context("tcpdump does not end 5 s after SIGINT")?;
        if let Some(reader) = self.reader.take() {
            let _ended = reader.join();
        }
        let words = self.farewell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match dropped(&words) {
            Some(0) => Ok(self.lines()),
            Some(lost) => bail!("tcpdump lost {lost} packets: it is no witness of this round"),
            None => bail!("tcpdump does not say at its end whether it lost packets: {words:?}"),
        }
    }
}

impl End {
    /// gt's word for it (label `how`).
    #[must_use]
    pub fn how(self) -> &'static str {
        match self {
            Self::FinReceived => "fin_received",
            Self::FinSent => "fin_sent",
            Self::RstReceived => "rst_received",
            Self::RstSent => "rst_sent",
        }
    }

    /// gt's word for where it went (label `direction`).
    #[must_use]
    pub fn direction(self) -> &'static str {
        match self {
            Self::FinReceived | Self::RstReceived => "received",
            Self::FinSent | Self::RstSent => "sent",
        }
    }
}

/// How the connections that ended began to.
#[must_use]
pub fn ends(connections: &BTreeMap<String, Connection>) -> BTreeMap<End, u64> {
    sums(connections.values().filter_map(|connection| connection.end))
}

/// On how many connections there was an RST, by the direction of the first.
#[must_use]
pub fn resets(connections: &BTreeMap<String, Connection>) -> BTreeMap<End, u64> {
    sums(connections.values().filter_map(|connection| connection.rst))
}

fn sums(ends: impl Iterator<Item = End>) -> BTreeMap<End, u64> {
    let mut sums = BTreeMap::new();
    for end in ends {
        *sums.entry(end).or_default() += 1;
    }
    sums
}

/// FINs and RSTs, packet for packet, of connections to `port`, by direction as its host sees them.
#[must_use]
pub fn packets(lines: &[String], port: u16) -> BTreeMap<End, u64> {
    let local = format!(".{port}");
    sums(lines.iter().filter_map(|line| end(line, &local)))
}

/// What a segment of a connection to `local` ends.
fn end(line: &str, local: &str) -> Option<End> {
    let (source, destination, flags) = segment(line)?;
    match (source.ends_with(local), destination.ends_with(local), flags) {
        (true, _, flags) if flags.contains('R') => Some(End::RstSent),
        (_, true, flags) if flags.contains('R') => Some(End::RstReceived),
        (true, _, flags) if flags.contains('F') => Some(End::FinSent),
        (_, true, flags) if flags.contains('F') => Some(End::FinReceived),
        _ => None,
    }
}

/// The connections to `port` of the host with `address`, by the other end's address and port, from a capture's lines.
#[must_use]
pub fn connections(lines: &[String], address: IpAddr, port: u16) -> BTreeMap<String, Connection> {
    let local = format!("{address}.{port}");
    let mut connections: BTreeMap<String, Connection> = BTreeMap::new();
    for line in lines {
        let Some((source, destination, flags)) = segment(line) else { continue };
        let sent = source == local;
        let peer = if sent { destination } else { source };
        if !sent && destination != local {
            continue;
        }
        let connection = connections.entry(peer.to_owned()).or_default();
        if flags.contains(['S', 'F', 'R']) {
            connection.lines.push(line.clone());
        }
        let rst = if sent { End::RstSent } else { End::RstReceived };
        let fin = if sent { End::FinSent } else { End::FinReceived };
        if flags.contains('R') {
            connection.rst.get_or_insert(rst);
            connection.end.get_or_insert(rst);
        } else if flags.contains('F') {
            connection.end.get_or_insert(fin);
        }
    }
    connections
}

/// `3 packets dropped by kernel`, `1 packet dropped by kernel`.
fn dropped(farewell: &str) -> Option<u64> {
    let line = farewell.lines().find(|line| line.ends_with(" dropped by kernel"))?;
    line.split(' ').next()?.parse().ok()
}

/// `.. IP 10.78.0.2.80 > 10.78.0.1.9: Flags [F.], ..`: source, destination and flags.
pub(super) fn segment(line: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = line.split_once(" > ")?;
    let (destination, rest) = after.split_once(": Flags [")?;
    Some((before.rsplit(' ').next()?, destination, rest.split_once(']')?.0))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Exercises a capture of a cut, of a bare RST and of the pod's own close so that each is told by who came first.
    #[test]
    fn ends_by_who_came_first() {
        let lines = [
            "1.0 IP 10.0.0.1.40000 > 10.0.0.2.8080: Flags [S], seq 1, win 64240, length 0",
            "1.1 IP 10.0.0.2.8080 > 10.0.0.1.40000: Flags [S.], seq 9, ack 2, win 65160, length 0",
            "1.2 IP 10.0.0.1.40000 > 10.0.0.2.8080: Flags [F.], seq 2, ack 10, win 502, length 0",
            "1.3 IP 10.0.0.1.40000 > 10.0.0.2.8080: Flags [R.], seq 3, ack 10, win 502, length 0",
            "1.4 IP 10.0.0.1.40001 > 10.0.0.2.8080: Flags [R], seq 3, win 0, length 0",
            "1.5 IP 10.0.0.2.8080 > 10.0.0.1.40002: Flags [FP.], seq 3, ack 10, win 502, length 7",
            "1.6 IP 10.0.0.1.40002 > 10.0.0.2.8080: Flags [F.], seq 3, ack 11, win 502, length 0",
            "1.7 IP 10.0.0.1.40003 > 10.0.0.2.9090: Flags [F.], seq 3, ack 11, win 502, length 0",
            "a line of another kind",
        ]
        .map(str::to_owned);
        let found = connections(&lines, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 8080);
        let told: Vec<_> = found.values().map(|one| (one.end, one.rst, one.lines.len())).collect();
        assert_eq!(
            told,
            [
                (Some(End::FinReceived), Some(End::RstReceived), 4),
                (Some(End::RstReceived), Some(End::RstReceived), 1),
                (Some(End::FinSent), None, 2),
            ]
        );
        assert_eq!(ends(&found).values().sum::<u64>(), 3);
        assert_eq!(resets(&found), BTreeMap::from([(End::RstReceived, 2)]));
        let counted = BTreeMap::from([(End::FinReceived, 2), (End::FinSent, 1), (End::RstReceived, 2)]);
        assert_eq!(packets(&lines, 8080), counted);
    }

    /// Exercises tcpdump's farewell so that a capture which lost packets is never taken for a whole one.
    #[test]
    fn lost_packets_are_told() {
        let farewell = "14 packets captured\n14 packets received by filter\n2 packets dropped by kernel\n";
        assert_eq!(dropped(farewell), Some(2));
        assert_eq!(dropped("tcpdump: pcap_loop: The interface disappeared\n"), None);
    }
}
