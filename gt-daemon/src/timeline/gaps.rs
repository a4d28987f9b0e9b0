//! What was not seen of a drain: each of it keeps a drain from being called protected.

use super::{
    accounts::Account,
    drains::{DELETION, Drain, is_named},
    envoy_counters::{self, Counts},
    evidence::{Evidence, From},
    items::{Item, Items},
    lb::{Lb, SLACK},
    wire::conversation::{End, Phase},
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
    gaps.extend(unnamed(evidence, drain).map(|why| (Source::Pods, why)));
    gaps.extend(clients(evidence, drain, lb, items).map(|why| (Source::Client, why)));
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
    // That a client made an end follows from hc's state as well, unless a witness says so.
    let is_clients = |item: &Item| item.cause == Cause::ClientAbort && item.blamed;
    let all =
        items.iter().filter(|item| item.is_cut() && (from..begun).contains(&item.ts) && !is_clients(item));
    let count: u64 = all.map(|item| item.count).sum();
    (count > 0).then(|| {
        format!(
            "requests were cut just before the drain began ({count}): hc's log begins late, or clocks differ (--offset)"
        )
    })
}

/// With other pods there files that bear no pod's name are not taken for this one's. A cut that they prove in its time may be.
fn unnamed(evidence: &Evidence, drain: &Drain<'_>) -> Option<String> {
    let begun = drain.begun.filter(|_| !drain.alone)?;
    let is_in = |ts: i64| ts >= begun && ts < drain.until;
    let captured = others(evidence, drain, &evidence.captures).find(|from| {
        from.told.conversations.iter().any(|one| {
            let is_cut = |end: &End| is_in(end.ts) && matches!(end.phase, Phase::Awaiting | Phase::Streaming);
            one.end.as_ref().is_some_and(is_cut) || one.resets.iter().any(|(ts, _)| is_in(*ts))
        })
    });
    let logged =
        others(evidence, drain, &evidence.envoy_cuts).find(|from| from.told.iter().any(|cut| is_in(cut.ts)));
    // When counters were read is not told.
    let counted = others(evidence, drain, &evidence.after).find(|after| {
        let mut before = others(evidence, drain, &evidence.before);
        let cut = |before: &From<Option<Counts>>| envoy_counters::cut(&before.told?, &after.told?);
        before.any(|before| cut(before).is_some_and(|cut| cut > 0))
    });
    let file = captured
        .map(|from| &from.file)
        .or(logged.map(|from| &from.file))
        .or(counted.map(|from| &from.file))?;
    Some(format!(
        "{file} shows requests that were cut, and whose they were is not known: it bears no pod's name"
    ))
}

/// Files that are no pod's by their names.
fn others<'a, T>(
    evidence: &'a Evidence,
    drain: &'a Drain<'_>,
    all: &'a [From<T>],
) -> impl Iterator<Item = &'a From<T>> {
    let deleted = evidence.done.deleted.iter().map(|(_, name)| name.as_str());
    let pods: Vec<&str> = deleted.chain(drain.pod).collect();
    all.iter().filter(move |from| !pods.iter().any(|pod| is_named(&from.file, pod)))
}

/// What clients met that nothing else explains: a cut in the drain that was none of a client, or a request that the LB answered
/// itself with an error.
fn clients(evidence: &Evidence, drain: &Drain<'_>, lb: &Lb<'_>, items: &Items) -> Option<String> {
    if let Some(from) = evidence.clients.iter().find(|from| !from.whole) {
        return Some(format!("what clients saw is not whole ({})", from.file));
    }
    let failures = evidence.clients.iter().flat_map(|from| &from.told.failures);
    let failures = failures.filter(|failure| match (failure.ts, drain.begun) {
        (Some(ts), Some(begun)) => ts >= begun && ts < drain.until,
        _ => true,
    });
    // The LB's own time limit looks like a client's end from the pod's side, and gives the client an error.
    let timed_out = lb.timed_out.min(items.given_up());
    let known = items.cuts_of_drain().saturating_add(lb.refused).saturating_add(timed_out);
    let failures = failures.count() as u64;
    (failures > known)
        .then(|| format!("{failures} requests of clients failed, and {known} of them are explained"))
}
