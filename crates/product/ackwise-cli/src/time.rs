//! Reads durations from arguments.

use std::time::Duration;

/// A day's run is a service, not a duration.
const MAX_DURATION_S: f64 = 86_400.0;

/// Reads a duration like `30s`, `500ms` or `5m`, as clap's value parsers do: the error says what
/// is wrong. A bare number is seconds; a duration lies above 0 and is at most a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| "write it like `30s`, `500ms` or `5m`".to_owned())?;
    let seconds = number
        * match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
        };
    if !(seconds > 0.0 && seconds <= MAX_DURATION_S) {
        return Err("must be more than 0 and at most 24h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_bounded() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in [
            "0s", "-1s", "25h", "NaN", "1e99", "10 weeks", "s", "", "1ns",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
