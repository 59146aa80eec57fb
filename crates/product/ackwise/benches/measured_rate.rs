//! Compares a measured rate on a changing link with cake-autorate and with cake at a known rate:
//! the programs themselves, on Linux in virtual time.
//!
//! ```sh
//! scripts/bench-rate
//! ```
//!
//! Each run boots a separate kernel with a host behind a modem (`tests/uplink`), two uploads or two
//! downloads whose ACKs fill the uplink, and a sparse flow of queries beside them.
//! `scripts/bench-device` runs the guest's part in an emulated machine, where CPU time counts
//! instructions.

#[path = "../tests/uplink/mod.rs"]
mod uplink;

#[path = "measured_rate/arm.rs"]
mod arm;
#[path = "measured_rate/table.rs"]
mod table;
#[path = "measured_rate/trace.rs"]
mod trace;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ackwise_testbed::{Kernel, this_program_in_virtual_time};
use arm::{Arm, Found};
use clap::{Parser, ValueEnum};
use trace::Trace;

#[derive(Debug, Parser)]
struct Args {
    /// Traces of the uplink's rate, as `ackwise-lab trace` prints them; a name up to its last dash is its kind
    #[arg(value_name = "FILE")]
    traces: Vec<PathBuf>,

    /// A clone of cake-autorate; without it the others are compared
    #[arg(long, value_name = "DIR")]
    autorate: Option<PathBuf>,

    /// Seconds of each trace, of which the first five are not counted
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,

    /// Two downloads instead of uploads, over a downlink that is so many times as fast as the uplink on the mean;
    /// utilisation is that of the downlink
    #[arg(long, value_name = "RATIO", value_parser = clap::value_parser!(u64).range(1..))]
    downloads: Option<u64>,

    /// Machines at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,

    /// How the results are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// In the guest: what sets the rate
    #[arg(long, value_enum, hide = true)]
    boot: Option<Arm>,

    /// In the guest: the rates, bit/s, one each 100 ms
    #[arg(long, value_delimiter = ',', hide = true)]
    rates: Vec<u64>,

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
    if let Some(arm) = args.boot {
        let found = arm::run(arm, &args.rates, args.downloads, args.autorate.as_deref());
        println!("{}", serde_json::to_string(&found).expect("plain data"));
        return ExitCode::SUCCESS;
    }
    match compare(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("measured_rate: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs every arm on every trace, and prints the results.
fn compare(args: &Args) -> Result<(), String> {
    let traces = args
        .traces
        .iter()
        .map(|path| Trace::read(path, args.seconds))
        .collect::<Result<Vec<_>, _>>()?;
    if traces.is_empty() {
        return Err("no trace is given: scripts/bench-rate makes some".to_owned());
    }
    let kernel = Kernel::find(None).map_err(|error| error.to_string())?;
    let mut arms = vec![Arm::Measured, Arm::Known];
    if args.autorate.is_some() {
        arms.insert(1, Arm::CakeAutorate);
    } else {
        eprintln!("measured_rate: without cake-autorate: --autorate names a clone of it");
    }
    if args.downloads.is_some() {
        arms.insert(0, Arm::Nothing);
    }
    let runs: Vec<_> = traces
        .iter()
        .flat_map(|trace| arms.iter().map(move |arm| (trace, *arm)))
        .collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, |jobs| jobs as usize);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(runs.len()) {
            scope.spawn(|| {
                while let Some((trace, arm)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = boot(&kernel, trace, *arm, args);
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    eprintln!("{count} of {}: {}, {}", runs.len(), trace.name, arm.name());
                    all.lock().expect("no panic").push((trace, *arm, found));
                }
            });
        }
    });
    // A failed run must not lose the others' results.
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (trace, arm, found) in all.into_inner().expect("no panic") {
        match found {
            Ok(found) => rows.push(table::Row::new(trace, arm, found)),
            Err(why) => failed.push(format!("{}, {}: {why}", trace.name, arm.name())),
        }
    }
    rows.sort_by(|a, b| (&a.trace, a.arm).cmp(&(&b.trace, b.arm)));
    match args.format {
        Format::Text => print!("{}", table::in_text(&rows)),
        Format::Json => println!("{}", serde_json::to_string(&rows).expect("plain data")),
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} of {} runs failed\n{}",
            runs.len(),
            failed.join("\n")
        )),
    }
}

/// Boots a kernel for one run.
fn boot(kernel: &Kernel, trace: &Trace, arm: Arm, args: &Args) -> Result<Found, String> {
    let rates: Vec<_> = trace.rates.iter().map(u64::to_string).collect();
    let rates = rates.join(",");
    let mut arguments = vec!["--boot", arm.name(), "--rates", &rates];
    let ratio = args.downloads.map(|ratio| ratio.to_string());
    if let Some(ratio) = &ratio {
        arguments.extend(["--downloads", ratio]);
    }
    let directory = args
        .autorate
        .as_ref()
        .map(|path| path.display().to_string());
    if let Some(directory) = &directory {
        arguments.extend(["--autorate", directory]);
    }
    // Every arm on a trace has the same random numbers.
    let mut hash = DefaultHasher::new();
    trace.name.hash(&mut hash);
    let output = this_program_in_virtual_time(kernel, hash.finish() >> 32, &arguments)?;
    let last = output.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("{error} in {output}"))
}
