//! Why a verdict is what it is, in the words of an SRE.

use super::{
    blame::Blamed,
    fact::{Source, stamp},
    verdict::{Counts, Outcome, Picture},
};

/// The reasons, the weightiest first.
pub(super) fn of(outcome: Outcome, picture: &Picture<'_>, counts: &Counts) -> Vec<String> {
    let mut reasons = Vec::new();
    if outcome == Outcome::Protected {
        reasons.push(protected(picture, counts));
    }
    reasons.extend(["lb_flush", "killed", "proxy", "unknown"].iter().filter_map(|cause| cut(cause, picture)));
    if counts.in_doubt > 0 {
        reasons.push(format!(
            "{} given up by the client, or cut by the load balancer: whether it had marked the pod DOWN is not known",
            some(counts.in_doubt, "request was", "requests were")
        ));
    }
    if counts.uncertain > 0 {
        reasons.push(format!(
            "of {} it cannot be told whether a request was cut",
            some(counts.uncertain, "connection that ended", "connections that ended")
        ));
    }
    reasons.extend(gaps(picture));
    if !picture.is_drain {
        reasons.push(
            "nothing drained: hc told neither that it leaves OPEN nor a 503, and no deletion is known"
                .to_owned(),
        );
    } else if !picture.announced {
        reasons.push(
            "the pod was gone before its health sidecar or a deletion told that it would end: what was cut before is not told"
                .to_owned(),
        );
    }
    if picture.is_drain && picture.ended.is_none() {
        reasons.push("the drain has not ended, or its end was not recorded".to_owned());
    }
    reasons.extend(picture.lb.reason(picture));
    if counts.client_aborts > 0 {
        reasons.push(format!(
            "{} given up by the client while the LB was told 200: no fault of the drain",
            some(counts.client_aborts, "request was", "requests were")
        ));
    }
    reasons
}

fn protected(picture: &Picture<'_>, counts: &Counts) -> String {
    let ends = some(counts.ends, "connection ended", "connections ended");
    let mut text = format!("nothing was cut: {ends}, none of them with a request in flight");
    if let Some(zero) = picture.active_zero {
        if zero > picture.begun {
            let after = seconds(zero - picture.begun);
            text.push_str(&format!("; the last request ended {after} after the drain began"));
        } else {
            text.push_str("; no request was seen in flight from the drain's beginning on");
        }
        match picture.turned {
            Some(turned) if turned >= zero => {
                text.push_str(&format!(", {} before the LB was told 503", seconds(turned - zero)));
            }
            Some(turned) => {
                text.push_str(&format!(
                    ", {} after the LB was told 503, which cut nothing",
                    seconds(zero - turned)
                ));
            }
            None => {}
        }
    }
    text
}

/// What was not seen, each cause once.
fn gaps(picture: &Picture<'_>) -> Vec<String> {
    let mut causes: Vec<(Source, &str, i64, u64)> = Vec::new();
    for (_, source, length_us, why) in &picture.gaps {
        match causes.iter_mut().find(|(of, cause, ..)| of == source && cause == why) {
            Some((_, _, sum, times)) => (*sum, *times) = (sum.saturating_add(*length_us), *times + 1),
            None => causes.push((*source, why, *length_us, 1)),
        }
    }
    let told = |(source, why, length_us, times): (Source, &str, i64, u64)| {
        let during = if length_us > 0 { format!(" for {}", seconds(length_us)) } else { String::new() };
        let often = if times > 1 { format!(", {times} times") } else { String::new() };
        format!("{} not seen{during}{often}: {why}", what(source))
    };
    causes.into_iter().map(told).collect()
}

/// The cuts of one cause.
fn cut(cause: &str, picture: &Picture<'_>) -> Option<String> {
    let is_one = |blamed: &&Blamed<'_>| blamed.end.is_cut() && blamed.cause == cause;
    let cuts: Vec<_> = picture.ends.iter().filter(is_one).collect();
    let first = cuts.first()?.ts;
    let count = cuts.iter().fold(0_u64, |sum, blamed| sum.saturating_add(blamed.end.count));
    let requests = some(count, "request", "requests");
    let after = if picture.is_drain {
        format!("{} after the drain began", seconds(first - picture.begun))
    } else {
        format!("at {}", stamp(first))
    };
    Some(match cause {
        "lb_flush" => {
            let turned = picture.turned.filter(|turned| *turned <= first);
            let told = turned.map_or(format!(", the first {after}"), |turned| {
                let held =
                    held(picture, turned).map_or(String::new(), |held| format!(" with {held} in flight"));
                format!(", the first {} after it was told 503{held}", seconds(first - turned))
            });
            format!("the load balancer cut {requests}{told}")
        }
        "killed" => {
            let deadline = picture.deadline.filter(|deadline| first.abs_diff(*deadline) < 3_000_000);
            match deadline {
                Some(_) => format!("the grace period ended with {count} in flight: the proxy was killed"),
                None => format!("the proxy's process ended with {requests} in flight, {after}"),
            }
        }
        "proxy" => {
            format!("the proxy itself ended {requests} in flight, the first {after}")
        }
        _ => format!("{requests} cut by an unknown cause, the first {after}"),
    })
}

/// Counts that come so soon after an instant may be those of the instant: microseconds.
const AT_ONCE: i64 = 100_000;

/// Requests of clients in flight at an instant, as told last; `None` when more are told right after it.
fn held(picture: &Picture<'_>, at: i64) -> Option<u64> {
    let held = picture.clients.iter().rev().find(|(ts, _)| *ts <= at)?.1?;
    let is_more = |(ts, count): &(i64, Option<u64>)| {
        (at..at.saturating_add(AT_ONCE)).contains(ts) && count.is_some_and(|count| count > held)
    };
    (!picture.clients.iter().any(is_more)).then_some(held)
}

fn what(source: Source) -> &'static str {
    match source {
        Source::Kernel => "some ends of connections were",
        Source::Hc => "the health sidecar's state was",
        Source::Envoy => "the proxy's counts were",
        Source::Pods => "the pod itself was",
        Source::Lb => "the load balancer's word was",
        Source::Client => "why clients' requests failed was",
        Source::Record => "some facts were",
    }
}

fn some(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// Seconds with one digit where that says enough.
pub(super) fn seconds(us: i64) -> String {
    let seconds = us.unsigned_abs();
    let sign = if us < 0 { "-" } else { "" };
    if seconds < 1_000_000 {
        format!("{sign}0.{:03} s", seconds / 1000)
    } else {
        format!("{sign}{}.{} s", seconds / 1_000_000, seconds % 1_000_000 / 100_000)
    }
}
