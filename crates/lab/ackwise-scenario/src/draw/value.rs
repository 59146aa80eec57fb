//! Values that are drawn or computed: numbers with a dimension, words and flags.

use std::fmt;

use ackwise_config::queues::QueueLimit;
use ackwise_config::tree::{Kind, Value};
use ackwise_config::units;

use crate::model::SettingValue;

/// The dimension of a number. The unit in brackets is that of [`Quantity::amount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    /// A plain number.
    Number,
    /// A share (1 is 100 %).
    Share,
    /// A rate (bit/s).
    Rate,
    /// A time (ns).
    Time,
    /// A size (bytes).
    Size,
    /// A number of packets.
    Packets,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dimension::Number => "a plain number",
            Dimension::Share => "a share",
            Dimension::Rate => "a rate",
            Dimension::Time => "a time",
            Dimension::Size => "a size",
            Dimension::Packets => "a number of packets",
        })
    }
}

/// A number with its dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantity {
    /// The amount in the dimension's unit.
    pub amount: f64,
    /// The dimension.
    pub dimension: Dimension,
}

/// The value of a drawn name.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Drawn {
    /// A number with its dimension.
    Quantity(Quantity),
    /// Any other text.
    Word(String),
    /// `true` or `false`.
    Flag(bool),
}

/// The type of a name's value, which is the same at every point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A number with its dimension.
    Quantity(Dimension),
    /// Any other text.
    Word,
    /// `true` or `false`.
    Flag,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Quantity(dimension) => dimension.fmt(f),
            Type::Word => f.write_str("a word"),
            Type::Flag => f.write_str("true or false"),
        }
    }
}

impl Quantity {
    /// A plain number.
    pub(super) fn number(amount: f64) -> Quantity {
        Quantity {
            amount,
            dimension: Dimension::Number,
        }
    }

    /// Reads a number with a unit; `None` if the text is not one.
    pub(super) fn parse(text: &str) -> Option<Quantity> {
        let of = |amount, dimension| Some(Quantity { amount, dimension });
        if let Ok(rate) = units::rate(text) {
            return of(rate as f64, Dimension::Rate);
        }
        if let Ok(time) = units::time(text) {
            return of(time.as_nanos() as f64, Dimension::Time);
        }
        if let Ok(share) = units::share(text) {
            return of(share, Dimension::Share);
        }
        match units::queue(text) {
            Ok(QueueLimit::Bytes(bytes)) => of(bytes as f64, Dimension::Size),
            Ok(QueueLimit::Packets(packets)) => of(f64::from(packets), Dimension::Packets),
            Err(_) => None,
        }
    }

    /// Rounds to four significant digits, and to whole units where fractions do not exist, so that
    /// drawn values can be read and written down.
    pub(super) fn rounded(self) -> Quantity {
        let digits = format!("{:.3e}", self.amount);
        let amount = digits.parse().unwrap_or(self.amount);
        Quantity {
            amount: match self.dimension {
                Dimension::Number | Dimension::Share => amount,
                Dimension::Rate | Dimension::Time | Dimension::Size | Dimension::Packets => {
                    amount.round()
                }
            },
            ..self
        }
    }

    /// Whether it is a whole number of its unit.
    pub(super) fn is_whole(self) -> bool {
        self.amount.fract() == 0.0 && self.amount.abs() < 9e15
    }

    fn text(self) -> String {
        let Quantity { amount, dimension } = self;
        let scales: &[(f64, &str)] = match dimension {
            Dimension::Number => &[(1.0, "")],
            Dimension::Share => &[(0.01, " %")],
            Dimension::Rate => &[
                (1e9, " Gbit/s"),
                (1e6, " Mbit/s"),
                (1e3, " kbit/s"),
                (1.0, " bit/s"),
            ],
            Dimension::Time => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
            Dimension::Size => &[(1.0, " B")],
            Dimension::Packets => &[(1.0, " packets")],
        };
        let fits = |scale: &&(f64, &str)| amount.abs() >= scale.0;
        let (scale, unit) = scales
            .iter()
            .find(fits)
            .or(scales.last())
            .unwrap_or(&(1.0, ""));
        let scaled = match dimension {
            // 0.07 / 0.01 is 7.000000000000001.
            Dimension::Share => (amount * 1e8).round() / 1e6,
            _ => amount / scale,
        };
        format!("{scaled}{unit}")
    }
}

impl Drawn {
    /// Reads a value in a list of choices; `None` for lists, tables and dates.
    pub(super) fn of(value: &Value) -> Option<Drawn> {
        Some(match &value.kind {
            Kind::Text(text) => match Quantity::parse(text) {
                Some(quantity) => Drawn::Quantity(quantity),
                None => Drawn::Word(text.clone()),
            },
            Kind::Integer(number) => Drawn::Quantity(Quantity::number(*number as f64)),
            Kind::Float(number) if number.is_finite() => Drawn::Quantity(Quantity::number(*number)),
            Kind::Bool(flag) => Drawn::Flag(*flag),
            Kind::Float(_) | Kind::Datetime | Kind::Array(_) | Kind::Table(_) => return None,
        })
    }

    /// The type of the value.
    pub(super) fn kind(&self) -> Type {
        match self {
            Drawn::Quantity(quantity) => Type::Quantity(quantity.dimension),
            Drawn::Word(_) => Type::Word,
            Drawn::Flag(_) => Type::Flag,
        }
    }

    /// The value as it is written in a scenario.
    pub(super) fn setting(&self) -> SettingValue {
        match self {
            Drawn::Quantity(quantity) if quantity.dimension == Dimension::Number => {
                if quantity.is_whole() {
                    SettingValue::Integer(quantity.amount as i64)
                } else {
                    SettingValue::Float(quantity.amount)
                }
            }
            Drawn::Quantity(quantity) => SettingValue::Text(quantity.text()),
            Drawn::Word(word) => SettingValue::Text(word.clone()),
            Drawn::Flag(flag) => SettingValue::Bool(*flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in [
            "12.34 Mbit/s",
            "1 Gbit/s",
            "999 bit/s",
            "15 ms",
            "1.5 s",
            "7 %",
            "0.1 %",
            "65536 B",
            "100 packets",
        ] {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!(quantity.text(), text);
        }
        assert_eq!(Quantity::parse("64 KiB").unwrap().text(), "65536 B");
        assert_eq!(Quantity::parse("docsis"), None);
        assert_eq!(Quantity::parse("5"), None);
    }

    #[test]
    fn drawn_values_have_four_digits() {
        let rounded = |text: &str| Quantity::parse(text).unwrap().rounded().text();
        assert_eq!(rounded("12345678 bit/s"), "12.35 Mbit/s");
        assert_eq!(rounded("123456789 ns"), "123.5 ms");
        assert_eq!(rounded("1 ns"), "1 ns");
        assert_eq!(rounded("123456 B"), "123500 B");
    }
}
