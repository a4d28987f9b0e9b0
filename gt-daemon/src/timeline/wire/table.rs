//! All connections to the pod in a capture.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    net::{IpAddr, SocketAddr},
};

use super::{super::note::Notes, conversation::Conversation, packets};

/// Connections that are kept: with more of them the file is no single drain's.
const MOST: usize = 100_000;

/// Which ports are whose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Those of health checks: whoever listens there is the pod.
    pub health: BTreeSet<u16>,
    pub admin: BTreeSet<u16>,
}

/// What a capture tells.
#[derive(Debug, Default)]
pub struct Table {
    /// Connections of users, by their first segment.
    pub conversations: Vec<Conversation>,
    /// Who asked for the pod's health.
    pub checkers: BTreeSet<IpAddr>,
    pub first: Option<i64>,
    pub last: Option<i64>,
}

/// Reads a capture. Loopback is the pod's own, and left out.
pub fn read(file: impl Read + Send, ports: &Ports, notes: &mut Notes) -> Table {
    let mut table = Table::default();
    let mut open: BTreeMap<(SocketAddr, SocketAddr), usize> = BTreeMap::new();
    let mut all: Vec<Conversation> = Vec::new();
    let mut pods = BTreeSet::new();
    let mut left_out = 0_u64;
    packets::each(file, notes, |segment| {
        table.first = Some(table.first.map_or(segment.ts, |first| first.min(segment.ts)));
        table.last = table.last.max(Some(segment.ts));
        let (from, to) = (segment.from, segment.to);
        if from.ip().is_loopback() || from.ip() == to.ip() {
            return;
        }
        for (server, client) in [(to, from), (from, to)] {
            if ports.health.contains(&server.port()) {
                pods.insert(server.ip());
                table.checkers.insert(client.ip());
                return;
            }
        }
        let key = (from.min(to), from.max(to));
        let known = open.get(&key).and_then(|index| all.get(*index));
        // The same ports once more are another connection.
        let is_new = known.is_none_or(|known| segment.syn && !segment.ack && known.end.is_some());
        if is_new {
            if all.len() >= MOST {
                left_out += 1;
                return;
            }
            let (client, server) = sides(from, to, segment.syn, segment.ack);
            open.insert(key, all.len());
            all.push(Conversation::new(client, server, segment.ts));
        }
        if let Some(conversation) = open.get(&key).and_then(|index| all.get_mut(*index)) {
            conversation.take(segment);
        }
    });
    if left_out > 0 {
        let cause =
            format!("has more than {MOST} connections: {left_out} segments of further ones are passed over");
        notes.damaged(None, cause, "cut it to the drain, as with tcpdump -r FILE -w FILE 'host POD'");
    }
    // Who is asked for health is the pod; what it asks of others itself is no user's.
    all.retain(|conversation| {
        let server = conversation.server;
        !ports.admin.contains(&server.port()) && (pods.is_empty() || pods.contains(&server.ip()))
    });
    all.sort_by_key(|conversation| (conversation.first, conversation.client, conversation.server));
    table.conversations = all;
    table
}

/// Client and server: who begins is the client; without a beginning, the one with the lower port is the server.
fn sides(from: SocketAddr, to: SocketAddr, syn: bool, ack: bool) -> (SocketAddr, SocketAddr) {
    let from_is_client = if syn { !ack } else { from.port() > to.port() };
    if from_is_client { (from, to) } else { (to, from) }
}

impl Table {
    /// Sets the clock of a host right that was ahead by so many microseconds.
    pub fn shift(&mut self, ahead: i64) {
        let right = |ts: &mut i64| *ts = ts.saturating_sub(ahead);
        self.first.iter_mut().chain(&mut self.last).for_each(right);
        for one in &mut self.conversations {
            right(&mut one.first);
            right(&mut one.last);
            one.end.iter_mut().for_each(|end| right(&mut end.ts));
            one.rst.iter_mut().for_each(|(ts, _)| right(ts));
            one.resets.iter_mut().for_each(|(ts, _)| right(ts));
        }
    }
}
