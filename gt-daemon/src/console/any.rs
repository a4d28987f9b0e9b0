//! Messages of any kind, for property tests.

use proptest::{collection::vec, option::of, prelude::*};

use super::model::Incoming;
use crate::{
    api::message::{Connections, HcStatus, Message, Open, PodStatus, Word},
    drain::{
        fact::{End, Fact, Hc, Serving, Source, Timed, Way, stamp},
        intervals::Intervals,
        record::Summary,
        verdict::{Counts, Outcome},
    },
};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("lb_flush".to_owned()),
        Just("client_abort".to_owned()),
        "\\PC{0,12}",
        "[\\x00-\\x1f\u{1b}ü漢🦀]{0,9}"
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]", 1 => word()]
}

/// Most instants lie near each other, as they do; some anywhere.
fn instant() -> impl Strategy<Value = i64> {
    prop_oneof![
        9 => 1_796_059_267_000_000_i64..1_796_059_297_000_000,
        1 => any::<i64>()
    ]
}

fn time() -> impl Strategy<Value = String> {
    prop_oneof![9 => instant().prop_map(stamp), 1 => word()]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..9, 1 => any::<u64>()]
}

fn hc() -> impl Strategy<Value = Hc> {
    prop::sample::select(vec![Hc::Open, Hc::Draining, Hc::Closing, Hc::Closed, Hc::Fault])
}

fn serving() -> impl Strategy<Value = Serving> {
    prop::sample::select(vec![Serving::Up, Serving::NoNew, Serving::Down])
}

fn end() -> BoxedStrategy<End> {
    (of(0_u64..20), word(), of(word()), word(), any::<bool>(), count(), of(word()), of(word()))
        .prop_map(|(connection, how, evidence, cause, sure, count, phase, remote)| End {
            connection,
            how,
            evidence,
            cause,
            sure,
            count,
            phase,
            protocol: None,
            remote,
        })
        .boxed()
}

// Boxed: what is on the stack at a time stays small.
fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        (of(hc()), of(hc()), of(any::<u16>())).prop_map(|(from, to, lb_told)| Fact::HcState {
            from,
            to,
            lb_told
        }),
        (word(), of(word()), of(serving())).prop_map(|(server, status, serving)| Fact::LbStatus {
            server,
            status,
            serving
        }),
        (word(), of(instant()), any::<bool>())
            .prop_map(|(server, last_up, predicted)| Fact::HaproxyBackendDown { server, last_up, predicted }),
        any::<i64>().prop_map(|grace_seconds| Fact::PodDeleted { grace_seconds }),
        Just(Fact::EnvoyDrainListeners),
        (of(count()), of(count()))
            .prop_map(|(downstream, upstream)| Fact::EnvoyActiveCount { downstream, upstream }),
        (count(), count()).prop_map(|(active, closing)| Fact::Connections { active, closing }),
        end().prop_map(Fact::TcpTeardown),
        any::<bool>().prop_map(|in_flight| Fact::TcpRst {
            connection: None,
            direction: if in_flight { Way::Sent } else { Way::Received },
            in_flight
        }),
        Just(Fact::PodGone),
        Just(Fact::Ended),
        (any::<i64>(), word()).prop_map(|(length_us, why)| Fact::Gap {
            source: Source::Envoy,
            length_us,
            why
        }),
    ]
    .boxed()
}

fn intervals() -> impl Strategy<Value = Intervals> {
    (of(any::<f64>()), of(any::<f64>())).prop_map(|(drain_to_active_zero, active_zero_to_lb_down)| {
        Intervals { drain_to_active_zero, active_zero_to_lb_down, lb_down_to_first_rst: None }
    })
}

fn status() -> BoxedStrategy<PodStatus> {
    let sidecar = (of(hc()), of(time()), of(any::<u16>())).prop_map(|(state, since, lb_told)| HcStatus {
        state,
        since,
        lb_told,
    });
    let open = (count(), count()).prop_map(|(active, closing)| Open { active, closing });
    let connections = open.prop_map(|data| Connections { data, ..Connections::default() });
    let who = (name(), name(), name(), time(), any::<bool>());
    let how = (of(sidecar), of(connections), of(count()), of(count()), of(serving()));
    (who, how, count(), of(time()), intervals())
        .prop_map(|(who, how, cuts, drain_began, intervals)| {
            let (namespace, pod, uid, now, gone) = who;
            let (hc, connections, downstream, upstream, lb) = how;
            PodStatus {
                namespace,
                pod,
                uid,
                node: None,
                now,
                gone,
                hc,
                connections,
                downstream,
                upstream,
                lb,
                cuts,
                rsts_sent: cuts,
                rsts_received: 0,
                drain_began,
                intervals,
            }
        })
        .boxed()
}

fn summary() -> BoxedStrategy<Summary> {
    let outcome = prop::sample::select(Outcome::ALL.to_vec());
    (name(), name(), name(), of(time()), of(time()), outcome, vec(word(), 0..4), intervals())
        .prop_map(|(namespace, pod, uid, began, ended, verdict, reasons, intervals)| Summary {
            namespace,
            pod,
            uid,
            began,
            ended,
            verdict,
            reasons,
            intervals,
            evidence: Counts::default(),
            gaps: Vec::new(),
            left_out: 0,
        })
        .boxed()
}

/// Anything that can reach a console.
pub fn incoming() -> BoxedStrategy<Incoming> {
    let words = prop::sample::select(vec![Word::Seen, Word::Told, Word::Better]);
    let told = (name(), name(), name(), words, instant(), fact()).prop_map(
        |(namespace, pod, uid, word, ts, fact)| Message::Fact {
            namespace,
            pod,
            uid,
            word,
            fact: Timed { ts, fact },
        },
    );
    let hello =
        (of(word()), word(), time()).prop_map(|(node, version, now)| Message::Hello { node, version, now });
    let message = prop_oneof![
        10 => told,
        6 => status().prop_map(|status| Message::Pod(Box::new(status))),
        1 => summary().prop_map(|summary| Message::Verdict(Box::new(summary))),
        1 => hello,
        1 => any::<u64>().prop_map(|messages| Message::Lost { messages }),
        1 => (of(word()), word(), time()).prop_map(|(node, why, now)| Message::Gap { node, why, now }),
    ];
    prop_oneof![
        18 => message.prop_map(Incoming::Message),
        1 => word().prop_map(|text| Incoming::Note { text }),
    ]
    .boxed()
}
