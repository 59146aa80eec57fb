//! `ackwise ab`: an experiment on live traffic. The policy is on and off in blocks, in random
//! order, until the difference that it makes is known.

mod blocks;
pub mod guard;
mod outcome;
mod page;
mod page_file;
mod report;
pub mod subject;

use std::io::Write;
use std::time::{Duration, SystemTime};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_datapath::{Datapath, Prepared};
use ackwise_netdev::daemon::Supervisor;
use ackwise_netdev::kernel;
use ackwise_switchback::{Design, MetricEffect, Verdict};
use anyhow::Context;
use indicatif::ProgressBar;

use crate::linux::cli::ab::AbArgs;
use crate::linux::options::thin_options;
use crate::linux::summary;
use crate::linux::watch::reason;
use blocks::{Blocks, Lengths};
use outcome::BlockMeter;
use page_file::PageFile;
use report::{Report, Setup, effects_and_verdict, in_text, report};

/// Shorter blocks measure the coin, not the policy.
const MIN_BLOCK: Duration = Duration::from_secs(1);

/// Runs an experiment and reports the result.
pub fn ab(args: &AbArgs, format: Format) -> anyhow::Result<()> {
    let wash_out = args.wash_out.unwrap_or(args.block / 5);
    if args.block < MIN_BLOCK || wash_out >= args.block {
        return Err(BadInput::new(format!(
            "--block {:?} with --wash-out {wash_out:?} leaves no time to measure",
            args.block
        ))
        .hint("choose blocks of at least 1s, and a wash-out shorter than a block")
        .into());
    }
    let options = thin_options(&args.thin)?;
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let setup = Setup {
        interface: options.ifname.clone(),
        policy: options.policy.to_string(),
        position: text::json_name(&options.position),
        block_s: args.block.as_secs_f64(),
        wash_out_s: wash_out.as_secs_f64(),
        most_pairs: args.pairs,
        difference: args.difference,
        error: args.error,
        seed: args.seed.unwrap_or_else(seed_of_the_time),
        kernel: kernel::release(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let meter = BlockMeter::new(options.position);
    let prepared = Prepared::checked(options)?;
    // Before privileges are dropped, and after everything that may refuse the arguments.
    let page = args.html.as_deref().map(PageFile::open).transpose()?;
    let prepared = prepared.drop_privileges(args.thin.user.as_deref())?;
    let datapath = prepared.start()?;
    supervisor.ready(&format!(
        "experiment with {} on {}",
        setup.policy, setup.interface
    ));
    let lengths = Lengths {
        block: args.block,
        wash_out,
    };
    let experiment = Experiment {
        setup,
        blocks: Blocks::new(&supervisor, &datapath, meter, lengths),
        line: summary::live_line(),
        shows_line: format == Format::Text && text::watched(),
    };
    let report = experiment.run();
    supervisor.stopping();
    let detached = datapath.detach();
    let report = report?;
    if let Some(file) = page {
        file.write(&page::page(&report))
            .context("cannot write the page")?;
    }
    match format {
        Format::Json => text::print(&format!("{}\n", serde_json::to_string(&report)?))?,
        Format::Text => text::print(&in_text(&report))?,
    }
    detached.map(|_| ()).map_err(Into::into)
}

fn seed_of_the_time() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

struct Experiment<'a> {
    setup: Setup,
    blocks: Blocks<'a, Datapath>,
    line: ProgressBar,
    shows_line: bool,
}

impl Experiment<'_> {
    /// Runs blocks until the answer is known, all pairs are done, or somebody ends the experiment.
    fn run(mut self) -> anyhow::Result<Report> {
        let ended = self.pairs()?;
        self.line.finish_and_clear();
        Ok(report(&self.setup, &self.blocks.outcomes, ended))
    }

    fn pairs(&mut self) -> anyhow::Result<String> {
        let mut design = Design::new(self.setup.seed);
        for _ in 0..self.setup.most_pairs {
            if let Some(ended) = self.blocks.pair(&mut design)? {
                return Ok(format!("ended by {}", reason(ended, "ackwise detach")));
            }
            let (effects, verdict) = effects_and_verdict(&self.setup, &self.blocks.outcomes);
            self.report(&effects[0], verdict);
            match verdict {
                Verdict::Undecided => {}
                Verdict::Harms => return Ok("ended at once, since it harms".to_owned()),
                Verdict::Helps | Verdict::NoDifference => {
                    return Ok("ended early, since the answer is known".to_owned());
                }
            }
        }
        Ok("all pairs are done".to_owned())
    }

    /// Reports the state after a pair: on a terminal in one line that is rewritten, otherwise in a
    /// new line.
    fn report(&self, data: &MetricEffect, verdict: Verdict) {
        let message = format!(
            "{} of {} pairs: data {} ({} to {}); {}",
            self.blocks.outcomes.len() / 2,
            self.setup.most_pairs,
            report::change(data.ratio),
            report::change(data.low),
            report::change(data.high),
            text::json_name(&verdict),
        );
        if self.shows_line {
            self.line.set_message(message);
        } else {
            // Nobody has to read standard error.
            let _ = writeln!(std::io::stderr(), "{message}");
        }
    }
}
