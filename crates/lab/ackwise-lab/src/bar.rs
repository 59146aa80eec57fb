//! Shows the progress of the runs to the user.

use std::time::Duration;

use ackwise_cli::{Format, text};
use ackwise_scenario::Progress;
use ackwise_scenario::record::Run;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar for each run.
const STEPS: u64 = 100;

/// The progress of all runs together, on standard error. A terminal shows a bar; elsewhere there is
/// a line per finished run, unless the output is for a program.
pub struct Bar {
    bar: ProgressBar,
    /// Completed [`STEPS`] of each run.
    done: Vec<u64>,
    /// Number of finished runs, if each gets a line.
    finished: Option<usize>,
}

impl Bar {
    /// A bar for this number of runs.
    pub fn new(runs: usize, format: Format) -> Bar {
        let style = ProgressStyle::with_template("{bar:24} {percent:>3} % {wide_msg} {eta} left")
            .expect("a constant template");
        let lines = format == Format::Text && !text::watched();
        Bar {
            bar: ProgressBar::new(runs as u64 * STEPS).with_style(style),
            done: vec![0; runs],
            finished: lines.then_some(0),
        }
    }

    /// Shows a progress report of an engine.
    pub fn show_progress(&mut self, progress: &Progress<'_>) {
        match *progress {
            Progress::Started { run, index, .. } => self.started(&run.id, index),
            Progress::Running {
                index,
                elapsed,
                duration,
            } => self.running(index, elapsed, duration),
            Progress::Finished { run, index, .. } => self.finished(run, index),
            _ => {}
        }
    }

    fn started(&mut self, id: &str, index: usize) {
        self.bar.set_message(id.to_owned());
        self.bar.tick();
        self.at(index, 0);
    }

    fn running(&mut self, index: usize, elapsed: Duration, duration: Duration) {
        let share = elapsed.as_secs_f64() / duration.as_secs_f64().max(1e-3);
        self.at(index, (share.min(1.0) * STEPS as f64) as u64);
    }

    fn finished(&mut self, run: &Run, index: usize) {
        for e in &run.errors {
            self.bar.suspend(|| tracing::warn!("{}: {e}", run.id));
        }
        if let Some(finished) = &mut self.finished {
            *finished += 1;
            let mbps = run.totals.goodput_bps / 1e6;
            let of = self.done.len();
            text::note(&format!("{finished} of {of}: {}, {mbps:.1} Mbit/s", run.id));
        }
        self.at(index, STEPS);
    }

    fn at(&mut self, index: usize, steps: u64) {
        if let Some(slot) = self.done.get_mut(index) {
            self.bar
                .inc(steps.saturating_sub(std::mem::replace(slot, steps)));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A count of finished runs, on standard error. A terminal shows a bar; elsewhere there is a line
/// per finished run, unless the output is for a program.
pub struct CountBar {
    bar: ProgressBar,
    prints_lines: bool,
}

impl CountBar {
    /// A bar for this number of runs.
    pub fn new(runs: usize, format: Format) -> CountBar {
        let style = ProgressStyle::with_template("{bar:24} {pos:>4}/{len} {wide_msg} {eta} left")
            .expect("a constant template");
        CountBar {
            bar: ProgressBar::new(runs as u64).with_style(style),
            prints_lines: format == Format::Text && !text::watched(),
        }
    }

    /// Shows that there will be so many runs, or more if that was known before.
    pub fn expect(&self, runs: u64) {
        let known = self.bar.length().unwrap_or(0);
        self.bar.set_length(known.max(runs));
    }

    /// Shows that so many runs are finished, or are skipped.
    pub fn skip_to(&self, runs: u64) {
        self.bar.set_position(runs);
    }

    /// Shows that so many runs are finished, of which the last has just ended.
    pub fn finished(&self, runs: u64) {
        self.skip_to(runs);
        if self.prints_lines {
            let of = self.bar.length().unwrap_or(runs);
            text::note(&format!("{runs} of {of}: {}", self.bar.message()));
        }
    }

    /// Shows what runs now.
    pub fn show(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Shows a step that has no runs to count.
    pub fn step(&self, what: String) {
        if self.prints_lines {
            text::note(&what);
        }
        self.show(what);
    }
}

impl Drop for CountBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
