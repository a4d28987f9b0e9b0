//! Which servers of an LB are a pod's. Pure.

use std::{net::IpAddr, str::FromStr};

use super::row::Row;

/// A pod, as LBs may know it.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub addresses: &'a [IpAddr],
}

/// How servers are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    /// Those that are a pod's; without any, by address and name.
    pub servers: Vec<Pattern>,
    /// The node's name and address, where they are known.
    pub node: Option<String>,
    pub node_address: Option<IpAddr>,
}

/// `BACKEND/SERVER`, or a server of any backend. `*` stands for any characters; `{pod}`, `{namespace}`, `{ip}`, `{node}`,
/// `{host}` and `{node-ip}` for what they say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    backend: Vec<Piece>,
    server: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Any,
    Of(What),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Pod,
    Namespace,
    /// The pod's address.
    Ip,
    Node,
    /// The node's name up to its first dot.
    Host,
    NodeIp,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (backend, server) = text.split_once('/').unwrap_or(("*", text));
        if backend.is_empty() || server.is_empty() || server.contains('/') {
            return Err(format!("{text:?} names no server: use BACKEND/SERVER, with * for any characters"));
        }
        Ok(Self { backend: pieces(backend)?, server: pieces(server)? })
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['*', '{']) {
        let (before, special) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        if let Some(after) = special.strip_prefix('*') {
            pieces.push(Piece::Any);
            rest = after;
            continue;
        }
        let named = special.strip_prefix('{').and_then(|after| after.split_once('}'));
        let what = named.and_then(|(name, _)| what(name)).ok_or_else(|| {
            format!("{text:?}: braces stand around pod, namespace, ip, node, host or node-ip")
        })?;
        pieces.push(Piece::Of(what));
        rest = named.map_or("", |(_, after)| after);
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn what(name: &str) -> Option<What> {
    Some(match name {
        "pod" => What::Pod,
        "namespace" => What::Namespace,
        "ip" => What::Ip,
        "node" => What::Node,
        "host" => What::Host,
        "node-ip" => What::NodeIp,
        _ => return None,
    })
}

impl Patterns {
    /// The rows that are a pod's. Without patterns those of the first of these that fit any: the pod's address, the pod's name,
    /// the node's address, the node's name.
    #[must_use]
    pub fn of<'a>(&self, rows: &'a [Row], pod: Identity<'_>) -> Vec<&'a Row> {
        let all = |fits: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| fits(row)).collect::<Vec<_>>();
        if !self.servers.is_empty() {
            return all(&|row| self.servers.iter().any(|pattern| pattern.fits(row, self, pod)));
        }
        let is_at = |row: &Row, address: IpAddr| {
            row.address == Some(address) || row.server.parse::<IpAddr>().is_ok_and(|named| named == address)
        };
        let host = self.host();
        let by: [&dyn Fn(&Row) -> bool; 4] = [
            &|row| pod.addresses.iter().any(|address| is_at(row, *address)),
            &|row| row.server == pod.pod,
            &|row| self.node_address.is_some_and(|address| is_at(row, address)),
            &|row| [self.node.as_deref(), host].contains(&Some(row.server.as_str())),
        ];
        by.into_iter().map(all).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn host(&self) -> Option<&str> {
        self.node.as_deref().and_then(|node| node.split('.').next())
    }
}

impl Pattern {
    fn fits(&self, row: &Row, patterns: &Patterns, pod: Identity<'_>) -> bool {
        fits(&self.backend, &row.backend, patterns, pod) && fits(&self.server, &row.server, patterns, pod)
    }
}

/// Whether pieces and text are the same; one that says what is not known fits nothing. Texts have as many characters as a
/// name has.
fn fits(pieces: &[Piece], text: &str, patterns: &Patterns, pod: Identity<'_>) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return text.is_empty() };
    let then = |word: &str| text.strip_prefix(word).is_some_and(|after| fits(rest, after, patterns, pod));
    match first {
        Piece::Text(word) => then(word),
        Piece::Any => text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .any(|at| text.get(at..).is_some_and(|after| fits(rest, after, patterns, pod))),
        Piece::Of(What::Pod) => then(pod.pod),
        Piece::Of(What::Namespace) => then(pod.namespace),
        Piece::Of(What::Ip) => pod.addresses.iter().any(|address| then(&address.to_string())),
        Piece::Of(What::Node) => patterns.node.as_deref().is_some_and(then),
        Piece::Of(What::Host) => patterns.host().is_some_and(then),
        Piece::Of(What::NodeIp) => patterns.node_address.is_some_and(|address| then(&address.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[(&str, &str, Option<&str>)]) -> Vec<Row> {
        let row = |(backend, server, address): &(&str, &str, Option<&str>)| Row {
            address: address.map(|text| text.parse().unwrap()),
            ..Row::new(backend, server, "UP")
        };
        names.iter().map(row).collect()
    }

    fn names(patterns: &Patterns, rows: &[Row]) -> Vec<String> {
        let addresses = ["10.42.0.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        let pod = Identity { namespace: "edge", pod: "igw-x2kqp", addresses: &addresses };
        patterns.of(rows, pod).into_iter().map(Row::name).collect()
    }

    fn node() -> Patterns {
        Patterns {
            servers: vec![],
            node: Some("worker-1.example.com".to_owned()),
            node_address: "192.0.2.11".parse().ok(),
        }
    }

    /// Exercises LBs that know pods and nodes by this or that, so that the most certain sign decides, and no other server is
    /// the pod's.
    #[test]
    fn without_patterns() {
        let all = rows(&[
            ("a", "worker-1", None),
            ("b", "worker-1.example.com", None),
            ("c", "s1", Some("192.0.2.11")),
            ("d", "igw-x2kqp", None),
            ("e", "s2", Some("10.42.0.7")),
            ("f", "2001:db8::7", None),
            ("g", "worker-10", Some("192.0.2.110")),
            ("h", "", None),
        ]);
        let expected = [(8, vec!["e/s2", "f/2001:db8::7"]), (4, vec!["d/igw-x2kqp"]), (3, vec!["c/s1"])];
        for (first, names_) in expected {
            assert_eq!(names(&node(), &all[..first]), names_);
        }
        assert_eq!(names(&node(), &all[..2]), ["a/worker-1", "b/worker-1.example.com"]);
        assert_eq!(names(&node(), &all[6..]), [""; 0]);
        assert_eq!(names(&Patterns::default(), &all[..3]), [""; 0]);
    }

    /// Exercises patterns with all that may stand in them, so that each fits what it says, and nothing by what is not known.
    #[test]
    fn patterns() {
        let all = rows(&[
            ("igw", "worker-1", None),
            ("igw", "worker-10", None),
            ("igw-tls", "edge-igw-x2kqp-8443", None),
            ("web", "10.42.0.7:80", None),
            ("web", "n192.0.2.11", None),
        ]);
        let of = |pattern: &str, patterns: Patterns| {
            names(&Patterns { servers: vec![pattern.parse().unwrap()], ..patterns }, &all)
        };
        assert_eq!(of("igw/worker-1", node()), ["igw/worker-1"]);
        assert_eq!(of("igw/{host}", node()), ["igw/worker-1"]);
        assert_eq!(of("igw*/*", node()).len(), 3);
        assert_eq!(of("*{namespace}-{pod}-*", node()), ["igw-tls/edge-igw-x2kqp-8443"]);
        assert_eq!(of("web/{ip}:*", node()), ["web/10.42.0.7:80"]);
        assert_eq!(of("*/*{node-ip}", node()), ["web/n192.0.2.11"]);
        assert_eq!(of("igw/{node}", node()), [""; 0]);
        assert_eq!(of("*/{host}*", Patterns::default()), [""; 0]);
        for wrong in ["", "/", "a/", "/b", "a/b/c", "a/{x}", "a/{pod"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }
}
