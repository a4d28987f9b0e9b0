//! Instants at the beginning of lines, as the artifacts write them.

use crate::hc::log::stamp::Stamp;

/// UTC, microseconds; `None` for no instant or one without a time zone.
#[must_use]
pub fn instant(text: &str) -> Option<i64> {
    Stamp::parse(text.trim())?.utc_us()
}

/// The first word in brackets or without, as an instant, and what follows it.
#[must_use]
pub fn first(line: &str) -> Option<(i64, &str)> {
    let (word, rest) = line.trim_start().split_once([' ', '\t', ',']).unwrap_or((line.trim(), ""));
    Some((instant(word.trim_matches(['[', ']']))?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the ways in which lines begin, so that each gives its instant and the rest.
    #[test]
    fn beginnings() {
        let at = 1_796_022_703_767_258;
        assert_eq!(first("[2026-11-30T07:11:43.767258Z] [A] x"), Some((at, "[A] x")));
        assert_eq!(first("2026-11-30T07:11:43.767258Z\tcluster"), Some((at, "cluster")));
        assert_eq!(first("2026-11-30T07:11:43.767258+00:00 x"), Some((at, "x")));
        assert_eq!(first("2026-11-30T07:11:43.767258 x"), None);
        assert_eq!(first(""), None);
    }
}
