//! What the RSTs on a pod's wire met there: which of them its kernel acts on, and so which gt can count. Pure.
//!
//! An RST that the pod sends always counts. One that it receives counts when it meets a socket that is no TIME_WAIT one; where
//! there is none the kernel drops it without a word (docs/limitations.md). The segments before it tell.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use super::wire::segment;

/// An RST by where it went, and what it met there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reset {
    Sent,
    /// Met a socket, and ended its connection.
    Received,
    /// Met a connection that an RST had ended before, or that both sides had closed.
    ReceivedWithoutSocket,
    /// Met a connection that the pod had closed first, and whose FIN was acknowledged: the kernel keeps a TIME_WAIT socket.
    ReceivedInTimeWait,
    /// Met a handshake that was never finished.
    ReceivedInHandshake,
}

/// A connection as the pod's side knows it.
#[derive(Debug, Default)]
struct Talk {
    /// The handshake was finished.
    established: bool,
    /// An RST was there, either way.
    reset: bool,
    /// The number after the pod's own FIN.
    own_end: Option<u64>,
    own_end_acknowledged: bool,
    /// The peer's FIN came before the pod's own.
    peer_first: bool,
    peer_end: bool,
}

impl Reset {
    /// Whether gt has it in `gt_rst_total`.
    #[must_use]
    pub fn is_countable(self) -> bool {
        matches!(self, Self::Sent | Self::Received)
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::ReceivedWithoutSocket => "received without a socket",
            Self::ReceivedInTimeWait => "received in TIME_WAIT",
            Self::ReceivedInHandshake => "received in a handshake",
        })
    }
}

/// The RSTs of a pod's connections to `port`, from a capture of all their segments on its device: tcpdump's lines.
#[must_use]
pub fn resets(lines: &[String], address: IpAddr, port: u16) -> BTreeMap<Reset, Vec<String>> {
    let local = format!("{address}.{port}");
    let mut talks: BTreeMap<&str, Talk> = BTreeMap::new();
    let mut found: BTreeMap<Reset, Vec<String>> = BTreeMap::new();
    for line in lines {
        let Some((source, destination, flags)) = segment(line) else { continue };
        let (is_own, peer) = (source == local, if source == local { destination } else { source });
        if !is_own && destination != local {
            continue;
        }
        if !is_own && flags.contains('S') {
            talks.insert(peer, Talk::default());
        }
        let talk = talks.entry(peer).or_default();
        if flags.contains('R') {
            let reset = if is_own { Reset::Sent } else { talk.meets() };
            talk.reset = true;
            found.entry(reset).or_default().push(line.clone());
        } else if is_own {
            talk.sent(line, flags);
        } else {
            talk.received(line, flags);
        }
    }
    found
}

/// Whether every connection to `port` is over: by RST, or since both sides have closed it.
#[must_use]
pub fn all_over(lines: &[String], address: IpAddr, port: u16) -> bool {
    let local = format!("{address}.{port}");
    let mut ends: BTreeMap<&str, [bool; 2]> = BTreeMap::new();
    for line in lines {
        let Some((source, destination, flags)) = segment(line) else { continue };
        let is_own = source == local;
        if !is_own && destination != local {
            continue;
        }
        let closed = ends.entry(if is_own { destination } else { source }).or_default();
        if flags.contains('S') {
            *closed = [false; 2];
        }
        let [own, peer] = closed;
        *own |= flags.contains('R') || (is_own && flags.contains('F'));
        *peer |= flags.contains('R') || (!is_own && flags.contains('F'));
    }
    ends.values().all(|closed| *closed == [true; 2])
}

impl Talk {
    /// What an RST from the peer meets now.
    fn meets(&self) -> Reset {
        if self.reset {
            Reset::ReceivedWithoutSocket
        } else if self.own_end_acknowledged {
            if self.peer_first { Reset::ReceivedWithoutSocket } else { Reset::ReceivedInTimeWait }
        } else if self.established {
            Reset::Received
        } else {
            Reset::ReceivedInHandshake
        }
    }

    fn sent(&mut self, line: &str, flags: &str) {
        if flags.contains('F') && self.own_end.is_none() {
            self.own_end = last(line).map(|last| last + 1);
            self.peer_first = self.peer_end;
        }
    }

    fn received(&mut self, line: &str, flags: &str) {
        if flags.contains('S') {
            return;
        }
        // The first segment after the SYN bears the acknowledgement that ends the handshake.
        self.established = true;
        self.peer_end |= flags.contains('F');
        if let (Some(end), Some(acknowledged)) = (self.own_end, number(line, ", ack ")) {
            self.own_end_acknowledged |= acknowledged >= end;
        }
    }
}

/// The number after a segment's data, without its FIN: `seq 1:86` and `seq 86` both end at 86.
fn last(line: &str) -> Option<u64> {
    let numbers = line.split_once(", seq ")?.1.split(',').next()?;
    numbers.rsplit(':').next()?.parse().ok()
}

/// `.., ack 211, ..`, counted from the connection's begin, as tcpdump does.
fn number(line: &str, name: &str) -> Option<u64> {
    line.split_once(name)?.1.split([',', ':']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// Lines of a connection: `<` is received and `>` sent by the pod.
    fn lines(segments: &[(char, &str)]) -> Vec<String> {
        let (peer, pod) = ("10.0.0.1.40000", "10.0.0.2.8080");
        let line = |(way, rest): &(char, &str)| {
            let (from, to) = if *way == '<' { (peer, pod) } else { (pod, peer) };
            format!("1.0 IP {from} > {to}: Flags {rest}, win 502, length 0")
        };
        segments.iter().map(line).collect()
    }

    fn kinds(segments: &[(char, &str)]) -> Vec<Reset> {
        let begin = [('<', "[S], seq 7"), ('>', "[S.], seq 9, ack 8"), ('<', "[.], ack 1")];
        let all = lines(&[&begin, segments].concat());
        let found = resets(&all, POD, 8080);
        found.into_iter().flat_map(|(kind, lines)| vec![kind; lines.len()]).collect()
    }

    /// Exercises each state in which an RST can come so that only those count that meet a socket.
    #[test]
    fn what_an_rst_meets() {
        let (fin, own_fin, rst) =
            (('<', "[F.], seq 86, ack 1"), ('>', "[F.], seq 1:210, ack 87"), ('<', "[R.], seq 87"));
        assert_eq!(kinds(&[rst]), [Reset::Received]);
        assert_eq!(kinds(&[fin, rst, ('<', "[R], seq 87")]), [Reset::Received, Reset::ReceivedWithoutSocket]);
        // In LAST_ACK, before and after the acknowledgement.
        assert_eq!(kinds(&[fin, own_fin, rst]), [Reset::Received]);
        assert_eq!(kinds(&[fin, own_fin, ('<', "[.], ack 211"), rst]), [Reset::ReceivedWithoutSocket]);
        // In FIN_WAIT1, in FIN_WAIT2, and in TIME_WAIT.
        assert_eq!(kinds(&[own_fin, rst]), [Reset::Received]);
        assert_eq!(kinds(&[own_fin, ('<', "[.], ack 210"), rst]), [Reset::Received]);
        assert_eq!(kinds(&[own_fin, ('<', "[.], ack 211"), rst]), [Reset::ReceivedInTimeWait]);
        assert_eq!(kinds(&[own_fin, ('<', "[F.], seq 86, ack 211"), rst]), [Reset::ReceivedInTimeWait]);
        assert_eq!(kinds(&[('>', "[R.], seq 1"), rst]), [Reset::Sent, Reset::ReceivedWithoutSocket]);
        // The same port again.
        assert_eq!(kinds(&[rst, ('<', "[S], seq 9"), ('<', "[.], ack 1"), rst]), [Reset::Received; 2]);
        let handshake = lines(&[('<', "[S], seq 7"), ('>', "[S.], seq 9, ack 8"), rst]);
        assert_eq!(
            resets(&handshake, POD, 8080).into_keys().collect::<Vec<_>>(),
            [Reset::ReceivedInHandshake]
        );
        assert!(resets(&handshake, POD, 18180).is_empty());
    }

    /// Exercises half-closed connections so that a pod is not taken off the network before its peers had their say.
    #[test]
    fn over_when_both_sides_are() {
        let (fin, own_fin, rst) =
            (('<', "[F.], seq 86, ack 1"), ('>', "[F.], seq 1, ack 87"), ('<', "[R.], seq 87"));
        let begin = ('<', "[S], seq 7");
        for (segments, is_over) in [
            (vec![begin], false),
            (vec![begin, fin], false),
            (vec![begin, fin, own_fin], true),
            (vec![begin, own_fin], false),
            (vec![begin, own_fin, rst], true),
            (vec![begin, rst, begin], false),
        ] {
            assert_eq!(all_over(&lines(&segments), POD, 8080), is_over, "{segments:?}");
        }
        assert!(all_over(&[], POD, 8080));
    }
}
