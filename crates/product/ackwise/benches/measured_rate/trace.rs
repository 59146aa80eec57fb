//! Traces of a rate.

use std::path::Path;

/// A rate that changes.
#[derive(Debug)]
pub struct Trace {
    /// The name of the file without its extension.
    pub name: String,
    /// The rates, bit/s, one per 100 ms.
    pub rates: Vec<u64>,
}

impl Trace {
    /// Parses pairs of `time rate`, e.g. `0.02 s 7002056 bit/s`; each rate holds until the next.
    pub fn read(path: &Path, seconds: u64) -> Result<Self, String> {
        let named = |why: &str| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(&error.to_string()))?;
        let mut pairs = Vec::new();
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            // The last line says when the trace repeats.
            if let [_, "s", "repeat"] = words[..] {
                continue;
            }
            let pair = match words[..] {
                [at, "s", rate, "bit/s"] => at.parse::<f64>().ok().zip(rate.parse::<f64>().ok()),
                _ => None,
            };
            pairs.push(pair.ok_or_else(|| {
                named(&format!(
                    "'{line}' is no pair of a time in s and a rate in bit/s"
                ))
            })?);
        }
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else {
            return Err(named("it has no rates"));
        };
        // The last rate holds as long as the others.
        if first.0 > 0.0 || last.0 + 1.0 < seconds as f64 {
            let spans = format!(
                "it is of {} s to {} s, and {seconds} s are run",
                first.0, last.0
            );
            return Err(named(&spans));
        }
        let rates = (0..seconds * 10).map(|step| mean_of(&pairs, step as f64 / 10.0));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            rates: rates.collect(),
        })
    }

    /// The part of the name that related traces share.
    pub fn kind(&self) -> &str {
        self.name
            .rsplit_once('-')
            .map_or(&self.name, |(kind, _)| kind)
    }
}

/// The mean over 100 ms from `from` on, at least 10 kbit/s.
fn mean_of(pairs: &[(f64, f64)], from: f64) -> u64 {
    let until = from + 0.1;
    let mut bits = 0.0;
    for (index, (at, rate)) in pairs.iter().enumerate() {
        let ends = pairs.get(index + 1).map_or(f64::INFINITY, |next| next.0);
        let holds = ends.min(until) - at.max(from);
        if holds > 0.0 {
            bits += rate * holds;
        }
    }
    ((bits / 0.1) as u64).max(10_000)
}
