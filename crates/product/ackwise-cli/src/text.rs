//! Text for a person on a terminal: aligned columns, rounded numbers.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Aligns columns, two spaces apart; `right` says which of them contain numbers. Lines have no
/// trailing spaces.
pub fn columns(rows: &[Vec<String>], right: &[bool]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.get(index).copied().unwrap_or(false) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// A count in at most five characters: `950`, `12.3k`, `4.56M`.
pub fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G", "T"])
}

/// Bytes: `950 B`, `1.21 MiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// A rate: `950 bit/s`, `12.3 kbit/s`.
pub fn bit_rate(bps: f64) -> String {
    let units = [" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"];
    scaled(bps, 1000.0, &units)
}

/// Microseconds: `850 µs`, `12.3 ms`, `1.50 s`.
pub fn micros(us: f64) -> String {
    scaled(us, 1000.0, &[" µs", " ms", " s", " ks"])
}

/// A part of a whole in percent.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// A time in seconds since something began: `3.2s`, `1m15s`, `2d07h`.
pub fn uptime(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// The name of a value in JSON.
pub fn json_name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => other.map(|value| value.to_string()).unwrap_or_default(),
    }
}

fn scaled(n: f64, step: f64, units: &[&str]) -> String {
    let (mut n, mut unit) = (n, 0);
    while n.abs() >= step * 0.9995 && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    let digits = match n.abs() {
        _ if unit == 0 && n.fract() == 0.0 => 0,
        a if a >= 99.95 => 0,
        a if a >= 9.995 => 1,
        _ => 2,
    };
    format!("{n:.digits$}{}", units[unit])
}

/// Writes to standard output. A reader that has gone (`| head`) is not an error.
///
/// # Errors
///
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(e).context("standard output: cannot be written"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. It does not matter if nobody reads it.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a value as JSON with a newline.
///
/// # Errors
///
/// If the value cannot be converted to JSON, or standard output cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Escapes control characters, such as those with which a file could change the terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_raw = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_raw) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match is_raw(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(escaped.collect())
}

/// Returns whether somebody watches standard error.
pub fn watched() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        for (n, s) in [
            (0.0, "0"),
            (950.0, "950"),
            (999.0, "999"),
            (999.9, "1.00k"),
            (12_345.0, "12.3k"),
            (4_560_000.0, "4.56M"),
            (1e15, "1000T"),
            (0.25, "0.25"),
        ] {
            assert_eq!(count(n), s);
        }
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(17), "17 B");
        assert_eq!(micros(850.0), "850 µs");
        assert_eq!(micros(24_900.0), "24.9 ms");
    }

    #[test]
    fn a_file_cannot_change_the_terminal() {
        assert_eq!(printable("a\tb\nµ"), "a\tb\nµ");
        assert_eq!(printable("\u{1b}[31mred"), "\\u{1b}[31mred");
    }

    #[test]
    fn times_are_short() {
        for (s, text) in [
            (3.21, "3.2s"),
            (75.0, "1m15s"),
            (3_700.0, "1h01m"),
            (200_000.0, "2d07h"),
        ] {
            assert_eq!(uptime(s), text);
        }
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        assert_eq!((share(3, 8), share(0, 0)), ("37.5 %".into(), "-".into()));
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "1".into()],
            vec!["long".into(), "23".into(), "x".into()],
        ];
        assert_eq!(columns(&rows, &[false, true]), "a      1\nlong  23  x\n");
    }
}
