//! What the container runtime writes around each line.
//!
//! CRI (containerd, CRI-O; kubernetes/design-proposals kubelet-cri-logging): `<RFC 3339> <stream> <tags> <text>`, where
//! the first tag is `P` for a line that goes on in the next entry and `F` for its end. Docker's json-file: one JSON object
//! a line with `log`, `stream` and `time`; a line that goes on has no newline at the end of `log`.

use std::borrow::Cow;

use serde::Deserialize;

use super::stamp::Stamp;

/// Which of the container's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When the runtime read it: UTC, microseconds; `None` where no runtime wrote this file.
    pub stamp_us: Option<i64>,
    pub stream: Stream,
    /// Whether the line goes on in the next entry of the same stream.
    pub partial: bool,
    pub text: Cow<'a, [u8]>,
}

#[derive(Deserialize)]
struct Docker<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
}

/// Takes one line of the file, without its newline, apart. A line in neither form is hc's own, from a file that no
/// runtime wrote.
#[must_use]
pub fn entry(line: &[u8]) -> Entry<'_> {
    cri(line).or_else(|| docker(line)).unwrap_or(Entry {
        stamp_us: None,
        stream: Stream::Stdout,
        partial: false,
        text: Cow::Borrowed(line),
    })
}

fn cri(line: &[u8]) -> Option<Entry<'_>> {
    if !line.first()?.is_ascii_digit() {
        return None;
    }
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let stamp = std::str::from_utf8(parts.next()?).ok()?;
    let stream = match parts.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let tags = parts.next()?;
    let partial = match tags.split(|byte| *byte == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    // An empty line of hc's may end with its tag.
    let text = parts.next().unwrap_or_default();
    Some(Entry { stamp_us: Stamp::parse(stamp)?.utc_us(), stream, partial, text: Cow::Borrowed(text) })
}

fn docker(line: &[u8]) -> Option<Entry<'_>> {
    if line.first()? != &b'{' {
        return None;
    }
    let Docker { log, time, stream } = serde_json::from_slice(line).ok()?;
    let partial = !log.ends_with('\n');
    let text = match log {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_suffix('\n').unwrap_or(text).as_bytes()),
        Cow::Owned(mut text) => {
            text.truncate(text.strip_suffix('\n').unwrap_or(&text).len());
            Cow::Owned(text.into_bytes())
        }
    };
    let stream = if stream == "stderr" { Stream::Stderr } else { Stream::Stdout };
    Some(Entry { stamp_us: Stamp::parse(&time).and_then(Stamp::utc_us), stream, partial, text })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn simple(line: &str) -> (Option<i64>, bool, String) {
        let entry = entry(line.as_bytes());
        (entry.stamp_us, entry.partial, String::from_utf8_lossy(&entry.text).into_owned())
    }

    /// Exercises both runtimes' entries, whole, split and empty.
    #[test]
    fn entries() {
        let at = Some(1_796_023_006_981_444);
        let text = |text: &str| text.to_owned();
        assert_eq!(simple("2026-11-30T07:16:46.981444123Z stdout F a b"), (at, false, text("a b")));
        assert_eq!(simple("2026-11-30T16:16:46.981444123+09:00 stderr P a "), (at, true, text("a ")));
        assert_eq!(simple("2026-11-30T07:16:46.981444123Z stdout P:more a"), (at, true, text("a")));
        assert_eq!(simple("2026-11-30T07:16:46.981444123Z stdout F"), (at, false, text("")));
        assert_eq!(
            simple(r#"{"log":"a \"b\"\n","stream":"stdout","time":"2026-11-30T07:16:46.981444123Z"}"#),
            (at, false, text("a \"b\""))
        );
        assert_eq!(
            simple(
                r#"{"log":"a","stream":"stderr","attrs":{"x":"y"},"time":"2026-11-30T07:16:46.981444123Z"}"#
            ),
            (at, true, text("a"))
        );
    }

    /// Exercises lines that only look like entries, so that they stay whole.
    #[test]
    fn lines_of_no_runtime() {
        for line in [
            "ts=2026-11-30T07:16:46Z event=transition",
            "2026-11-30T07:16:46.981444Z level=info event=transition",
            "2026-11-30T07:16:46.981444Z stdout X text",
            "2026-11-30T07:16:46.981444Z stdout",
            r#"{"event":"transition","from":"OPEN","to":"DRAINING"}"#,
            r#"{"log":"cut off"#,
            "",
        ] {
            assert_eq!(simple(line), (None, false, line.to_owned()), "{line}");
        }
    }

    /// Exercises bytes that are no UTF-8, so that they come through.
    #[test]
    fn other_bytes() {
        let line = b"2026-11-30T07:16:46.981444Z stdout F \xff\xfe";
        assert_eq!(&*entry(line).text, b"\xff\xfe");
    }

    proptest! {
        /// Exercises any line, so that none panics and no text is made up.
        #[test]
        fn any_line(line in prop::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(entry(&line).text.len() <= line.len());
        }
    }
}
