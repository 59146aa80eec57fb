//! Finds out which CPUs are short of time for packets: the input of `aw_flow.busy`.
//!
//! A CPU becomes busy when it was hardly idle for a second, and spent at least half of it in the
//! kernel: there ACKs take time from data. What the policy then does frees time, so a busy CPU
//! stays busy until it is idle for a quarter of the time, or hardly in the kernel.

use std::array;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};

use crate::sys;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const WORDS: usize = sys::AW_BUSY_CPUS as usize;
/// The maximum number of CPUs that are distinguished.
const CPUS: usize = 32 * WORDS;
/// Room for the lines of so many CPUs, with which `/proc/stat` begins.
const STAT_BYTES: usize = CPUS * 120;

/// What the kernel counts for one CPU, in its ticks (proc_stat(5)).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
    kernel: u64,
}

/// Parses the line of one CPU: its number and its ticks.
fn ticks(line: &str) -> Option<(usize, Ticks)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    // The first line is the sum of all CPUs and has no number.
    let cpu = words.next().filter(|_| !line.starts_with("cpu "))?;
    let counts: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    // The remaining fields, of guests, are included in the first two.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = &counts[..] else {
        return None;
    };
    let (idle, kernel) = (idle + iowait, system + irq + softirq);
    let all = user + nice + idle + kernel + steal;
    Some((cpu.parse().ok()?, Ticks { all, idle, kernel }))
}

/// The state of one CPU between two samples.
#[derive(Clone, Copy, Default)]
struct Cpu {
    last: Option<Ticks>,
    busy: bool,
}

impl Cpu {
    fn update(&mut self, now: Ticks) -> bool {
        if let Some(last) = self.last {
            let all = now.all.saturating_sub(last.all);
            // The kernel documents that the idle time of a CPU may decrease.
            let idle = now.idle.saturating_sub(last.idle);
            let kernel = now.kernel.saturating_sub(last.kernel);
            self.busy = all > 0
                && if self.busy {
                    4 * idle < all && 4 * kernel >= all
                } else {
                    32 * idle < all && 2 * kernel >= all
                };
        }
        self.last = Some(now);
        self.busy
    }
}

/// The samples of all CPUs.
#[derive(Default)]
struct Samples(Vec<Cpu>);

impl Samples {
    /// Takes the text of `/proc/stat`. A CPU that is not in it is offline, and not busy.
    fn update(&mut self, stat: &str) -> [u32; WORDS] {
        let mut busy = [0; WORDS];
        let mut seen = vec![Cpu::default(); self.0.len()];
        for (cpu, now) in stat.lines().filter_map(ticks) {
            if cpu >= CPUS {
                continue;
            }
            seen.resize(seen.len().max(cpu + 1), Cpu::default());
            let mut state = self.0.get(cpu).copied().unwrap_or_default();
            busy[cpu / 32] |= u32::from(state.update(now)) << (cpu % 32);
            seen[cpu] = state;
        }
        self.0 = seen;
        busy
    }
}

/// The busy CPUs, for the thread that tells the programs.
pub(crate) struct Cpus {
    /// One bit per CPU, from the last sample.
    busy: Arc<[AtomicU32; WORDS]>,
    /// `/proc/stat`, until the sampling thread takes it.
    stat: io::Result<File>,
}

impl Cpus {
    /// Opens `/proc/stat`, which a process that has dropped its privileges may not do.
    pub(crate) fn new() -> Self {
        Self {
            busy: Arc::new(array::from_fn(|_| AtomicU32::new(0))),
            stat: File::open("/proc/stat"),
        }
    }

    /// Returns the result of the last sample.
    pub(crate) fn busy(&self) -> [u32; WORDS] {
        array::from_fn(|word| self.busy[word].load(Ordering::Relaxed))
    }

    /// Starts the thread that samples until the datapath ends. If `/proc/stat` cannot be opened, no
    /// CPU counts as busy.
    pub(crate) fn watch(&mut self, lifecycle: &Arc<Lifecycle>) -> io::Result<Option<Worker>> {
        let taken = Err(io::ErrorKind::NotFound.into());
        let stat = match mem::replace(&mut self.stat, taken) {
            Ok(stat) => stat,
            Err(e) => {
                tracing::debug!("/proc/stat: {e}; no CPU counts as busy");
                return Ok(None);
            }
        };
        let (busy, ending) = (Arc::clone(&self.busy), Arc::clone(lifecycle));
        Worker::spawn("ackwise-cpu", Arc::clone(lifecycle), move || {
            drop_realtime();
            let mut samples = Samples::default();
            let mut text = vec![0; STAT_BYTES];
            loop {
                // A failed read counts as no CPUs.
                let read = stat.read_at(&mut text, 0).unwrap_or(0);
                let found = samples.update(&String::from_utf8_lossy(&text[..read]));
                for (word, found) in busy.iter().zip(found) {
                    word.store(found, Ordering::Relaxed);
                }
                if ending.wait_stop(SAMPLE_INTERVAL) {
                    return Ended::Requested;
                }
            }
        })
        .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/stat` for CPUs that have spent these ticks in user space, in the kernel and idle.
    fn stat(cpus: &[(usize, [u64; 3])]) -> String {
        let mut text = String::from("cpu  9 9 9 9 9 9 9 9 0 0\n");
        for (cpu, [user, kernel, idle]) in cpus {
            let (system, softirq) = (kernel / 2, kernel - kernel / 2);
            text += &format!("cpu{cpu} {user} 0 {system} {idle} 0 0 {softirq} 0 0 0\n");
        }
        text + "intr 12345 0\nctxt 5\n"
    }

    /// For each second, whether CPU 0 is busy if it spends its ticks like this.
    fn busy(seconds: &[[u64; 3]]) -> Vec<bool> {
        let (mut samples, mut sum) = (Samples::default(), [0; 3]);
        samples.update(&stat(&[(0, sum)]));
        let is_busy = |second: &[u64; 3]| {
            sum = array::from_fn(|i| sum[i] + second[i]);
            samples.update(&stat(&[(0, sum)]))[0] == 1
        };
        seconds.iter().map(is_busy).collect()
    }

    #[test]
    fn a_cpu_is_busy_if_packets_take_its_time() {
        assert_eq!(busy(&[[0, 100, 0], [50, 50, 0]]), [true, true]);
        assert_eq!(busy(&[[0, 97, 3]]), [true]);
        assert_eq!(busy(&[[0, 96, 4]]), [false]);
        // Time in user space belongs to the processes.
        assert_eq!(busy(&[[51, 49, 0], [100, 0, 0]]), [false, false]);
    }

    #[test]
    fn a_cpu_is_busy_until_much_time_is_left() {
        let relieved = [[0, 100, 0], [0, 76, 24], [0, 75, 25], [0, 96, 4]];
        assert_eq!(busy(&relieved), [true, true, false, false]);
        let other_work = [[0, 100, 0], [75, 25, 0], [76, 24, 0]];
        assert_eq!(busy(&other_work), [true, true, false]);
    }

    #[test]
    fn nothing_is_known_at_first_nor_of_a_cpu_that_was_away() {
        let mut samples = Samples::default();
        let far = CPUS - 1;
        assert_eq!(samples.update(&stat(&[(0, [0, 500, 0])])), [0; WORDS]);
        assert_eq!(samples.update(""), [0; WORDS]);
        samples.update(&stat(&[(0, [0, 600, 0]), (far, [0; 3]), (CPUS, [0; 3])]));
        let ran = [0, 100, 0];
        let now = samples.update(&stat(&[(0, [0, 700, 0]), (far, ran), (CPUS, ran)]));
        let mut both = [0; WORDS];
        (both[0], both[WORDS - 1]) = (1, 1 << 31);
        assert_eq!(now, both);
        // Counters that stand still or decrease are no work.
        assert_eq!(
            samples.update(&stat(&[(0, [0, 700, 0]), (far, [0; 3])])),
            [0; WORDS]
        );
    }

    #[test]
    fn lines_that_are_no_cpu_are_passed_over() {
        for line in [
            "cpu 1 2 3 4 5 6 7 8",
            "cpux 1 2 3 4 5 6 7 8",
            "cpu1 1 2 3",
            "intr 5",
            "",
        ] {
            assert_eq!(ticks(line), None, "{line}");
        }
        let found = Ticks {
            all: 36,
            idle: 9,
            kernel: 16,
        };
        assert_eq!(ticks("cpu3 1 2 3 4 5 6 7 8 9 10"), Some((3, found)));
    }

    /// `/proc/stat` of this kernel has a line for each CPU, and grows.
    #[test]
    fn the_kernel_counts_as_expected() {
        let stat = File::open("/proc/stat").unwrap();
        let mut text = vec![0; STAT_BYTES];
        let read = stat.read_at(&mut text, 0).unwrap();
        let text = String::from_utf8_lossy(&text[..read]);
        let found = text.lines().filter_map(ticks).count();
        let cpus = std::thread::available_parallelism().unwrap().get();
        assert!(found >= cpus, "{found} of {cpus}: {text}");
    }
}
