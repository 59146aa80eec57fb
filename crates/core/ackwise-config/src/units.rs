//! Quantities with their units: `"50 Mbit/s"`, `"20 ms"`, `"1.5 %"`, `"64 KiB"`.
//!
//! A number without a unit is a mistake. Units are those of the standards: k = 1000,
//! Ki = 1024, bit and B (byte).

use std::time::Duration;

use crate::queues::QueueLimit;

/// The units of one dimension: name and factor to the base unit.
struct Dimension {
    /// Its name with an article, for messages.
    what: &'static str,
    units: &'static [(&'static str, f64)],
    /// The units as listed in messages.
    listed: &'static str,
    example: &'static str,
}

const RATE: Dimension = Dimension {
    what: "a rate",
    units: &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
    ],
    listed: "bit/s, kbit/s, Mbit/s or Gbit/s",
    example: "50 Mbit/s",
};

const TIME: Dimension = Dimension {
    what: "a time",
    units: &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("m", 60e9),
        ("h", 3600e9),
    ],
    listed: "ns, us, ms, s, min or h",
    example: "20 ms",
};

const SIZE: Dimension = Dimension {
    what: "a size",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ],
    listed: "B, kB, MB, GB, KiB, MiB or GiB",
    example: "64 KiB",
};

const SHARE: Dimension = Dimension {
    what: "a share",
    units: &[("%", 0.01)],
    listed: "%",
    example: "1.5 %",
};

const QUEUE: Dimension = Dimension {
    what: "a queue limit",
    units: &[
        ("packets", 1.0),
        ("packet", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ],
    listed: "packets, B, kB, MB, GB, KiB, MiB or GiB",
    example: "100 packets",
};

/// Common spellings of the units above.
const ALIASES: &[(&str, &str)] = &[
    ("bps", "bit/s"),
    ("bits/s", "bit/s"),
    ("kbps", "kbit/s"),
    ("kb/s", "kbit/s"),
    ("kbit", "kbit/s"),
    ("kbits/s", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("mb/s", "Mbit/s"),
    ("mbit", "Mbit/s"),
    ("mbit/s", "Mbit/s"),
    ("mbits/s", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("gb/s", "Gbit/s"),
    ("gbit", "Gbit/s"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("minutes", "min"),
    ("hours", "h"),
    ("bytes", "B"),
    ("byte", "B"),
    ("b", "B"),
    ("k", "kB"),
    ("kb", "kB"),
    ("kib", "KiB"),
    ("mb", "MB"),
    ("mib", "MiB"),
    ("gb", "GB"),
    ("gib", "GiB"),
    ("percent", "%"),
    ("pkt", "packets"),
    ("pkts", "packets"),
    ("p", "packets"),
];

/// Parses a value and its unit, which must be one of the dimension's.
fn quantity(text: &str, dimension: &Dimension) -> Result<(f64, &'static str), String> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    let Dimension {
        what,
        listed,
        example,
        ..
    } = dimension;
    let Ok(number) = number.parse::<f64>() else {
        return Err(format!(
            "'{text}' is not {what}: a number and a unit are needed, e.g. \"{example}\""
        ));
    };
    if number.is_sign_negative() && number != 0.0 {
        return Err(format!("{what} cannot be negative"));
    }
    if unit.is_empty() {
        return Err(format!(
            "{what} needs a unit: write e.g. \"{example}\" (units: {listed})"
        ));
    }
    if let Some((name, factor)) = dimension.units.iter().find(|(name, _)| *name == unit) {
        return Ok((number * factor, name));
    }
    if let Some(rate) = of_bytes(number, unit, dimension) {
        return Err(format!(
            "unknown unit '{unit}': a rate is given in bits, and bytes have 8 each; write \"{rate}\""
        ));
    }
    let meant = ALIASES
        .iter()
        .find(|(alias, _)| *alias == unit.to_lowercase())
        .map(|(_, name)| *name)
        .or_else(|| {
            dimension
                .units
                .iter()
                .map(|(name, _)| *name)
                .find(|name| name.eq_ignore_ascii_case(unit))
        })
        .filter(|name| dimension.units.iter().any(|(known, _)| known == name));
    Err(match meant {
        Some(name) => format!("unknown unit '{unit}'; did you mean '{name}'?"),
        None => format!("unknown unit '{unit}'; {what} is given in {listed}"),
    })
}

/// The same rate in bits, for one that is given in bytes: `MB/s`, `kBps`.
fn of_bytes(number: f64, unit: &str, dimension: &Dimension) -> Option<String> {
    let prefix = unit
        .strip_suffix("B/s")
        .or_else(|| unit.strip_suffix("Bps"))?;
    let bits = format!("{}bit/s", prefix.replace('K', "k"));
    let known = |(name, _): &&(&str, f64)| *name == bits;
    let (name, _) = dimension.units.iter().find(known)?;
    Some(format!("{} {name}", number * 8.0))
}

/// A text that all spellings of a quantity share, e.g. `"10 Mbit/s"` and `"10000 kbit/s"`. `None` if
/// it is no quantity.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    let dimensions = [RATE, TIME, SIZE, SHARE, QUEUE];
    dimensions.iter().find_map(|dimension| {
        let (value, _) = quantity(text, dimension).ok()?;
        // Without the last digits, in which a product is rounded.
        Some(format!("{} {value:.13e}", dimension.what))
    })
}

/// Parses a rate in bits per second, from 1 bit/s to 1 Tbit/s.
///
/// # Errors
///
/// Says what is wrong with the number, its unit or its range.
pub fn rate(text: &str) -> Result<u64, String> {
    let (value, _) = quantity(text, &RATE)?;
    if value == 0.0 {
        return Err("a rate of zero carries nothing; leave it out for no limit".to_owned());
    }
    if !(1.0..=1e12).contains(&value) {
        return Err(format!(
            "a rate must be from 1 bit/s to 1000 Gbit/s, not '{text}'"
        ));
    }
    Ok(value.round() as u64)
}

/// Parses a time of at most a week.
///
/// # Errors
///
/// Says what is wrong with the number, its unit or its range.
pub fn time(text: &str) -> Result<Duration, String> {
    let (nanos, _) = quantity(text, &TIME)?;
    if nanos > 7.0 * 86400e9 {
        return Err(format!("a time of '{text}' is more than a week"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Parses a size in bytes, at most 1 TB.
///
/// # Errors
///
/// Says what is wrong with the number, its unit or its range.
pub fn size(text: &str) -> Result<u64, String> {
    let (bytes, _) = quantity(text, &SIZE)?;
    whole_bytes(text, bytes)
}

fn whole_bytes(text: &str, bytes: f64) -> Result<u64, String> {
    if bytes == 0.0 {
        return Err("a size of zero has no meaning here".to_owned());
    }
    if !(1.0..=1e12).contains(&bytes) {
        return Err(format!(
            "a size of '{text}' is out of range: 1 B to 1000 GB"
        ));
    }
    Ok(bytes.round() as u64)
}

/// Parses a probability, 0 ≤ p < 1.
///
/// # Errors
///
/// It is not a number, or out of range.
pub fn probability(text: &str) -> Result<f64, String> {
    let (share, _) = quantity(text, &SHARE)?;
    if share >= 1.0 {
        return Err(format!(
            "'{text}' is too high: a probability here must be less than 100 %"
        ));
    }
    Ok(share)
}

/// Parses a share of any size, e.g. a tolerance; 0.03 for `"3 %"`.
///
/// # Errors
///
/// It is not a number, or negative.
pub fn share(text: &str) -> Result<f64, String> {
    Ok(quantity(text, &SHARE)?.0)
}

/// Parses the limit of a queue.
///
/// # Errors
///
/// It is neither a size, a time nor a number of packets, or out of range.
pub fn queue(text: &str) -> Result<QueueLimit, String> {
    let (value, unit) = quantity(text, &QUEUE)?;
    if !unit.starts_with("packet") {
        return Ok(QueueLimit::Bytes(whole_bytes(text, value)?));
    }
    if value == 0.0 {
        return Err("a queue of zero packets lets nothing through".to_owned());
    }
    if value.fract() != 0.0 || value > 1e7 {
        return Err(format!(
            "a queue of '{text}' is not valid: write a whole number up to 10000000 packets"
        ));
    }
    Ok(QueueLimit::Packets(value as u32))
}

/// What a bare number should have been, for messages: `30` → `"30 s"`.
pub fn hint(kind: Quantity) -> (&'static str, &'static str) {
    let dimension = match kind {
        Quantity::Rate => &RATE,
        Quantity::Time => &TIME,
        Quantity::Size => &SIZE,
        Quantity::Share => &SHARE,
        Quantity::Queue => &QUEUE,
    };
    (dimension.what, dimension.example)
}

/// A kind of quantity.
#[derive(Debug, Clone, Copy)]
pub enum Quantity {
    /// Bits per second.
    Rate,
    /// A duration.
    Time,
    /// Bytes.
    Size,
    /// A share or a probability, 0 to 1.
    Share,
    /// The limit of a queue.
    Queue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        assert_eq!(rate("50 Mbit/s"), Ok(50_000_000));
        assert_eq!(rate("0.2Mbit/s"), Ok(200_000));
        assert_eq!(rate("1000 Gbit/s"), Ok(1_000_000_000_000));
        assert_eq!(time("20 ms"), Ok(Duration::from_millis(20)));
        assert_eq!(time("1.5 µs"), Ok(Duration::from_nanos(1500)));
        assert_eq!(time("2 min"), Ok(Duration::from_secs(120)));
        assert_eq!(time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(size("64 KiB"), Ok(65536));
        assert_eq!(size("1 kB"), Ok(1000));
        assert_eq!(probability("1.5 %"), Ok(0.015));
        assert_eq!(queue("1 packet"), Ok(QueueLimit::Packets(1)));
        assert_eq!(queue("64 KiB"), Ok(QueueLimit::Bytes(65536)));
    }

    #[test]
    fn a_rate_in_bytes_is_eight_times_as_many_bits() {
        for (text, bits) in [
            ("5 MB/s", "\"40 Mbit/s\""),
            ("2.5kB/s", "\"20 kbit/s\""),
            ("3 KBps", "\"24 kbit/s\""),
            ("1 GB/s", "\"8 Gbit/s\""),
            ("100 B/s", "\"800 bit/s\""),
        ] {
            let error = rate(text).unwrap_err();
            assert!(error.contains(bits), "{text}: {error}");
        }
        assert!(rate("5 Mb/s").unwrap_err().contains("'Mbit/s'"));
        assert!(size("5 MB/s").unwrap_err().contains("a size is given in"));
    }

    #[test]
    fn texts_of_one_quantity_are_the_same() {
        for (one, other) in [
            ("10 Mbit/s", "10000 kbit/s"),
            ("10 Mbit/s", "10.0Mbit/s"),
            ("0.3 Mbit/s", "300 kbit/s"),
            ("1.1 ms", "1100 us"),
            ("1 min", "60 s"),
            ("1 KiB", "1024 B"),
            ("1 packet", "1 packets"),
            ("0.1 %", "0.10 %"),
        ] {
            assert!(canonical(one).is_some(), "{one}");
            assert_eq!(canonical(one), canonical(other), "{one}");
        }
        for (one, other) in [
            ("10 Mbit/s", "10 kbit/s"),
            ("1 s", "1 %"),
            ("1 B", "1 packet"),
            ("0.1 %", "0.11 %"),
            ("0.001 %", "0.0011 %"),
            ("1 ns", "2 ns"),
        ] {
            assert_ne!(canonical(one), canonical(other), "{one}");
        }
        for text in ["cubic", "7", ""] {
            assert_eq!(canonical(text), None);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", " ", "fast", "Mbit/s", "1.2.3 Mbit/s", "--5 Mbit/s", "."] {
            let error = rate(text).unwrap_err();
            assert!(error.contains("a number and a unit"), "{text}: {error}");
        }
        assert!(rate("50").unwrap_err().contains("needs a unit"));
        assert!(rate("50 Mbps").unwrap_err().contains("'Mbit/s'"));
        assert!(rate("-1 bit/s").unwrap_err().contains("negative"));
        assert!(rate("0 bit/s").unwrap_err().contains("zero"));
        assert!(rate("0.2 bit/s").is_err());
        assert!(rate("1001 Gbit/s").is_err());
        assert!(time("8000 min").is_ok());
        assert!(time("169 h").is_err());
        assert!(time("20 seconds").unwrap_err().contains("'s'"));
        assert!(size("0 B").is_err());
        assert!(size("3 ms").unwrap_err().contains("KiB"));
        assert!(probability("100 %").is_err());
        assert!(queue("1.5 packets").is_err());
        assert!(queue("0 packets").is_err());
        let error = queue("3 ms").unwrap_err();
        for (unit, _) in QUEUE.units.iter().filter(|(unit, _)| *unit != "packet") {
            assert!(error.contains(unit), "{unit}: {error}");
        }
    }
}
