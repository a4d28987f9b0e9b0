//! What an LB says of one server.

use std::net::IpAddr;

use super::word::Serving;

/// One server of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub backend: String,
    pub server: String,
    /// The LB's own word.
    pub status: String,
    /// What it means; `None` where it tells nothing.
    pub serving: Option<Serving>,
    /// Where the server is, if the LB tells.
    pub address: Option<IpAddr>,
    /// How long it has been in this state, in whole seconds.
    pub since_s: Option<u64>,
    /// How long it has been down in all its life, in seconds.
    pub downtime_s: Option<f64>,
    /// How often it went down in all its life.
    pub downs: Option<f64>,
}

impl Row {
    /// A row that tells no more than its status.
    #[must_use]
    pub fn new(backend: &str, server: &str, status: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            server: server.to_owned(),
            status: status.to_owned(),
            serving: Serving::of(status),
            address: None,
            since_s: None,
            downtime_s: None,
            downs: None,
        }
    }

    /// `BACKEND/SERVER`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.backend, self.server)
    }
}

/// The address in HAProxy's `addr`: `10.0.0.1:80`, `[2001:db8::1]:80`, or without a port; `None` for a socket's path.
#[must_use]
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let host = match text.strip_prefix('[') {
        Some(inside) => inside.split(']').next()?,
        None => text.rsplit_once(':').filter(|(host, _)| !host.contains(':')).map_or(text, |(host, _)| host),
    };
    host.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the forms of an address, so that none is taken for another.
    #[test]
    fn addresses() {
        for (text, expected) in [
            ("10.0.0.1:80", Some("10.0.0.1")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("/run/s.sock", None),
            ("", None),
            ("[", None),
            ("abns@x:1", None),
        ] {
            assert_eq!(address(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }
}
