//! The text of a trace.
//!
//! A line with one whole number is a delivery opportunity of mahimahi, in milliseconds. A line with
//! a time and a rate sets the rate from that time on: `1.5 s 20 Mbit/s`. A last line with a time
//! and `repeat` makes such a trace repeat. Empty lines and text after a `#` are ignored.

use ackwise_config::units;
use ackwise_queue::Step;

use super::Trace;

/// Maximum number of entries in a trace: an hour with an opportunity every 0.1 ms.
const MAX_ENTRIES: usize = 36_000_000;
/// The longest trace, in milliseconds: a week.
const MAX_MS: u64 = 7 * 86_400_000;

/// A mistake in a trace, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong and how to fix it.
    pub message: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mistake {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

/// A line that is not empty, without its comment.
struct Line<'a> {
    number: usize,
    text: &'a str,
    /// Characters before `text`.
    indent: usize,
}

impl Line<'_> {
    /// A mistake at a byte of the text.
    fn mistake(&self, byte: usize, message: impl Into<String>) -> Mistake {
        Mistake {
            line: self.number,
            column: self.indent + self.text[..byte].chars().count() + 1,
            message: message.into(),
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().zip(1..).filter_map(|(whole, number)| {
        let code = whole.split('#').next().unwrap_or("");
        let text = code.trim();
        let indent = code.chars().take_while(|c| c.is_whitespace()).count();
        (!text.is_empty()).then_some(Line {
            number,
            text,
            indent,
        })
    })
}

/// Reads the text of a trace. A byte order mark at the beginning is ignored.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str) -> Result<Trace, Mistake> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let end = |message: &str| Mistake {
        line: text.lines().count().max(1),
        column: 1,
        message: message.to_owned(),
    };
    let Some(first) = lines(text).next() else {
        return Err(end(
            "the trace is empty; write a line for each delivery opportunity, in milliseconds, \
             or lines like '0 s 20 Mbit/s'",
        ));
    };
    if lines(text).nth(MAX_ENTRIES).is_some() {
        return Err(end("the trace has more than 36 million entries; cut it"));
    }
    match first.text.contains(char::is_whitespace) {
        true => steps(text),
        false => opportunities(text).and_then(|times| match times.last() {
            Some(0) => Err(end(
                "every opportunity is at 0, so that the trace takes no time; add a later one",
            )),
            _ => Ok(Trace::Opportunities(times)),
        }),
    }
}

/// Reads lines of milliseconds.
fn opportunities(text: &str) -> Result<Vec<u64>, Mistake> {
    let mut times: Vec<u64> = Vec::new();
    for line in lines(text) {
        let ms = match line.text.parse::<u64>() {
            Ok(ms) if ms <= MAX_MS => ms,
            Ok(_) => return Err(line.mistake(0, "this is later than a week; cut the trace")),
            Err(_) => {
                let message = format!(
                    "'{}' is not a time in whole milliseconds, as each line of this trace is; a \
                     trace of rates has lines like '0 s 20 Mbit/s'",
                    line.text
                );
                return Err(line.mistake(0, message));
            }
        };
        if let Some(before) = times.last().filter(|&&before| ms < before) {
            let message = format!("{ms} ms goes back in time, before {before} ms; sort the lines");
            return Err(line.mistake(0, message));
        }
        times.push(ms);
    }
    Ok(times)
}

/// Reads lines of times and rates.
fn steps(text: &str) -> Result<Trace, Mistake> {
    let mut steps: Vec<Step<u64>> = Vec::new();
    let mut period = None;
    for line in lines(text) {
        if period.is_some() {
            return Err(line.mistake(0, "nothing follows the line with 'repeat'; remove this"));
        }
        // The unit ends the time: it is the word that begins with the first letter.
        let unit = line.text.find(char::is_alphabetic).unwrap_or(0);
        let gap = line.text[unit..].find(char::is_whitespace);
        let Some(split) = gap.map(|gap| unit + gap) else {
            let message = format!(
                "'{}' is not a time and a rate like '0 s 20 Mbit/s'",
                line.text
            );
            return Err(line.mistake(0, message));
        };
        let (time, rest) = line.text.split_at(split);
        let at = split + rest.len() - rest.trim_start().len();
        let time = units::time(time).map_err(|message| line.mistake(0, message))?;
        let at_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match steps.last() {
            None if at_ns > 0 => {
                return Err(line.mistake(0, "the first line must be at time 0; write '0 s …'"));
            }
            Some(before) if at_ns <= before.at_ns => {
                let message = "this is not later than the line before; sort the lines, and keep \
                               one for each time";
                return Err(line.mistake(0, message));
            }
            _ => {}
        }
        match rest.trim() {
            "repeat" => period = Some(at_ns),
            text => {
                let value = rate_or_zero(text).map_err(|message| line.mistake(at, message))?;
                steps.push(Step { at_ns, value });
            }
        }
        if steps.is_empty() {
            return Err(line.mistake(at, "there is no rate before 'repeat'; add a line above"));
        }
    }
    let sends = match period {
        Some(_) => steps.iter().any(|step| step.value > 0),
        None => steps.last().is_some_and(|step| step.value > 0),
    };
    if !sends {
        return Err(Mistake {
            line: lines(text).last().map_or(1, |line| line.number),
            column: 1,
            message: "the rate is zero for good, so that packets never leave; end with a rate, \
                      or with a line like '60 s repeat'"
                .to_owned(),
        });
    }
    Ok(Trace::Steps { steps, period })
}

/// A rate; 0 is allowed here, because it lasts only for a while.
pub(crate) fn rate_or_zero(text: &str) -> Result<u64, String> {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - digits.len()];
    if number.parse::<f64>().is_ok_and(|number| number == 0.0) {
        // The unit is still checked.
        return units::rate(&format!("1{digits}")).map(|_| 0);
    }
    units::rate(text)
}

/// The mean rate of a generated trace, in bits per second.
///
/// # Errors
/// The text is not a valid mean rate.
pub fn mean_rate(text: &str) -> Result<u64, String> {
    match rate_or_zero(text)? {
        0 => Err("a mean of zero carries nothing; write e.g. \"20 Mbit/s\"".to_owned()),
        mean => Ok(mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_does_not_count() {
        for text in ["1\n25\n", "0 s 1 Mbit/s\n", "# Verizon\n1\n"] {
            assert_eq!(parse(&format!("\u{feff}{text}")), parse(text));
        }
        let place = |mistake: Mistake| (mistake.line, mistake.column);
        assert_eq!(place(parse("\u{feff}x\n").unwrap_err()), (1, 1));
        assert_eq!(place(parse("1\n\u{feff}2\n").unwrap_err()), (2, 1));
    }

    #[test]
    fn opportunities_are_read() {
        let trace = parse("# Verizon\n1\n 1 # twice\n\n25\r\n").unwrap();
        assert_eq!(trace, Trace::Opportunities(vec![1, 1, 25]));
        let schedule = trace.schedule(14).unwrap();
        assert_eq!(schedule.mean_bps(), 3 * 1514 * 8 * 40);
        assert_eq!(schedule.period_ns(), Some(25_000_000));
    }

    #[test]
    fn rates_are_read() {
        let trace = parse("0s 20Mbit/s\n1.5 s 0 kbit/s # out\n2 s  1 Gbit/s\n3 s repeat").unwrap();
        let step = |at_ns, value| Step { at_ns, value };
        let Trace::Steps { steps, period } = trace else {
            panic!("{trace:?}");
        };
        let expected = [
            step(0, 20_000_000),
            step(1_500_000_000, 0),
            step(2_000_000_000, 1_000_000_000),
        ];
        assert_eq!(steps, expected);
        assert_eq!(period, Some(3_000_000_000));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, line, column, part) in [
            ("", 1, 1, "is empty"),
            ("# nothing\n\n", 2, 1, "is empty"),
            ("1\n  two\n", 2, 3, "whole milliseconds"),
            ("1\nNaN\n", 2, 1, "whole milliseconds"),
            ("1\n-3\n", 2, 1, "whole milliseconds"),
            ("1\n2.5\n", 2, 1, "whole milliseconds"),
            ("5\n3\n", 2, 1, "goes back in time"),
            ("0\n0\n", 2, 1, "takes no time"),
            ("99999999999", 1, 1, "a week"),
            ("0 s 20 Mbit/s\n1\n", 2, 1, "a time and a rate"),
            ("1 s 20 Mbit/s", 1, 1, "at time 0"),
            ("0 s 20 Mbps", 1, 5, "did you mean 'Mbit/s'"),
            ("0 s NaN Mbit/s", 1, 5, "not a rate"),
            ("0 s -1 Mbit/s", 1, 5, "negative"),
            ("0 s 20", 1, 5, "needs a unit"),
            ("0 parsecs 20 Mbit/s", 1, 1, "unknown unit"),
            ("0 s 2 Mbit/s\n0 s 1 Mbit/s", 2, 1, "not later"),
            (
                "0 s 2 Mbit/s\n  1 s repeat\n2 s 1 Mbit/s",
                3,
                1,
                "nothing follows",
            ),
            ("0 s repeat", 1, 5, "no rate"),
            ("0 s 0 Mbit/s\n5 s repeat", 2, 1, "never leave"),
            ("0 s 5 Mbit/s\n3 s 0 bit/s", 2, 1, "never leave"),
        ] {
            let mistake = parse(text).expect_err(text);
            assert_eq!(
                (mistake.line, mistake.column),
                (line, column),
                "{text}: {mistake}"
            );
            assert!(mistake.message.contains(part), "{text}: {mistake}");
        }
    }
}
