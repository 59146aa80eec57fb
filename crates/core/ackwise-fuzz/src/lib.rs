//! Mutates inputs of a corpus, guided by what a target says about them; for tests.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ackwise_rng::Rng;

/// The number of inputs in `cargo test`, which takes the same path each time.
const FIXED_INPUTS: u64 = 3000;
/// The number of attempts to shorten a file that is kept.
const MAX_SHORTENINGS: usize = 400;
/// The maximum number of files that a run keeps, first those that yield the most new messages.
const MAX_KEPT: usize = 48;

/// Something that reads untrusted bytes.
#[derive(Debug)]
pub struct Target<'a> {
    /// Its name in messages.
    pub name: &'a str,
    /// The directory of its corpus.
    pub corpus: PathBuf,
    /// Files that belong to the corpus but are elsewhere.
    pub extra_files: Vec<PathBuf>,
    /// Words that inputs are built from.
    pub dictionary: &'a [&'a str],
    /// The maximum length of an input in bytes.
    pub max_len: usize,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The number of inputs tried.
    pub inputs: u64,
    /// The number of distinct messages of the target.
    pub messages: usize,
}

/// Prints the input if the target panics.
struct PrintOnPanic<'a> {
    target: &'a Target<'a>,
    input: &'a [u8],
}

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let shown = self.input.escape_ascii();
        let path = env::temp_dir().join(format!("ackwise-fuzz-{}", self.target.name));
        let written = std::fs::write(&path, self.input).is_ok();
        eprintln!(
            "{}: FOUND something with this input: {shown}",
            self.target.name
        );
        if written {
            eprintln!("it is in {}", path.display());
        }
    }
}

impl Target<'_> {
    /// Runs the corpus and inputs derived from it. `read` panics if the target misbehaves, and
    /// returns what the target says about an input: a few words, without anything specific to the
    /// input.
    ///
    /// # Panics
    /// If `read` panics, or the corpus cannot be read.
    pub fn run(&self, read: impl Fn(&[u8]) -> Vec<String>) -> Summary {
        let read = |input: &[u8]| {
            let _print_on_panic = PrintOnPanic {
                target: self,
                input,
            };
            read(input)
        };
        let mut fuzzer = Fuzzer {
            target: self,
            pool: Vec::new(),
            messages: BTreeSet::new(),
            inputs: 0,
        };
        for input in self.seeds() {
            fuzzer.try_one(input, &read, true);
        }
        assert!(!fuzzer.pool.is_empty(), "{}: no corpus", self.name);
        let given = fuzzer.pool.len();
        let mut rng = Rng::new(1);
        for _ in 0..FIXED_INPUTS {
            let input = fuzzer.mutated(&mut rng);
            fuzzer.try_one(input, &read, false);
        }
        if let Some(seconds) = env_number("FUZZ_SECONDS") {
            let seed = env_number("FUZZ_SEED")
                .filter(|seed| *seed > 0)
                .unwrap_or_else(time_seed);
            println!("{}: FUZZ_SEED={seed}", self.name);
            let mut rng = Rng::new(seed);
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end {
                let input = fuzzer.mutated(&mut rng);
                fuzzer.try_one(input, &read, false);
            }
        }
        if env::var_os("FUZZ_KEEP").is_some() {
            let (old, new) = fuzzer.pool.split_at(given);
            self.keep(&cover(old, new, &read), &read);
        }
        let summary = Summary {
            inputs: fuzzer.inputs,
            messages: fuzzer.messages.len(),
        };
        println!("{}: {summary:?}", self.name);
        summary
    }

    /// The files of the corpus, ordered by name.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(&self.corpus);
        let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", self.corpus.display()));
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        files.extend(self.extra_files.iter().cloned());
        let read = |path: &PathBuf| {
            std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        files.iter().map(read).collect()
    }

    /// Writes inputs into the corpus, each shortened as far as the target says the same about it.
    fn keep(&self, inputs: &[&Vec<u8>], read: &impl Fn(&[u8]) -> Vec<String>) {
        for input in inputs {
            let said: BTreeSet<String> = read(input).into_iter().collect();
            let mut short = (*input).clone();
            let mut size = short.len() / 2;
            let mut tries = 0;
            while size > 0 && tries < MAX_SHORTENINGS {
                let mut at = 0;
                while at < short.len() && tries < MAX_SHORTENINGS {
                    let mut less = short.clone();
                    less.drain(at..(at + size).min(less.len()));
                    tries += 1;
                    match read(&less).into_iter().collect::<BTreeSet<_>>() == said {
                        true => short = less,
                        false => at += size,
                    }
                }
                size /= 2;
            }
            let path = self.corpus.join(format!("{:016x}", hash(&short)));
            std::fs::write(&path, &short).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
}

/// Chooses a few of the new inputs that cover the messages that the old ones lack, each time the
/// input with the most of them, and at most as many as are kept.
fn cover<'a>(
    old: &[Vec<u8>],
    new: &'a [Vec<u8>],
    read: &impl Fn(&[u8]) -> Vec<String>,
) -> Vec<&'a Vec<u8>> {
    let known: BTreeSet<String> = old.iter().flat_map(|input| read(input)).collect();
    let mut waiting: Vec<(&Vec<u8>, BTreeSet<String>)> = (new.iter())
        .map(|input| (input, &BTreeSet::from_iter(read(input)) - &known))
        .collect();
    let mut kept = Vec::new();
    while kept.len() < MAX_KEPT {
        let best = (waiting.iter().enumerate())
            .max_by_key(|(n, (_, said))| (said.len(), std::cmp::Reverse(*n)));
        let Some((best, _)) = best.filter(|(_, (_, said))| !said.is_empty()) else {
            break;
        };
        let (input, said) = waiting.swap_remove(best);
        kept.push(input);
        for (_, rest) in &mut waiting {
            rest.retain(|message| !said.contains(message));
        }
    }
    kept
}

struct Fuzzer<'a> {
    target: &'a Target<'a>,
    /// Inputs about which the target said something new.
    pool: Vec<Vec<u8>>,
    messages: BTreeSet<String>,
    inputs: u64,
}

impl Fuzzer<'_> {
    fn try_one(&mut self, input: Vec<u8>, read: &impl Fn(&[u8]) -> Vec<String>, keep: bool) {
        self.inputs += 1;
        let before = self.messages.len();
        self.messages.extend(read(&input));
        if keep || self.messages.len() > before {
            self.pool.push(input);
        }
    }

    fn mutated(&self, rng: &mut Rng) -> Vec<u8> {
        let mut input = self.random_input(rng).to_vec();
        for _ in 0..=rng.below(4) {
            self.mutate(rng, &mut input);
        }
        input.truncate(self.target.max_len);
        input
    }

    fn random_input(&self, rng: &mut Rng) -> &[u8] {
        &self.pool[rng.below(self.pool.len() as u64) as usize]
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let len = input.len() as u64;
        let at = rng.below(len + 1) as usize;
        let end = (at + rng.below(24) as usize).min(input.len());
        match rng.below(10) {
            0 => drop(input.drain(at..end)),
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            2 => input.insert(at, rng.next_u64() as u8),
            3 => {
                let piece = input[at..end].to_vec();
                let to = rng.below(len + 1) as usize;
                input.splice(to..to, piece);
            }
            // A piece of another input, mostly whole lines.
            4 | 5 => {
                let other = self.random_input(rng);
                let from = rng.below(other.len() as u64 + 1) as usize;
                let from = other[..from].iter().rposition(|b| *b == b'\n').unwrap_or(0);
                let long = rng.below(200) as usize;
                let piece = other[from..(from + long).min(other.len())].to_vec();
                input.splice(at..at, piece);
            }
            // One word replaced by another.
            6 | 7 => {
                let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                let start = input[..at].iter().rposition(|b| !is_word(b));
                let start = start.map_or(0, |n| n + 1);
                let stop = input[at..].iter().position(|b| !is_word(b));
                let stop = stop.map_or(input.len(), |n| at + n);
                input.splice(start..stop, self.word(rng));
            }
            8 => drop(input.splice(at..at, self.word(rng))),
            // A long repetition.
            _ => {
                let piece = input[at..end].repeat(rng.below(200) as usize);
                input.splice(at..at, piece);
            }
        }
    }

    fn word(&self, rng: &mut Rng) -> Vec<u8> {
        const NUMBERS: [&str; 12] = [
            "0",
            "1",
            "-1",
            "65536",
            "4294967296",
            "9223372036854775808",
            "1e308",
            "nan",
            "1.5",
            "\"\"",
            "é\u{301}",
            "\u{0}",
        ];
        let words = self.target.dictionary;
        let n = rng.below((words.len() + NUMBERS.len()) as u64) as usize;
        let word = words.get(n).or_else(|| NUMBERS.get(n - words.len()));
        word.map_or(Vec::new(), |word| word.as_bytes().to_vec())
    }
}

/// A message without anything specific to the input: numbers, and text in quotation marks.
#[must_use]
pub fn template(message: &str) -> String {
    let mut text = String::new();
    let mut quoted = None;
    for c in message.chars() {
        match quoted {
            Some(mark) if c == mark => quoted = None,
            Some(_) => {}
            None if c == '\'' || c == '"' || c == '`' => {
                quoted = Some(c);
                text.push(c);
            }
            None if c.is_ascii_digit() => {}
            None => text.push(c),
        }
    }
    text.chars().take(120).collect()
}

/// The directory of a corpus: `tests/corpus/NAME` of the crate with this manifest directory.
#[must_use]
pub fn corpus(manifest: &str, name: &str) -> PathBuf {
    Path::new(manifest).join("tests/corpus").join(name)
}

/// The FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn time_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}

fn env_number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some((text.parse()).unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fuzzer finds what takes only a few steps to reach.
    #[test]
    fn new_messages_guide_it() {
        let dir = env::temp_dir().join(format!("ackwise-fuzz-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("seed"), "alpha").unwrap();
        let target = Target {
            name: "guided",
            corpus: dir.clone(),
            extra_files: Vec::new(),
            dictionary: &["beta", "gamma", "delta"],
            max_len: 100,
        };
        let summary = target.run(|input| {
            let text = String::from_utf8_lossy(input);
            let words = ["alpha", "beta", "gamma", "delta"];
            let n = words
                .iter()
                .take_while(|word| text.contains(**word))
                .count();
            vec![format!("the first {n}")]
        });
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(summary.messages >= 5, "{summary:?}");
    }

    /// One input is kept of those with the same messages.
    #[test]
    fn kept_inputs_cover_all_messages() {
        let words = |input: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(input);
            text.split(' ').map(str::to_owned).collect()
        };
        let inputs = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        let (old, new) = (inputs(&["a b"]), inputs(&["a c", "c d b", "d", "b", "e"]));
        let kept: Vec<_> = cover(&old, &new, &words).into_iter().cloned().collect();
        assert_eq!(kept, inputs(&["c d b", "e"]));
    }

    #[test]
    fn a_template_contains_nothing_specific_to_the_input() {
        let one = template("line 3: unknown key 'rat'; did you mean 'rate'?");
        assert_eq!(
            one,
            template("line 14: unknown key 'x'; did you mean 'rate'?")
        );
        assert_eq!(one, "line : unknown key '; did you mean '?");
    }
}
