//! The two forms of `/stats`: text (`name: value`) and JSON. What is neither is an error as a whole: half
//! an answer must not pass for a count.

use serde::Deserialize;
use serde_json::Value;

/// Why an answer cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no list of stats: {0}")]
pub struct Garbage(String);

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    stats: Vec<Row<'a>>,
}

/// Rows of counters and gauges have a name and a number; histograms and texts do not matter here.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    name: Option<std::borrow::Cow<'a, str>>,
    value: Option<Value>,
}

/// Calls `row` with the name and value of each stat that `wanted` asks for.
pub(super) fn each(
    body: &[u8],
    wanted: impl Fn(&str) -> bool,
    mut row: impl FnMut(&str, u64),
) -> Result<(), Garbage> {
    let text = std::str::from_utf8(body).map_err(|_| Garbage("it is not UTF-8".to_owned()))?;
    if text.trim_start().starts_with('{') {
        let document: Document<'_> =
            serde_json::from_str(text).map_err(|error| Garbage(format!("it is no such JSON: {error}")))?;
        for Row { name, value } in document.stats {
            let Some(name) = name.filter(|name| wanted(name)) else { continue };
            let number = value.as_ref().and_then(Value::as_u64).ok_or_else(|| no_count(&name))?;
            row(&name, number);
        }
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(Garbage("its last line is cut off".to_owned()));
    }
    for line in text.lines().filter(|line| !line.is_empty()) {
        // Names may have colons, numbers have none.
        let Some((name, value)) = line.rsplit_once(": ") else {
            return Err(Garbage(format!("a line has no value: {:?}", shorten(line))));
        };
        if wanted(name) {
            row(name, value.trim_end().parse().map_err(|_| no_count(name))?);
        }
    }
    Ok(())
}

fn no_count(name: &str) -> Garbage {
    Garbage(format!("the value of {:?} is no count", shorten(name)))
}

/// An error is one line of a log, whatever a server sends.
fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> Result<Vec<(String, u64)>, Garbage> {
        let mut rows = Vec::new();
        each(
            body.as_bytes(),
            |name| name.ends_with("_active"),
            |name, value| rows.push((name.to_owned(), value)),
        )?;
        Ok(rows)
    }

    fn rows(expected: &[(&str, u64)]) -> Result<Vec<(String, u64)>, Garbage> {
        Ok(expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    /// Exercises both forms, as Envoy 1.40 writes them, so that they say the same.
    #[test]
    fn text_and_json() {
        let expected =
            rows(&[("cluster.outbound|80||app;.upstream_rq_active", 2), ("http.in.downstream_rq_active", 0)]);
        assert_eq!(
            read(
                "cluster.outbound|80||app;.upstream_rq_active: 2\nhttp.in.downstream_rq_active: 0\nx.time: P0(nan,1.0) P25(nan,1.025)\n"
            ),
            expected
        );
        assert_eq!(
            read(
                r#"{"stats":[{"name":"cluster.outbound|80||app;.upstream_rq_active","value":2},{"name":"http.in.downstream_rq_active","value":0},{"name":"version","value":"abc"},{"histograms":{"supported_quantiles":[0]}}]}"#
            ),
            expected
        );
        assert_eq!(read(r#"{"stats":[]}"#), rows(&[]));
        assert_eq!(read(""), rows(&[]));
    }

    /// Exercises what is no answer of Envoy's so that none of it counts as an empty list.
    #[test]
    fn garbage_is_an_error() {
        for body in [
            "<html>502</html>",
            "upstream connect error",
            r#"{"stats":[{"name":"http.in.downstream_rq_active","value":0}"#,
            r#"{"stats":[{"name":"http.in.downstream_rq_active","value":-1}]}"#,
            r#"{"stats":[{"name":"http.in.downstream_rq_active","value":"0"}]}"#,
            r#"{"stats":[{"name":"http.in.downstream_rq_active"}]}"#,
            r#"{"error":"not here"}"#,
            "http.in.downstream_rq_active: zero\n",
            "http.in.downstream_rq_active: \n",
            "http.in.downstream_rq_active: 0\nhttp.in.downstr",
            "http.in.downstream_rq_active: 0\nhttp.out.downstream_rq_active: 1",
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        assert!(each(&[0xff, 0xfe], |_| true, |_, _| ()).is_err());
    }

    proptest! {
        /// Exercises any bytes so that none panics.
        #[test]
        fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whatever = each(&body, |_| true, |_, _| ());
        }
    }
}
