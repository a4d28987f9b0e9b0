//! Where an LB is asked, as the command line names it.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Uri, uri::Scheme};

/// One LB.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// What it is called in logs and records: never with a password.
    pub name: Arc<str>,
    pub(super) way: Way,
}

/// How it is reached.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Way {
    Http {
        /// Host and port, as a socket is connected to.
        address: String,
        /// Path and query.
        path: String,
        /// What `Authorization` says.
        authorization: Option<String>,
    },
    Unix(PathBuf),
    Tcp(String),
}

const HELP: &str = "use http://HOST:PORT/PATH;csv, http://HOST:PORT/metrics, unix:/PATH or tcp:HOST:PORT";

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (kind, rest) = text.split_once(':').ok_or_else(|| format!("{text:?} is no LB: {HELP}"))?;
        match kind {
            "unix" if rest.starts_with('/') => {
                Ok(Self { name: rest.into(), way: Way::Unix(PathBuf::from(rest)) })
            }
            "tcp" => {
                let address = rest.trim_start_matches("//");
                if !has_port(address) {
                    return Err(format!("{text:?} names no host and port: {HELP}"));
                }
                Ok(Self { name: address.into(), way: Way::Tcp(address.to_owned()) })
            }
            "http" => url(text),
            "https" => Err(format!("an LB is not asked by https: {HELP}")),
            _ => Err(format!("{kind:?} is no way to an LB: {HELP}")),
        }
    }
}

/// `http://[USER:PASSWORD@]HOST[:PORT]/PATH`. An error does not repeat what may be a password.
fn url(text: &str) -> Result<Source, String> {
    let wrong = || format!("this is no address of an LB's statistics: {HELP}");
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP)).ok_or_else(wrong)?;
    let (user, host) = match authority.as_str().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.as_str()),
    };
    if host.is_empty() || host.starts_with(':') {
        return Err(wrong());
    }
    let address = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let authorization = user.map(|user| format!("Basic {}", BASE64_STANDARD.encode(decoded(user))));
    Ok(Source { name: address.as_str().into(), way: Way::Http { address, path, authorization } })
}

/// Whether a port stands at the end: an IPv6 address has colons of its own, inside brackets.
fn has_port(address: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    address.rsplit_once(':').is_some_and(|(host, port)| {
        is_port(port) && !host.is_empty() && (!host.contains(':') || host.ends_with(']'))
    })
}

/// With `%40` and the like resolved, as a password with a colon or an at sign is written.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(b'%'));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Source").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises each form of an address, so that names and ways are as expected.
    #[test]
    fn forms() {
        let of = |text: &str| text.parse::<Source>().unwrap();
        let http = |address: &str, path: &str, authorization: Option<&str>| Source {
            name: address.into(),
            way: Way::Http {
                address: address.to_owned(),
                path: path.to_owned(),
                authorization: authorization.map(str::to_owned),
            },
        };
        assert_eq!(of("http://lb:8404/stats;csv"), http("lb:8404", "/stats;csv", None));
        assert_eq!(of(" http://lb/metrics?scope=server "), http("lb:80", "/metrics?scope=server", None));
        assert_eq!(of("http://[::1]:8404"), http("[::1]:8404", "/", None));
        // "admin:p@ss" in base64.
        assert_eq!(
            of("http://admin:p%40ss@lb:1/s;csv"),
            http("lb:1", "/s;csv", Some("Basic YWRtaW46cEBzcw=="))
        );
        let other = |name: &str, way| Source { name: name.into(), way };
        assert_eq!(of("unix:/run/h.sock"), other("/run/h.sock", Way::Unix("/run/h.sock".into())));
        for address in ["10.0.0.9:9999", "[::1]:9999"] {
            assert_eq!(of(&format!("tcp:{address}")), other(address, Way::Tcp(address.to_owned())));
        }
    }

    /// Exercises wrong ones, so that each is answered with the right forms, and none with a password.
    #[test]
    fn wrong() {
        for text in [
            "",
            "lb",
            "unix:",
            "unix:run/h",
            "tcp:lb",
            "tcp:::1",
            "tcp::80",
            "https://lb/",
            "http:lb",
            "ftp://x/",
            "http://",
        ] {
            let error = text.parse::<Source>().unwrap_err();
            assert!(error.contains("tcp:HOST:PORT"), "{text}: {error}");
        }
        let error = "http://admin:secret@lb:99999999/ x".parse::<Source>().unwrap_err();
        assert!(!error.contains("secret"), "{error}");
        let source: Source = "http://admin:secret@lb:1/".parse().unwrap();
        assert!(!format!("{source:?}").contains("secret"));
    }

    /// Exercises percent signs, so that those that encode nothing stay.
    #[test]
    fn percent() {
        assert_eq!(decoded("a%3Ab%zz%4"), b"a:b%zz%4");
        assert_eq!(decoded("%%41"), b"%A");
    }
}
