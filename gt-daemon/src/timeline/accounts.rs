//! Who has an account of every request of a drain, and so can tell that nothing else was cut; and when a drain was over.
//!
//! | Account | What it takes |
//! |---|---|
//! | Envoy's counters | before and after, both whole, of one Envoy, with nothing in flight at the second; no more cuts than are known |
//! | HAProxy's log | whole; each log marked each of the pod's servers that it tells of DOWN, tells how many sessions it had, and how each of these ended; no server is in none; no request was tried again; nobody else dialled the pod |
//! | HAProxy's statistics | whole; looks of each of the pod's servers from before the drain until it is DOWN without a session, by one HAProxy; counts of broken answers in each; nobody else dialled the pod |
//!
//! What is damaged can prove a cut. It is no account.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    drains::Drain,
    envoy_counters,
    evidence::Evidence,
    haproxy_stats::Look,
    items::Items,
    lb::{Lb, SLACK},
    wire::conversation::Conversation,
};
use crate::lb::word::Serving;

/// Whether there is an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    Exact,
    /// And why not.
    None(String),
}

/// Looks for an account, and settles by it what is uncertain.
pub fn settle(
    evidence: &Evidence,
    drain: &Drain<'_>,
    lb: &Lb<'_>,
    users: &[&Conversation],
    items: &mut Items,
) -> Account {
    let known = items.met_by_envoy();
    let counted = envoy(evidence, drain, lb);
    if let Ok(cut) = &counted
        && *cut > known
    {
        let last = items.iter().map(|item| item.ts).max();
        let begun = drain.begun.unwrap_or(0);
        items.add_unplaced(last.unwrap_or(begun).max(begun), cut - known);
        return Account::None(format!("Envoy counted {cut} cuts, and the other files tell of {known}"));
    }
    let by_lb = log(drain, lb, users).or_else(|log| looks(drain, lb, users).map_err(|looks| (log, looks)));
    match (counted, by_lb) {
        (Ok(_), _) | (_, Ok(())) => {
            items.nothing_else();
            Account::Exact
        }
        (Err(envoy), Err((log, looks))) => Account::None(format!(
            "nothing accounts for every request (Envoy's counters: {envoy}; HAProxy's log: {log}; HAProxy's statistics: {looks})"
        )),
    }
}

/// How many requests Envoy counted as cut.
fn envoy(evidence: &Evidence, drain: &Drain<'_>, lb: &Lb<'_>) -> Result<u64, &'static str> {
    let (before, after) = (drain.files(&evidence.before), drain.files(&evidence.after));
    let ([before], [after]) = (before.as_slice(), after.as_slice()) else {
        return Err("they are not there from before and after");
    };
    let (Some(before), Some(after)) = (&before.told, &after.told) else {
        return Err("one of them is not whole");
    };
    let cut = envoy_counters::cut(before, after).ok_or("they began anew between the looks")?;
    let begun = drain.begun.unwrap_or(0);
    let lasted = lb.downs(begun.saturating_sub(SLACK)).iter().map(|down| down.ts.saturating_sub(begun)).max();
    if !envoy_counters::may_have_lived(before, after, lasted.filter(|_| drain.begun.is_some()).unwrap_or(0)) {
        return Err("Envoy ran for less time between them than the drain took");
    }
    match after.active {
        None => Err("the second look does not tell what was in flight"),
        Some(0) => Ok(cut),
        Some(_) => Err("requests were still in flight at the second look"),
    }
}

/// Whether all who dialled the pod may have been the LB: they had one address.
fn all_by_lb(users: &[&Conversation]) -> bool {
    users.iter().map(|one| one.client.ip()).collect::<BTreeSet<IpAddr>>().len() <= 1
}

fn log(drain: &Drain<'_>, lb: &Lb<'_>, users: &[&Conversation]) -> Result<(), &'static str> {
    let begun = drain.begun.ok_or("nothing drained")?;
    if !lb.log_is_whole {
        return Err("it is not there, or not whole");
    }
    if !all_by_lb(users) {
        return Err("the capture shows others than the LB");
    }
    if lb.retries > 0 {
        return Err("requests were tried again, and what they met first is not in it");
    }
    let is_told = |server: &&&str| lb.logs.iter().any(|log| log.server == **server);
    if lb.servers.is_empty() || lb.servers.iter().filter(is_told).count() < lb.servers.len() {
        return Err("it does not tell of each of the pod's servers");
    }
    for log in &lb.logs {
        let down = log.downs.iter().filter(|(ts, _)| *ts >= begun - SLACK).min();
        let (down, sessions) = down.ok_or("it has no DOWN of the pod's server")?;
        let sessions = sessions.ok_or("it does not tell how many sessions there were at DOWN")?;
        let told = log.ends.iter().filter(|ts| *ts >= down).count() as u64;
        if told < sessions {
            return Err("it does not tell how each session ended that was there at DOWN");
        }
    }
    Ok(())
}

fn looks(drain: &Drain<'_>, lb: &Lb<'_>, users: &[&Conversation]) -> Result<(), &'static str> {
    let begun = drain.begun.ok_or("nothing drained")?;
    if !lb.looks_are_whole || lb.looks.is_empty() {
        return Err("they are not there, or not whole");
    }
    if !all_by_lb(users) {
        return Err("the capture shows others than the LB");
    }
    if !lb.servers.iter().all(|server| lb.looks.iter().any(|(looked, _)| looked == server)) {
        return Err("they do not have each of the pod's servers");
    }
    for (_, looks) in &lb.looks {
        if looks.first().is_none_or(|look| look.ts > begun) {
            return Err("they begin after the drain");
        }
        let counts: Option<Vec<u64>> = looks.iter().map(|look| look.broken).collect();
        let counts = counts.ok_or("they have no columns eresp and srv_abrt")?;
        if !counts.is_sorted() || looks.windows(2).any(is_anew) {
            return Err("they began anew in the drain");
        }
        if looks.windows(2).any(hides_sessions) {
            return Err(
                "the last one before DOWN has sessions, and counts nothing that shows that HAProxy lived on",
            );
        }
        if !looks.iter().any(|look| is_empty(look.serving, look.sessions) && look.ts >= begun) {
            return Err("they end before the pod is DOWN and has no session");
        }
    }
    Ok(())
}

/// Whether a server that stayed what it was is so for a shorter time than before: HAProxy was started anew between two looks.
fn is_anew(pair: &[Look]) -> bool {
    let is_down = |look: &Look| look.serving == Some(Serving::Down);
    matches!(pair, [before, after] if is_down(before) == is_down(after)
        && before.since.zip(after.since).is_some_and(|(before, after)| after < before))
}

/// Whether a server had sessions when it was last seen before its DOWN, and no count that a HAProxy which was started anew
/// would have lost.
fn hides_sessions(pair: &[Look]) -> bool {
    matches!(pair, [before, after] if before.serving != Some(Serving::Down)
        && after.serving == Some(Serving::Down)
        && before.sessions != Some(0)
        && before.broken.is_none_or(|broken| broken == 0)
        && after.broken.is_none_or(|broken| broken == 0))
}

fn is_empty(serving: Option<Serving>, sessions: Option<u64>) -> bool {
    serving == Some(Serving::Down) && sessions == Some(0)
}

/// When the drain was over: the LB sent nothing any more, and nothing was in flight. `None` when that was not seen.
pub fn ended(evidence: &Evidence, drain: &Drain<'_>, lb: &Lb<'_>, begun: i64) -> Option<i64> {
    let downs = lb.downs(begun - SLACK);
    if downs.len() < lb.servers.len() {
        return None;
    }
    let down = downs.iter().map(|down| down.ts).max()?;
    // By Envoy: the last number that it told.
    let by_envoy = drain.files(&evidence.active).into_iter().filter(|from| from.whole).filter_map(|from| {
        let (ts, downstream, upstream) = from.told.changes.last()?;
        (downstream.zip(*upstream) == Some((0, 0))).then_some(*ts)
    });
    // By the LB: its number of sessions at DOWN and afterwards.
    let by_looks = lb.looks.iter().flat_map(|(_, looks)| *looks).filter_map(|look| {
        (lb.looks_are_whole && is_empty(look.serving, look.sessions) && look.ts >= down).then_some(look.ts)
    });
    let had_none = downs.iter().all(|down| down.sessions == Some(0)) && lb.log_is_whole;
    let empty = by_envoy.chain(by_looks).chain(had_none.then_some(down)).min()?;
    Some(empty.max(down))
}
