//! Measures how often `ackwise ab` is wrong, and how soon it finds harm, with the program itself on
//! Linux in virtual time.
//!
//! ```sh
//! kernel/build um
//! cargo bench -p ackwise --bench ab_virtual -- --experiments 100
//! ```
//!
//! A boot runs some experiments of one kind. The kinds take turns, so that all of them have
//! advanced about equally whenever this is stopped. Finished experiments are in the journal, and
//! are not repeated.

#[path = "../tests/experiments/mod.rs"]
mod experiments;

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use ackwise_rng::Rng;
use ackwise_testbed::{Kernel, this_program_in_virtual_time};
use clap::{Parser, ValueEnum};
use experiments::journal::Journal;
use experiments::summary::{in_text, summary, wrong};
use experiments::{ACKWISE, Found, Line, design, kinds};
use serde_json::{Value, json};

/// The number of experiments in a boot.
const BOOT: u64 = 5;

#[derive(Debug, Parser)]
struct Args {
    /// Experiments of each kind
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    experiments: u64,

    /// The seed of coins, loads and losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Machines at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// Where results are kept, and found when this is run again
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/ab-virtual.jsonl"))]
    journal: PathBuf,

    /// How the results are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// In the guest: the kind's number and that of its first experiment
    #[arg(long, num_args = 2, hide = true)]
    boot: Option<Vec<u64>>,

    /// What `cargo bench` adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(boot) = &args.boot {
        let mut line = Line::new();
        for experiment in boot[1]..boot[1] + BOOT {
            let found = line.experiment(boot[0] as usize, experiment, args.seed);
            println!("{}", serde_json::to_string(&found).expect("plain data"));
        }
        return ExitCode::SUCCESS;
    }
    match calibrate(&args) {
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("ab_virtual: {}", missed.join("; "));
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("ab_virtual: {why}");
            ExitCode::from(2)
        }
    }
}

/// A boot: its kind, and its first experiment.
type Boot = (usize, u64);

/// What workers share.
struct Shared {
    left: VecDeque<Boot>,
    /// The number of finished boots, and of all.
    done: usize,
    boots: usize,
    journal: Journal,
    all: Vec<Found>,
    failed: Option<String>,
}

/// Runs what has not run yet, prints everything, and returns the aims that are missed.
fn calibrate(args: &Args) -> Result<Vec<String>, String> {
    let kernel = Kernel::find(None).map_err(|error| error.to_string())?;
    let of = of(args, &kernel)?;
    let mut journal = Journal::open(&args.journal, &of)?;
    let before = std::mem::take(&mut journal.before);
    let done: BTreeSet<Boot> = before
        .iter()
        .filter_map(|boot| boot.first())
        .map(|one| (one.kind, one.experiment))
        .collect();
    let firsts = (0..args.experiments).step_by(BOOT as usize);
    let boots = firsts.flat_map(|first| (0..kinds().len()).map(move |kind| (kind, first)));
    let boots: Vec<Boot> = boots.collect();
    let wanted: BTreeSet<Boot> = boots.iter().copied().collect();
    let shared = Mutex::new(Shared {
        done: boots.iter().filter(|boot| done.contains(boot)).count(),
        left: boots
            .iter()
            .copied()
            .filter(|boot| !done.contains(boot))
            .collect(),
        boots: boots.len(),
        journal,
        all: before.into_iter().flatten().collect(),
        failed: None,
    });
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or_else(cores).max(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(args, &kernel, &shared));
        }
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = shared.failed {
        return Err(why);
    }
    // The journal may contain more than is asked for now.
    let mut all = shared.all;
    all.retain(|one| wanted.contains(&(one.kind, one.experiment / BOOT * BOOT)));
    let (rows, missed) = summary(&all);
    match args.format {
        Format::Text => print!("{}", in_text(&rows)),
        Format::Json => {
            let wrong = wrong(&rows);
            let all =
                json!({ "of": of, "kinds": rows, "without_an_effect": wrong, "missed": missed });
            println!("{all}");
        }
    }
    Ok(missed)
}

/// Describes what results are of, so that others are not mixed with them.
fn of(args: &Args, kernel: &Kernel) -> Result<Value, String> {
    let program = std::fs::read(ACKWISE.path())
        .map_err(|error| format!("cannot read {}: {error}", ACKWISE.path()))?;
    let mut hash = DefaultHasher::new();
    program.hash(&mut hash);
    let image = || kernel.image.display().to_string();
    Ok(json!({
        "seed": args.seed,
        "boot": BOOT,
        "design": design(),
        "program": format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash.finish()),
        "kernel": kernel.sources.clone().unwrap_or_else(image),
    }))
}

/// Takes boots until none is left, or one has failed.
fn work(args: &Args, kernel: &Kernel, shared: &Mutex<Shared>) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let next = {
            let mut shared = lock();
            if shared.failed.is_some() {
                return;
            }
            shared.left.pop_front()
        };
        let Some(boot) = next else { return };
        let made = make(args, kernel, boot);
        let mut shared = lock();
        let kept = made.and_then(|found| {
            shared.journal.add(&found)?;
            Ok(found)
        });
        match kept {
            Ok(found) => {
                shared.all.extend(found);
                shared.done += 1;
                tell(&shared, boot.0);
            }
            Err(why) => shared.failed = Some(why),
        }
    }
}

/// Runs the experiments of a boot.
fn make(args: &Args, kernel: &Kernel, (kind, first): Boot) -> Result<Vec<Found>, String> {
    let [seed, number, from] = [args.seed, kind as u64, first].map(|number| number.to_string());
    // Each boot has its own random numbers.
    let guest = Rng::stream(args.seed, (first << 8) + kind as u64).next_u64() >> 32;
    let arguments = ["--seed", &seed, "--boot", &number, &from];
    let named = |why| {
        let name = kinds()[kind].load.name;
        format!("{name}, experiments from {first} on: {why}")
    };
    let output = this_program_in_virtual_time(kernel, guest, &arguments).map_err(named)?;
    let found: Result<Vec<Found>, _> = output.lines().map(serde_json::from_str).collect();
    let found = found.map_err(|error| named(format!("{error} in {output}")))?;
    if found.len() as u64 != BOOT {
        return Err(named(format!("{} experiments: {output}", found.len())));
    }
    Ok(found)
}

/// Reports the progress after a boot of this kind.
fn tell(shared: &Shared, kind: usize) {
    let of_kind: Vec<_> = shared
        .all
        .iter()
        .filter(|one| one.kind == kind)
        .cloned()
        .collect();
    let (rows, _) = summary(&of_kind);
    for row in rows {
        eprintln!(
            "{} of {} boots; {}{}: of {} experiments {} find an effect, {} say harms",
            shared.done,
            shared.boots,
            row.load,
            if row.harm { ", a tenth less" } else { "" },
            row.effect.of,
            row.effect.are,
            row.harms.are,
        );
    }
}
