//! The rate of an uplink, as written in arguments and configuration files.

use crate::units;

/// The rate of an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UplinkRate {
    /// The rate in bits per second; the maximum if it is measured.
    pub bps: u64,
    /// The minimum rate in bits per second, if the rate is measured.
    pub min_bps: Option<u64>,
}

impl UplinkRate {
    /// The bounds of `auto`: at 100 kbit/s a full packet takes an eighth of a second, and above 1
    /// Gbit/s a queue does not help.
    const AUTO: UplinkRate = UplinkRate {
        bps: 1_000_000_000,
        min_bps: Some(100_000),
    };

    /// Reads one rate, two with `..` between them, or `auto`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<UplinkRate, String> {
        if text.trim().eq_ignore_ascii_case("auto") {
            return Ok(UplinkRate::AUTO);
        }
        let Some((least, most)) = text.split_once("..") else {
            let bps = bounded(rate(text)?)?;
            return Ok(UplinkRate { bps, min_bps: None });
        };
        let (least, bps) = (bounded(rate(least)?)?, bounded(rate(most)?)?);
        if least >= bps {
            return Err("MIN..MAX: the first rate must be less than the second".to_owned());
        }
        Ok(UplinkRate {
            bps,
            min_bps: Some(least),
        })
    }
}

/// Rejects rates slower than any modem, or faster than any uplink that is worth shaping.
fn bounded(rate_bps: u64) -> Result<u64, String> {
    if !(8_000..=10_000_000_000).contains(&rate_bps) {
        return Err("the rate of an uplink must be from 8 kbit/s to 10 Gbit/s".to_owned());
    }
    Ok(rate_bps)
}

/// Reads a rate as configuration files write it, or as tc(8) does: `5mbit`.
///
/// # Errors
/// Says what is wrong with the text.
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

    #[test]
    fn an_uplink_has_a_rate_of_uplinks() {
        let fixed = |bps| Ok(UplinkRate { bps, min_bps: None });
        assert_eq!(UplinkRate::parse("8000bit"), fixed(8_000));
        assert_eq!(UplinkRate::parse("10gbit"), fixed(10_000_000_000));
        let measured = UplinkRate {
            bps: 40_000_000,
            min_bps: Some(1_000_000),
        };
        assert_eq!(UplinkRate::parse("1mbit..40 Mbit/s"), Ok(measured));
        assert_eq!(UplinkRate::parse("auto"), Ok(UplinkRate::AUTO));
        for bad in [
            "1bit",
            "0mbit",
            "100gbit",
            "1mbit..",
            "..1mbit",
            "2mbit..1mbit",
            "1mbit..1mbit",
            "1mbit..2mbit..3mbit",
            "1bit..1mbit",
            "automatic",
        ] {
            assert!(UplinkRate::parse(bad).is_err(), "{bad}");
        }
    }
}
