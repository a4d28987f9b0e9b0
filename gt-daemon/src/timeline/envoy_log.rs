//! `envoy.log`: requests that Envoy's access log shows as cut, by their response flags.
//!
//! Envoy's own form, Istio's, JSON, and words such as `code=0 flags=DC`. What a log shows is proof of a cut; what it does
//! not show proves nothing, since Envoy writes late and not at all when it is killed.

use std::{
    io::{self, BufRead},
    net::SocketAddr,
};

use super::{lines, note::Notes, stamped};
use crate::hc::log::fields;

/// Requests that are kept.
const MOST: usize = 65_536;

/// A request that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub ts: i64,
    /// Whether the other side ended it, else the service behind Envoy did.
    pub by_peer: bool,
    pub http2: bool,
    pub remote: Option<SocketAddr>,
}

/// Reads the log.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Vec<Cut>> {
    let mut cuts = Vec::new();
    lines::each(file, notes, |number, text, notes| {
        let Some(cut) = request(text).and_then(Request::cut) else { return };
        if cuts.len() < MOST {
            cuts.push(cut);
        } else {
            notes.damaged(
                Some(number),
                format!("is beyond the first {MOST} requests that were cut"),
                "cut the log",
            );
        }
    })?;
    Ok(cuts)
}

#[derive(Debug, Default)]
struct Request {
    begun: i64,
    milliseconds: i64,
    code: u16,
    flags: String,
    protocol: String,
    remote: Option<SocketAddr>,
}

impl Request {
    /// `DC`: the connection ended; `DR`: the stream was reset. `UC`, `UR`, `UPE` and `LR` after the answer's head: the
    /// service behind broke it off; with a status of Envoy's own the client was answered.
    fn cut(self) -> Option<Cut> {
        let has = |flags: &[&str]| self.flags.split(',').any(|flag| flags.contains(&flag));
        let by_peer = has(&["DC", "DR", "DownstreamConnectionTermination", "DownstreamRemoteReset"]);
        let by_itself = has(&["UC", "UR", "UPE", "LR"]) && (200..400).contains(&self.code);
        (by_peer || by_itself).then(|| Cut {
            ts: self.begun.saturating_add(self.milliseconds.saturating_mul(1000)),
            by_peer,
            http2: self.protocol == "HTTP/2",
            remote: self.remote,
        })
    }
}

fn request(text: &str) -> Option<Request> {
    classic(text).or_else(|| words(text))
}

/// `[START] "METHOD PATH PROTOCOL" CODE FLAGS ..`, with the time of whoever kept the log before it or not.
fn classic(text: &str) -> Option<Request> {
    let (before, rest) = text.split_once("] \"")?;
    let begun = stamped::instant(before.rsplit('[').next()?)?;
    let (line, rest) = rest.split_once('"')?;
    let words = tokens(rest);
    let word = |index: usize| words.get(index).map(String::as_str);
    // Envoy's own form has numbers of bytes after the flags; Istio's has details, why a connection ended, why TLS failed.
    let duration = if word(2)?.parse::<u64>().is_ok() { 4 } else { 7 };
    let remote = if duration == 7 { word(17) } else { None };
    Some(Request {
        begun,
        milliseconds: word(duration)?.parse().ok()?,
        code: word(0)?.parse().ok()?,
        flags: word(1)?.to_owned(),
        protocol: line.rsplit(' ').next()?.to_owned(),
        remote: remote.and_then(|remote| remote.parse().ok()),
    })
}

/// JSON with Istio's names, or words of the form `name=value` after the start.
fn words(text: &str) -> Option<Request> {
    let fields = fields::of(text.as_bytes());
    let get = |names: &[&str]| {
        fields.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value.as_str())
    };
    let plain = || fields.iter().filter(|(key, _)| key.is_empty()).take(3).map(|(_, word)| word.as_str());
    let begun =
        get(&["start_time"]).and_then(stamped::instant).or_else(|| plain().find_map(stamped::instant))?;
    let protocol = get(&["protocol"])
        .or_else(|| fields.iter().map(|(_, word)| word.as_str()).find(|word| word.starts_with("HTTP/")));
    Some(Request {
        begun,
        milliseconds: get(&["duration", "dur"])?.parse().ok()?,
        code: get(&["response_code", "code"])?.parse().ok()?,
        flags: get(&["response_flags", "flags"])?.to_owned(),
        protocol: protocol.unwrap_or_default().to_owned(),
        remote: get(&["downstream_remote_address", "down"]).and_then(|remote| remote.parse().ok()),
    })
}

/// Words, and what stands in quotes as one.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && tokens.len() < 32 {
        let (token, after) = match rest.strip_prefix('"') {
            Some(inside) => inside.split_once('"').unwrap_or((inside, "")),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        tokens.push(token.to_owned());
        rest = after.trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cuts(text: &str) -> Vec<Cut> {
        read(text.as_bytes(), &mut Notes::on("envoy.log")).unwrap()
    }

    /// Exercises the forms of real Envoys' logs, so that each cut is told with its end, and nothing else is a cut.
    #[test]
    fn forms() {
        let default = "2026-11-30T17:28:57.613615Z [2026-11-30T17:28:56.921Z] \"GET /sleep HTTP/1.1\" 0 DC 0 0 691 - \"-\" \"-\" \"id\" \"gt\" \"127.0.0.1:9000\"\n";
        let istio = "[2026-11-30T17:28:56.921Z] \"GET / HTTP/2\" 0 DR http2.remote_reset - \"-\" 0 0 691 - \"-\" \"curl/7.88.1\" \"id\" \"a.b\" \
             \"10.0.0.1:80\" outbound|80||a 10.0.0.2:3 10.0.0.2:8443 10.0.0.9:5555 sni -\n";
        let json = "{\"start_time\":\"2026-11-30T17:28:56.921Z\",\"duration\":691,\"response_code\":0,\"response_flags\":\"DC\",\"protocol\":\"HTTP/1.1\",\
             \"downstream_remote_address\":\"10.0.0.9:5555\"}\n";
        let words = "ACC 1796059736.921000 dur=691 HTTP/1.1 /sleep code=0 flags=DC det=x bytes=0 ctd=- down=10.0.0.9:5555 up=127.0.0.1:1\n";
        let remote = Some("10.0.0.9:5555".parse().unwrap());
        for (text, http2, remote) in
            [(default, false, None), (istio, true, remote), (json, false, remote), (words, false, remote)]
        {
            assert_eq!(
                cuts(text),
                [Cut { ts: 1_796_059_737_612_000, by_peer: true, http2, remote }],
                "{text}"
            );
        }
        let broken_off = default.replace("0 DC", "200 UC");
        assert!(!cuts(&broken_off)[0].by_peer);
        for other in [
            default.replace("0 DC", "200 -"),
            default.replace("0 DC", "503 UC"),
            default.replace("0 DC", "504 UT"),
            "[2026-11-30 07:11:40.427][13040][info][main] x\n".to_owned(),
        ] {
            assert!(cuts(&other).is_empty(), "{other}");
        }
    }

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in ".{0,120}\n", tail in ".{0,60}") {
            let _whatever = cuts(&text);
            let _whatever = cuts(&format!("[2026-11-30T17:28:56.921Z] \"{tail}\" {text}"));
        }
    }
}
