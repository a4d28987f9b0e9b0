//! What hc's answers mean. Pure.

use gt_common::connection::HcState;
use serde::Deserialize;

use super::{log::stamp::Stamp, names::Names, states::States};

/// The answer of `GET /state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAnswer {
    pub state: HcState,
    /// Since when; UTC, microseconds. `None` where hc does not tell, or not in a form that names its time zone.
    pub since_us: Option<i64>,
    /// Requests in flight; `None` when hc does not know.
    pub active: Option<u64>,
    pub reason: Option<Box<str>>,
}

/// Why an answer tells no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("hc's /state is not the JSON gt knows ({0})")]
    Json(String),
    #[error("hc's /state tells a state gt does not know, {0:?}; --hc-alias {0}=STATE says which one it is")]
    State(String),
}

/// Further fields are passed over, and so are values of other types where a state can be told without them.
#[derive(Deserialize)]
struct Raw {
    state: String,
    #[serde(default)]
    since: serde_json::Value,
    #[serde(default)]
    active: serde_json::Value,
    #[serde(default)]
    reason: serde_json::Value,
}

impl StateAnswer {
    /// Reads the body of `GET /state`.
    pub fn parse(body: &[u8], names: &Names) -> Result<Self, AnswerError> {
        let raw: Raw = serde_json::from_slice(body).map_err(|error| AnswerError::Json(error.to_string()))?;
        let state = names
            .state(&raw.state)
            .ok_or_else(|| AnswerError::State(raw.state.chars().take(40).collect()))?;
        Ok(Self {
            state,
            since_us: raw.since.as_str().and_then(Stamp::parse).and_then(Stamp::utc_us),
            active: raw.active.as_u64(),
            reason: raw.reason.as_str().map(Into::into),
        })
    }
}

/// What the codes of `/health_check.html` (for the LB) and `/health` (readiness) leave possible; `readiness` is `None`
/// when it could not be read.
///
/// | `/health_check.html` | `/health` | state |
/// |---|---|---|
/// | 200 | any | OPEN or DRAINING: only a deletion tells which |
/// | 503 | 200 | CLOSING |
/// | 503 | 503 | CLOSED or FAULT |
///
/// An LB takes 2xx and 3xx for up and anything else for down. A 404 is the answer of something that is no hc.
#[must_use]
pub fn of_codes(lb: u16, readiness: Option<u16>) -> States {
    let up = |code: u16| (200..400).contains(&code);
    match (lb, readiness) {
        (404, _) => States::ANY,
        (lb, _) if up(lb) => States::UP,
        (_, Some(readiness)) if up(readiness) => States::only(HcState::Closing),
        (_, Some(404) | None) => States::DOWN,
        (_, Some(_)) => States::ENDED,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(body: &str) -> Result<StateAnswer, AnswerError> {
        StateAnswer::parse(body.as_bytes(), &Names::default())
    }

    /// Exercises the answer of gt-hc, with fields that gt does not know.
    #[test]
    fn an_answer_of_gt_hc() {
        let answer = parse(
            r#"{"state":"DRAINING","since":"2026-11-30T07:16:46.981444Z","active":2,"reason":"drain_requested",
                "settled":false,"envoy":{"at":"2026-11-30T07:16:52.990112Z","downstream":1,"upstream":1}}"#,
        )
        .unwrap();
        assert_eq!(answer.state, HcState::Draining);
        assert_eq!(answer.since_us, Some(1_796_023_006_981_444));
        assert_eq!((answer.active, answer.reason.as_deref()), (Some(2), Some("drain_requested")));
    }

    /// Exercises answers with less, so that what is not told is unknown and not zero.
    #[test]
    fn answers_with_less() {
        let bare = parse(r#"{"state":"READY"}"#).unwrap();
        assert_eq!((bare.state, bare.since_us, bare.active, bare.reason), (HcState::Open, None, None, None));
        let odd = parse(r#"{"state":"CLOSED","since":17,"active":null,"reason":null}"#).unwrap();
        assert_eq!((odd.state, odd.since_us, odd.active), (HcState::Closed, None, None));
        let local = parse(r#"{"state":"OPEN","since":"2026-11-30 16:16:46","active":-1}"#).unwrap();
        assert_eq!((local.since_us, local.active), (None, None));
    }

    /// Exercises what is no answer, so that no state is read from it.
    #[test]
    fn no_answers() {
        for body in ["", "ok\n", "{}", r#"{"state":3}"#, r#"{"state":"OPEN""#, "[]", "null"] {
            assert!(matches!(parse(body), Err(AnswerError::Json(_))), "{body}");
        }
        assert!(matches!(parse(r#"{"state":"MAYBE"}"#), Err(AnswerError::State(name)) if name == "MAYBE"));
    }

    /// Exercises the table of codes, so that two codes say no more than they can.
    #[test]
    fn codes() {
        assert_eq!(of_codes(200, Some(200)), States::UP);
        assert_eq!(of_codes(503, Some(200)), States::only(HcState::Closing));
        assert_eq!(of_codes(503, Some(503)), States::ENDED);
        assert_eq!(of_codes(503, None), States::DOWN);
        assert_eq!(of_codes(503, Some(404)), States::DOWN);
        assert_eq!(of_codes(200, None), States::UP);
        assert_eq!(of_codes(404, Some(200)), States::ANY);
    }

    proptest! {
        /// Exercises any bytes, so that none panics.
        #[test]
        fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..100)) {
            let _whatever = StateAnswer::parse(&body, &Names::default());
        }
    }
}
