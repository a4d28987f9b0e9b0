//! Instants as the log and JSON show them: RFC 3339, UTC, microseconds.

use std::time::SystemTime;

/// `2026-05-31T07:12:36.123456Z`.
#[must_use]
pub fn utc(at: SystemTime) -> String {
    humantime::format_rfc3339_micros(at).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Exercises the form that readers of the log match, so that the microseconds are always there.
    #[test]
    fn always_six_digits() {
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_780_211_556)), "2026-05-31T07:12:36.000000Z");
        assert_eq!(utc(UNIX_EPOCH + Duration::from_nanos(1_999)), "1970-01-01T00:00:00.000001Z");
    }
}
