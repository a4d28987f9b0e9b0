//! Text that stands on a page: names as others wrote them, made harmless and short; instants and lengths of time.

use crate::drain::fact::stamp;

/// Characters of one text from outside, at most.
const MOST: usize = 300;

/// What others wrote, as it may stand on a page. Control characters, those that turn the direction of writing, and those
/// that XML does not know become U+FFFD; what is too long ends with an ellipsis. Escaping is the page's.
#[must_use]
pub fn plain(text: &str) -> String {
    shortened(text, MOST)
}

/// The same with so many characters at most.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let harmless = |letter: char| if is_harmful(letter) { '\u{fffd}' } else { letter };
    if text.chars().nth(most).is_none() {
        return text.chars().map(harmless).collect();
    }
    let kept = text.chars().take(most.saturating_sub(1)).map(harmless);
    kept.chain(std::iter::once('…')).collect()
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// The time of day of an instant (UTC microseconds), with microseconds.
#[must_use]
pub fn clock(us: i64) -> String {
    let stamp = stamp(us);
    stamp.split_once('T').map_or(stamp.clone(), |(_, time)| time.trim_end_matches('Z').to_owned())
}

/// The day of an instant (UTC microseconds).
#[must_use]
pub fn day(us: i64) -> String {
    let stamp = stamp(us);
    stamp.split_once('T').map_or(stamp.clone(), |(day, _)| day.to_owned())
}

/// A length of time (microseconds) as seconds with all digits that are known, and its sign: `+1.234567 s`.
#[must_use]
pub fn signed(us: i64) -> String {
    let sign = if us < 0 { '−' } else { '+' };
    format!("{sign}{}", unsigned(us.unsigned_abs()))
}

/// The same without a sign where there is none to tell: `1.234567 s`, `−1.234567 s`.
#[must_use]
pub fn length(us: i64) -> String {
    let sign = if us < 0 { "−" } else { "" };
    format!("{sign}{}", unsigned(us.unsigned_abs()))
}

fn unsigned(us: u64) -> String {
    format!("{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names that would end a line, turn it around or fill the page, so that each is shown and does no harm.
    #[test]
    fn names_of_others() {
        assert_eq!(plain("igw/pod-1 <b>&\"'"), "igw/pod-1 <b>&\"'");
        assert_eq!(plain("a\0b\x1b[31m\nc"), "a\u{fffd}b\u{fffd}[31m\u{fffd}c");
        assert_eq!(plain("user\u{202e}lmth.\u{ffff}"), "user\u{fffd}lmth.\u{fffd}");
        let long = plain(&"é".repeat(10_000));
        assert!(long.chars().count() == MOST && long.ends_with('…'));
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "ab…");
    }

    /// Exercises instants and lengths of both signs, so that no digit is lost and none is made up.
    #[test]
    fn times() {
        assert_eq!(clock(1_780_211_554_000_001), "07:12:34.000001");
        assert_eq!(day(1_780_211_554_000_001), "2026-05-31");
        assert_eq!(signed(1_234_567), "+1.234567 s");
        assert_eq!(signed(-1), "−0.000001 s");
        assert_eq!(length(0), "0.000000 s");
        assert_eq!(length(i64::MIN), "−9223372036854.775808 s");
        assert!(!clock(i64::MAX).is_empty() && !day(i64::MIN).is_empty());
    }
}
