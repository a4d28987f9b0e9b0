//! What was not seen of a drain: each of it keeps a drain from being called protected.

use super::{
    accounts::Account,
    drains::{DELETION, Drain},
    evidence::Evidence,
    items::Items,
    lb::{Lb, SLACK},
};
use crate::{correlate::cause::Cause, drain::fact::Source};

/// All of it, with whose word is missing.
#[must_use]
pub fn gaps(
    evidence: &Evidence,
    drain: &Drain<'_>,
    lb: &Lb<'_>,
    account: &Account,
    items: &Items,
) -> Vec<(Source, String)> {
    let mut gaps = Vec::new();
    gaps.extend(hc(evidence, drain, lb).map(|why| (Source::Hc, why)));
    gaps.extend(just_before(drain, lb, items).map(|why| (Source::Hc, why)));
    if let Account::None(why) = account {
        gaps.push((Source::Envoy, why.clone()));
    }
    let at_once = drain.life.is_some_and(|life| life.changes.iter().any(|(ts, ..)| *ts >= drain.until));
    if at_once {
        gaps.push((
            Source::Pods,
            "another pod's drain began before this one's was over: files without a pod's name tell of both"
                .to_owned(),
        ));
    }
    let failures = evidence.failures.iter().filter(|failure| match (failure.ts, drain.begun) {
        (Some(ts), Some(begun)) => ts >= begun && ts < drain.until,
        _ => drain.alone,
    });
    let (failures, known) = (failures.count() as u64, items.cuts().saturating_add(lb.refused));
    if failures > known {
        gaps.push((
            Source::Client,
            format!("{failures} requests of clients failed, and {known} of them are explained"),
        ));
    }
    gaps
}

/// What hc's log does not tell, or tells wrongly.
fn hc(evidence: &Evidence, drain: &Drain<'_>, lb: &Lb<'_>) -> Option<String> {
    if evidence.lives.is_empty() {
        return Some("there is no hc.log".to_owned());
    }
    let mut files = drain.files(&evidence.lives).into_iter().chain(&evidence.lives);
    if let Some(from) = files.find(|from| !from.whole) {
        return Some(format!("{} is not whole", from.file));
    }
    if drain.begun.is_some() && drain.life.is_some_and(|life| !life.has_its_turn()) {
        let why = "hc's log begins after its turn from OPEN, or leaves out a transition: lines are missing";
        return Some(why.to_owned());
    }
    let is_told_200 = |ts: i64| drain.hc_at(ts).shown_up() == Some(true);
    let downs = lb.downs(drain.begun? - SLACK);
    downs
        .iter()
        .any(|down| down.by_answer && is_told_200(down.ts))
        .then(|| "the LB took the pod for DOWN while hc's log has it at 200: lines are missing".to_owned())
}

/// Requests that were cut before the drain began, though no client did it. The verdict leaves them out; but the beginning is
/// only as good as hc's log and the clocks. What was before the server's last UP is another pod's.
fn just_before(drain: &Drain<'_>, lb: &Lb<'_>, items: &Items) -> Option<String> {
    let begun = drain.begun?;
    let from = begun.saturating_sub(DELETION).max(lb.last_up(begun).unwrap_or(i64::MIN));
    let is_one = |ts: i64, cause: Cause| (from..begun).contains(&ts) && cause != Cause::ClientAbort;
    let all = items.iter().filter(|item| item.is_cut() && is_one(item.ts, item.cause));
    let count: u64 = all.map(|item| item.count).sum();
    (count > 0).then(|| {
        format!(
            "requests were cut just before the drain began ({count}): hc's log begins late, or clocks differ (--offset)"
        )
    })
}
