//! The calibration of `ackwise ab` in virtual time: some experiments, and the code that counts
//! them. `make calibrate-virtual` runs 1,000 of each kind.

mod experiments;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use ackwise_switchback::{Block, Verdict};
use ackwise_testbed::in_virtual_time;
use experiments::journal::Journal;
use experiments::summary::{Share, in_text, summary};
use experiments::{Found, Line, PAIRS, kinds};
use serde_json::json;

/// The number of a kind.
fn kind(load: &str, harm: bool) -> usize {
    let wanted = |kind: &experiments::Kind| kind.load.name == load && kind.harm == harm;
    kinds().iter().position(wanted).unwrap()
}

/// The line keeps in step with the program's blocks, which every experiment asserts.
#[test]
fn the_program_finds_a_loss_of_a_tenth_and_nothing_where_nothing_is() {
    in_virtual_time(|| {
        let mut line = Line::new();
        for load in ["short transfers", "one flow"] {
            let found = line.experiment(kind(load, true), 0, 1);
            println!("{found:?}");
            assert_eq!(found.verdict, Verdict::Harms, "{found:?}");
            assert!((0.85..0.95).contains(&found.ratio), "{found:?}");
            // No interval is finite before the seventh pair.
            assert!((7..=25).contains(&found.pairs), "{found:?}");
            assert!(found.effects.values().all(|pair| *pair <= found.pairs));
        }
        let found = line.experiment(kind("four flows", false), 0, 1);
        println!("{found:?}");
        assert!((0.95..1.05).contains(&found.ratio), "{found:?}");
        assert_ne!(found.verdict, Verdict::Harms, "{found:?}");
    });
}

#[test]
fn a_policy_thins_in_its_blocks_and_only_there() {
    in_virtual_time(|| {
        let blocks = Line::new().policy(&["--policy", "every-n", "--set", "n=8"], 6);
        assert_eq!(blocks.len(), 12);
        for block in &blocks {
            match block.policy {
                Block::On => assert!(block.withheld_per_s > 20.0, "{block:?}"),
                Block::Off => assert_eq!(block.withheld_per_s, 0.0, "{block:?}"),
            }
            // 2 Mbit/s minus headers: the line is full in both blocks.
            let full = block.data_bytes_per_s / (2e6 / 8.0);
            assert!((0.9..0.98).contains(&full), "{block:?}");
            assert!(block.rtt_ms.is_some_and(|ms| ms > 40.0), "{block:?}");
        }
    });
}

fn found(kind: usize, experiment: u64, verdict: Verdict, pairs: usize) -> Found {
    let effects = match verdict {
        Verdict::Harms => BTreeMap::from([("data".to_owned(), pairs)]),
        _ => BTreeMap::new(),
    };
    Found {
        kind,
        experiment,
        pairs,
        verdict,
        effects,
        ratio: 1.0,
    }
}

#[test]
fn a_calibration_goes_on_where_it_was_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let of = json!({ "seed": 1 });
    let boot = |first: u64| [0, 1].map(|n| found(3, first + n, Verdict::Undecided, PAIRS));
    let mut journal = Journal::open(&path, &of).unwrap();
    assert!(journal.before.is_empty());
    journal.add(&boot(0)).unwrap();
    journal.add(&boot(2)).unwrap();
    drop(journal);
    // The process was killed while it wrote.
    let whole = fs::read(&path).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&whole[whole.len() - 40..whole.len() - 1])
        .unwrap();
    let mut journal = Journal::open(&path, &of).unwrap();
    assert_eq!(journal.before, [boot(0), boot(2)]);
    journal.add(&boot(4)).unwrap();
    let journal = Journal::open(&path, &of).unwrap();
    assert_eq!(journal.before, [boot(0), boot(2), boot(4)]);
    // Results of another calibration are neither used nor lost.
    let before = fs::read(&path).unwrap();
    let output = Journal::open(&path, &json!({ "seed": 2 })).err().unwrap();
    for part in ["another calibration", "--journal", "journal has"] {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    // An error gives the place of a line that is not a result.
    fs::write(&path, format!("{of}\nnothing\n")).unwrap();
    let output = Journal::open(&path, &of).err().unwrap();
    assert!(output.contains("journal:2: "), "{output}");
}

#[test]
fn shares_have_the_intervals_of_clopper_and_pearson() {
    // From sums of exact binomial coefficients with 60 digits.
    for (are, of, low, high) in [
        (0, 1_000, 0.0, 0.003_682_08),
        (5, 100, 0.016_431_88, 0.112_834_91),
        (50, 1_000, 0.037_335_4, 0.065_390_5),
        (20, 20, 0.831_566_5, 1.0),
    ] {
        let share = Share::new(are, of);
        assert!((share.low - low).abs() < 1e-6, "{share:?}");
        assert!((share.high - high).abs() < 1e-6, "{share:?}");
    }
}

/// Without an effect `wrong` of `of` experiments say *harms*; with harm, it is found after these
/// pairs.
fn misses(load: &str, wrong: usize, of: usize, after: &[usize]) -> Vec<String> {
    let without = (0..of).map(|n| {
        let verdict = if n < wrong {
            Verdict::Harms
        } else {
            Verdict::NoDifference
        };
        found(kind(load, false), n as u64, verdict, 20)
    });
    let with = (0..).zip(after).map(|(n, after)| {
        let verdict = match *after {
            PAIRS => Verdict::Undecided,
            _ => Verdict::Harms,
        };
        found(kind(load, true), n, verdict, *after)
    });
    let all: Vec<_> = without.chain(with).collect();
    let (rows, missed) = summary(&all);
    // A title, two kinds, and a summary of what is found without an effect.
    let text = in_text(&rows);
    assert_eq!(text.lines().count(), 4, "{text}");
    let output = format!("Without an effect {wrong} of {of} find one; ");
    assert!(text.contains(&output), "{text}");
    missed
}

#[test]
fn what_misses_its_aim_is_named() {
    let soon = [9; 100];
    assert!(misses("one flow", 50, 1_000, &soon).is_empty());
    assert_eq!(
        misses("one flow", 51, 1_000, &soon),
        ["one flow: 51 of 1000 find an effect where there is none"]
    );
    // Five of 20 may be chance (0.003), six are not (0.0003).
    assert!(misses("one flow", 5, 20, &soon).is_empty());
    assert_eq!(misses("one flow", 6, 20, &soon).len(), 1);
    let mut late = soon;
    late[..5].fill(PAIRS);
    assert!(misses("one flow", 0, 20, &late).is_empty());
    late[5] = 26;
    let missed = misses("one flow", 0, 20, &late);
    assert_eq!(
        missed,
        ["one flow: a loss of a tenth is not found in 95 % in 25 pairs"]
    );
    // This load has no promised time.
    assert!(misses("a pattern of 24 blocks", 0, 20, &late).is_empty());
}
