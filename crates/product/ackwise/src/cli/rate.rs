//! Rates in arguments.

use ackwise_config::units;

/// Reads a rate as configurations write it, or as tc(8) does: `5mbit`.
pub fn rate(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_lowercase();
    let number = lower
        .trim_end_matches("bit")
        .trim_end_matches(['k', 'm', 'g']);
    let unit = match lower[number.len()..].trim() {
        "bit" => "bit/s",
        "kbit" => "kbit/s",
        "mbit" => "Mbit/s",
        "gbit" => "Gbit/s",
        _ => return units::rate(text),
    };
    units::rate(&format!("{} {unit}", number.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_here_or_as_for_tc() {
        for (text, bps) in [
            ("5mbit", 5_000_000),
            ("4.75Mbit", 4_750_000),
            ("300 kbit", 300_000),
            ("64000bit", 64_000),
            ("1gbit", 1_000_000_000),
            ("5 Mbit/s", 5_000_000),
        ] {
            assert_eq!(rate(text), Ok(bps), "{text}");
        }
        for bad in ["5", "mbit", "-5mbit", "5 MB", "", "ümbit", "fast"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
