//! `haproxy.log`: HAProxy's log, as syslog or alone: servers that went down or came up, and sessions with how they ended.
//!
//! `option httplog` and `option tcplog`, with an ISO time before: `log .. format rfc5424` or `iso`, or rsyslog's.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, BufRead},
    net::SocketAddr,
};

use super::{hc_log::short, lines, note::Notes, stamped};

/// Sessions that ended badly, and changes of servers, that are kept.
const MOST: usize = 65_536;

/// A session that did not end as it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub ts: i64,
    /// `BACKEND/SERVER`.
    pub server: String,
    /// What the client was told; `None` in TCP mode, -1 when nothing.
    pub status: Option<i32>,
    /// Who ended it (`C`, `S`, `D`, ..), and in which phase (`H`, `D`, ..).
    pub who: char,
    pub phase: char,
}

impl Session {
    /// Whether a request was with the server and its answer not whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        // What never came to the server, and what was over, was not cut there.
        self.who != '-' && matches!(self.phase, 'H' | 'D') && !self.server.ends_with("/<NOSRV>")
    }
}

/// A server that went down or came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub ts: i64,
    pub server: String,
    pub up: bool,
    /// Sessions it had, where HAProxy tells.
    pub sessions: Option<u64>,
    /// Whether an answer of the server was the reason; else nobody answered.
    pub by_answer: bool,
}

/// What a log tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub changes: Vec<Change>,
    pub sessions: Vec<Session>,
    /// By server, when each session ended, well or not; in order of the log, bounded.
    pub ends: BTreeMap<String, Vec<i64>>,
    /// By server, when a request was tried again: what it met first is in no line.
    pub retries: BTreeMap<String, Vec<i64>>,
    count: usize,
}

impl Told {
    fn full(&mut self, number: u64, notes: &mut Notes) -> bool {
        self.count += 1;
        if self.count > MOST * 4 {
            notes.damaged(
                Some(number),
                format!("is beyond the first {} lines", MOST * 4),
                "cut the log to the drain",
            );
        }
        self.count > MOST * 4
    }
}

/// Reads the log. The same end of a session counts once, however often its line is there. A last line that is cut off can still
/// prove a cut, and is an end of none that is counted.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Told> {
    let (mut told, mut seen) = (Told::default(), BTreeSet::new());
    let last = lines::each_but_last(file, notes, |number, text, notes| {
        if let Some((server, up, rest)) = change(text) {
            let Some(ts) = time(text) else { return no_time(number, text, notes) };
            if !told.full(number, notes) {
                let sessions = before(rest, " sessions active");
                let by_answer = rest.contains("reason: Layer7") && !rest.contains("Layer7 timeout");
                told.changes.push(Change { ts, server: server.to_owned(), up, sessions, by_answer });
            }
        } else if let Some(ended) = session(text) {
            let Some(ts) = time(text) else { return no_time(number, text, notes) };
            if seen.insert(hash(text)) && !told.full(number, notes) {
                told.ends.entry(ended.server.clone()).or_default().push(ts);
                if ended.retries {
                    told.retries.entry(ended.server.clone()).or_default().push(ts);
                }
                told.sessions.extend(ended.at(ts));
            }
        } else if is_like_a_session(text) {
            let why = format!("looks like a session and is none: {}", short(text));
            notes.damaged(Some(number), why, "use option httplog or tcplog, and copy the log again");
        }
    })?;
    let ended = last.as_deref().and_then(|text| session(text)?.at(time(text)?));
    told.sessions.extend(ended.filter(Session::is_cut));
    Ok(told)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Whether a line that is no session that can be read may tell of one: in another form (JSON, logfmt, a log-format of its own), or
/// when one began. A line that tells why a connection had no session, `fe/1: SSL handshake failure`, does not.
fn is_like_a_session(text: &str) -> bool {
    let mut words = text.split(' ');
    if words.by_ref().any(is_accepted) {
        return !words.next().is_some_and(|place| place.ends_with(':'));
    }
    let pairs = text.split(' ').filter(|word| word.split_once('=').is_some_and(|(key, _)| !key.is_empty()));
    let is_json = text.split_once('{').is_some_and(|(_, rest)| rest.trim_start().starts_with('"'));
    let has_peer = text.split([' ', '"', '=', ',']).any(|word| word.parse::<SocketAddr>().is_ok());
    let is_quoted = text.contains(" [") && text.contains("] ") && text.contains('/') && text.contains('"');
    is_json || is_quoted || has_peer || pairs.take(3).count() == 3
}

fn no_time(number: u64, text: &str, notes: &mut Notes) {
    let why = format!("begins with no time in UTC: {}", short(text));
    notes.damaged(Some(number), why, "have HAProxy log with `format rfc5424` or `format iso`");
}

/// The time before the message: the first word that is one, of the first three (`<134>1 TIME ..`, `TIME host ..`).
fn time(text: &str) -> Option<i64> {
    text.split(' ').take(3).find_map(stamped::instant)
}

/// `Server BACKEND/NAME is DOWN, ..`: the server, whether it came up, and the rest.
fn change(text: &str) -> Option<(&str, bool, &str)> {
    // A request may hold these words, in quotes: such a line is no change.
    let message = text.split_once('"').map_or(text, |(before, _)| before);
    let (_, rest) = message.split_once("Server ")?;
    let (server, verb) = rest.split_once(" is ")?;
    let up = match verb.split([' ', ',', '.']).next()? {
        "UP" => true,
        "DOWN" => false,
        _ => return None,
    };
    (server.contains('/') && !server.contains(' ')).then_some((server, up, text))
}

/// The number before some words.
fn before(text: &str, words: &str) -> Option<u64> {
    text.split(words).next().filter(|head| head.len() < text.len())?.rsplit(' ').next()?.parse().ok()
}

struct Ended {
    server: String,
    status: Option<i32>,
    who: char,
    phase: char,
    retries: bool,
}

impl Ended {
    /// As a session, where it did not end as it should have.
    fn at(self, ts: i64) -> Option<Session> {
        let Self { server, status, who, phase, .. } = self;
        (who != '-').then_some(Session { ts, server, status, who, phase })
    }
}

/// `CLIENT [ACCEPTED] FRONTEND BACKEND/SERVER TIMES [STATUS] BYTES [- -] TERMINATION COUNTS QUEUES ["REQUEST"]`
fn session(text: &str) -> Option<Ended> {
    let text = text.split_once(" \"").map_or(text, |(fields, _)| fields);
    let mut words = text.split(' ').skip_while(|word| !is_accepted(word)).skip(1);
    let (_frontend, server, times) = (words.next()?, words.next()?, words.next()?);
    let status = match times.split('/').count() {
        5 => Some(words.next()?.parse().ok()?),
        3 => None,
        _ => return None,
    };
    let _bytes: u64 = words.next()?.trim_start_matches('+').parse().ok()?;
    if status.is_some() {
        // Cookies of request and answer.
        words.next()?;
        words.next()?;
    }
    let (termination, counts) = (words.next()?, words.next()?);
    if termination.len() != if status.is_some() { 4 } else { 2 } {
        return None;
    }
    let mut letters = termination.chars();
    // Connections of all kinds, and retries last: with a `+` when the last of them was to another server.
    let retries = counts.rsplit('/').next()?;
    let is_retried = retries.trim_start_matches('+').parse::<u32>().ok()? > 0;
    server.contains('/').then(|| Ended {
        server: server.to_owned(),
        status,
        who: letters.next().unwrap_or('-'),
        phase: letters.next().unwrap_or('-'),
        retries: is_retried || retries.starts_with('+'),
    })
}

/// `[30/Nov/2026:07:11:43.828]`
fn is_accepted(word: &str) -> bool {
    let inside = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    inside.is_some_and(|date| {
        date.len() >= 20 && date.matches('/').count() == 2 && date.matches(':').count() == 3
    })
}

#[cfg(test)]
#[path = "haproxy_log_tests.rs"]
mod tests;
