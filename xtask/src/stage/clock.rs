//! UTC time stamps with microseconds, as every log of a drain carries them.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-05-31T07:12:36.123456Z`.
pub fn utc(at: SystemTime) -> String {
    // A clock before 1970 is shown as 1970: the demo has nothing to say about it.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_micros()
    )
}

/// Year, month and day of a count of days since 1970-01-01 (H. Hinnant's `civil_from_days`: years begin
/// in March, so that the leap day is a year's last).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Exercises leap days and the ends of years so that a stamp never names a day that is not.
    #[test]
    fn known_instants() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000007Z"),
            (1_780_211_556, "2026-05-31T07:12:36.000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000007Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::new(seconds, 7_000)), expected);
        }
    }
}
