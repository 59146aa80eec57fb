//! Parses durations from arguments.

use std::time::Duration;

use ackwise_config::units;

/// A process that is to run for longer than a day is a service and has no duration.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

/// Parses a duration as in configurations and scenarios: a number and a unit, `30s`, `500 ms` or `5
/// min`. It must be above 0 and at most a day. The error is a message, as clap's value parsers
/// expect it.
///
/// # Errors
///
/// Says what is wrong with the number, its unit or its range.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = units::time(text)?;
    if duration.is_zero() || duration > MAX_DURATION {
        return Err("a duration must be more than 0 and at most 24 h".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_bounded() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("5 min"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        for bad in [
            "0s", "-1s", "25h", "NaN", "1e99", "10 weeks", "s", "", "0.1ns", "3",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
