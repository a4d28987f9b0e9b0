//! Durations as the runbook writes them: seconds, whole or with a fraction, or with a unit.

use std::time::Duration;

/// More than a day is a slip of the pen, not a drain.
pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `120`, `2.5`, `90s`, `500ms`, `2m` or `1h`; the error is the cause, without the text itself.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

    let text = text.trim();
    if text.is_empty() {
        return Err("is empty");
    }
    if text.starts_with('-') {
        return Err("is negative");
    }
    let (number, factor) = UNITS
        .into_iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|number| (number, factor)))
        .unwrap_or((text, 1.0));
    // Of what Rust calls a number, `inf`, `nan` and `1e9` are none here.
    if !number.starts_with(|first: char| first.is_ascii_digit())
        || !number.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return Err("is not a number of seconds");
    }
    let number: f64 = number.parse().map_err(|_| "is not a number of seconds")?;
    match Duration::try_from_secs_f64(number * factor) {
        Ok(duration) if duration <= MAX => Ok(duration),
        _ => Err("is more than a day"),
    }
}

/// Writes seconds with as many digits as there are: `120`, `2.5`.
#[must_use]
pub fn show(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        return duration.as_secs().to_string();
    }
    let text = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Exercises the forms people write, so that each means what it says.
    #[test]
    fn accepted() {
        for (text, expected) in [
            ("120", "120"),
            ("0", "0"),
            ("2.5", "2.5"),
            ("90s", "90"),
            ("500ms", "0.5"),
            ("2m", "120"),
            ("1.5h", "5400"),
            (" 10 ", "10"),
            ("24h", "86400"),
        ] {
            assert_eq!(parse(text).map(show), Ok(expected.to_owned()), "{text}");
        }
    }

    /// Exercises what must not pass, so that a wrong value never becomes a short drain.
    #[test]
    fn refused() {
        for (text, cause) in [
            ("", "is empty"),
            ("  ", "is empty"),
            ("-1", "is negative"),
            ("ten", "is not a number of seconds"),
            ("inf", "is not a number of seconds"),
            ("NaN", "is not a number of seconds"),
            ("1e3", "is not a number of seconds"),
            ("+5", "is not a number of seconds"),
            ("1.2.3", "is not a number of seconds"),
            ("s", "is not a number of seconds"),
            ("10 s", "is not a number of seconds"),
            ("120d", "is not a number of seconds"),
            ("25h", "is more than a day"),
            ("99999999999999999999999999", "is more than a day"),
        ] {
            assert_eq!(parse(text), Err(cause), "{text}");
        }
    }

    proptest! {
        /// Exercises any text so that none panics, and any duration so that it is read as it was written.
        #[test]
        fn there_and_back(text in ".{0,12}", millis in 0..=86_400_000_u64) {
            let _whatever = parse(&text);
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }
    }
}
