//! Compares what happened, as client and LB saw it, with what the daemon counted. Pure: no clock, no I/O.

use std::time::Duration;

use crate::stage::counts::Counts;

/// The 502 comes from HAProxy at once; more than this after DOWN, something else ended the request.
const SAME_INSTANT: Duration = Duration::from_millis(500);

/// What was seen of the one long request, and the daemon's numbers around its end.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The client's status, or why it got none.
    pub(super) reply: Result<u16, String>,
    /// When the client had it, counted from its request.
    pub(super) ended: Duration,
    /// How long the request would have taken.
    pub(super) asked: Duration,
    /// When HAProxy marked its server DOWN, counted alike; `None` when it never did.
    pub(super) down: Option<Duration>,
    pub(super) before: Counts,
    pub(super) after: Counts,
}

/// What follows from it. Anything in `contradictions` means that the demo proved nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) contradictions: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Judges a run.
pub(super) fn judge(observed: &Observed) -> Findings {
    let mut findings = Findings::default();
    findings.contradictions.extend(client(observed));
    findings.contradictions.extend(load_balancer(observed));
    connections(observed, &mut findings);
    cuts(observed, &mut findings);
    findings
}

fn client(observed: &Observed) -> Option<String> {
    match &observed.reply {
        Ok(502) if observed.ended < observed.asked => None,
        Ok(502) => Some("the client's 502 came after the time it had asked for: nothing was cut".to_owned()),
        Ok(status) => Some(format!("the client got {status}, not the 502 of a cut request")),
        Err(error) => Some(format!("the client got no answer at all: {error}")),
    }
}

fn load_balancer(observed: &Observed) -> Option<String> {
    let Some(down) = observed.down else {
        return Some("HAProxy never marked its server DOWN".to_owned());
    };
    // HAProxy writes its log before it shuts the sessions, but the two reach the demo by different ways.
    (observed.ended.abs_diff(down) > SAME_INSTANT).then(|| {
        format!(
            "the request ended {} ms away from DOWN: not by it",
            observed.ended.abs_diff(down).as_millis()
        )
    })
}

fn connections(observed: &Observed, findings: &mut Findings) {
    for (what, name, count) in [
        ("open", "gt_connections_opened_total", observed.after.opened),
        ("closed", "gt_connections_closed_total", observed.after.closed_since(&observed.before)),
    ] {
        let contradiction = match count {
            Some(count) if count > 0.0 => continue,
            Some(_) => format!("gt counted no {what} connection of the pod's gateway"),
            None => format!("gt has no {name} for the gateway"),
        };
        findings.contradictions.push(contradiction);
    }
    let told_apart = observed.after.told_apart;
    if !told_apart {
        findings.notes.push(
            "this host has cgroup v1, so gt counts the pod as a whole: health checks and Envoy's connections to the app are in these numbers."
                .to_owned(),
        );
    }
    match observed.after.rsts_since(&observed.before) {
        None => findings.contradictions.push("gt has no gt_rst_total".to_owned()),
        Some(new) if !new.iter().any(|(kind, _)| kind.is_gateway_rst("received")) => findings.notes.push(
            "no RST followed HAProxy's FIN this time, as happens when Envoy closes first: a count of RSTs alone would have missed this cut."
                .to_owned(),
        ),
        // HAProxy ends some of its health checks with an RST.
        Some(_) if !told_apart => findings.notes.push(
            "the new RST may be a health check's: these numbers do not tell whether one followed HAProxy's FIN."
                .to_owned(),
        ),
        Some(_) => {}
    }
}

fn cuts(observed: &Observed, findings: &mut Findings) {
    let Some(cuts) = observed.after.cuts_since(&observed.before) else {
        findings.notes.push(
            "this gt-daemon has no gt_inflight_cuts_total: that the closed connection carried a request is known from the client's 502, not from gt."
                .to_owned(),
        );
        return;
    };
    let count = cuts.iter().fold(0.0, |sum, (_, count)| sum + count);
    if (count - 1.0).abs() > f64::EPSILON {
        findings.contradictions.push(format!("one request was cut, gt counted {count}"));
    }
    for (kind, _) in &cuts {
        match kind.label("cause") {
            "lb_flush" => {}
            "unknown" | "" => findings.notes.push(format!("gt names no cause for the cut ({kind})")),
            cause => findings
                .contradictions
                .push(format!("HAProxy cut the request after the first 503, gt says cause={cause}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::stage::counts::Kind;

    /// A run as it should be: cut at DOWN, one connection closed by FIN and RST, one cut counted.
    fn good() -> Observed {
        let rst = Kind::new(&[
            ("container", "istio-proxy"),
            ("role", "inbound"),
            ("class", "data"),
            ("direction", "received"),
        ]);
        let cut = Kind::new(&[("how", "fin_received"), ("cause", "lb_flush"), ("evidence", "l7")]);
        let before = Counts {
            told_apart: true,
            opened: Some(6.0),
            closed: Some(5.0),
            rsts: Some(BTreeMap::from([(rst.clone(), 5.0)])),
            cuts: Some(BTreeMap::new()),
            cut_rsts: Some(BTreeMap::new()),
        };
        let after = Counts {
            told_apart: true,
            opened: Some(6.0),
            closed: Some(6.0),
            rsts: Some(BTreeMap::from([(rst, 6.0)])),
            cuts: Some(BTreeMap::from([(cut, 1.0)])),
            cut_rsts: Some(BTreeMap::new()),
        };
        Observed {
            reply: Ok(502),
            ended: Duration::from_millis(2002),
            asked: Duration::from_secs(8),
            down: Some(Duration::from_millis(2000)),
            before,
            after,
        }
    }

    fn contradictions(change: impl FnOnce(&mut Observed)) -> usize {
        let mut observed = good();
        change(&mut observed);
        judge(&observed).contradictions.len()
    }

    /// Exercises a proper run, and one with nothing but a FIN, so that neither is held against gt.
    #[test]
    fn a_cut_is_a_cut_with_or_without_rst() {
        assert_eq!(judge(&good()), Findings::default());
        let mut fin_only = good();
        fin_only.after.rsts = fin_only.before.rsts.clone();
        let findings = judge(&fin_only);
        assert_eq!((findings.contradictions.len(), findings.notes.len()), (0, 1));
    }

    /// Exercises a host whose cgroups tell no container so that the numbers are not taken for more.
    #[test]
    fn numbers_of_the_whole_pod_are_told() {
        let mut observed = good();
        observed.after.told_apart = false;
        let findings = judge(&observed);
        assert_eq!((findings.contradictions.len(), findings.notes.len()), (0, 2));
    }

    /// Exercises a daemon that does not count cuts yet, so that it is told and not invented.
    #[test]
    fn a_daemon_without_cuts_is_told() {
        let mut observed = good();
        observed.before.cuts = None;
        observed.after.cuts = None;
        let findings = judge(&observed);
        assert_eq!((findings.contradictions.len(), findings.notes.len()), (0, 1));
    }

    /// Exercises one wrong fact at a time so that no run passes that proved nothing.
    #[test]
    fn each_wrong_fact_is_a_contradiction() {
        assert_eq!(contradictions(|o| o.reply = Ok(200)), 1);
        assert_eq!(contradictions(|o| o.reply = Err("reset".to_owned())), 1);
        assert_eq!(contradictions(|o| o.asked = Duration::from_secs(1)), 1);
        assert_eq!(contradictions(|o| o.down = None), 1);
        assert_eq!(contradictions(|o| o.down = Some(Duration::from_millis(900))), 1);
        assert_eq!(contradictions(|o| o.after.opened = Some(0.0)), 1);
        assert_eq!(contradictions(|o| o.after.opened = None), 1);
        assert_eq!(contradictions(|o| o.after.closed = Some(5.0)), 1);
        assert_eq!(contradictions(|o| o.before.closed = None), 1);
        assert_eq!(contradictions(|o| o.after.rsts = None), 1);
        assert_eq!(contradictions(|o| o.after.cuts = Some(BTreeMap::new())), 1);
        let abort = Kind::new(&[("cause", "client_abort")]);
        assert_eq!(contradictions(|o| o.after.cuts = Some(BTreeMap::from([(abort.clone(), 1.0)]))), 1);
        let two = BTreeMap::from([(Kind::new(&[("cause", "lb_flush")]), 2.0)]);
        assert_eq!(contradictions(|o| o.after.cuts = Some(two)), 1);
    }
}
