use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

/// Decides whether a process without progress is stuck, by the CPU time that it used or by the real
/// time in which it used none. So a busy host does not end it.
#[derive(Debug)]
pub struct Watchdog {
    limit: Duration,
    used: Duration,
    used_at_progress: Duration,
    advanced: Instant,
}

impl Watchdog {
    /// Starts for a new process.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            used: Duration::ZERO,
            used_at_progress: Duration::ZERO,
            advanced: Instant::now(),
        }
    }

    /// Records that the process has made progress.
    pub fn progress(&mut self) {
        self.used_at_progress = self.used;
        self.advanced = Instant::now();
    }

    /// Checks the process. Call this repeatedly.
    pub fn has_expired(&mut self, pid: u32) -> bool {
        if let Some(now) = cpu_time(pid).filter(|&now| now > self.used) {
            (self.used, self.advanced) = (now, Instant::now());
        }
        self.used - self.used_at_progress > self.limit || self.advanced.elapsed() > self.limit
    }
}

/// The CPU time that a process has used, in ticks of about 10 ms.
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, a name in parentheses, may contain spaces; user and system time are the
    // 14th and 15th fields.
    let after_name = stat.rsplit_once(')')?.1;
    let times = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    let a_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_secs(ticks) / u32::try_from(a_second).ok().filter(|&hz| hz > 0)?)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn start(command: &str) -> Child {
        Command::new("sh").args(["-c", command]).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_computes_or_sleeps_exhausts_it() {
        for stuck in ["while :; do :; done", "exec sleep 60"] {
            let child = start(stuck);
            let mut watchdog = Watchdog::new(Duration::from_millis(200));
            while !watchdog.has_expired(child.id()) {
                std::thread::sleep(Duration::from_millis(1));
            }
            end(child);
        }
    }

    #[test]
    fn progress_renews_it() {
        let own = std::process::id();
        let mut watchdog = Watchdog::new(Duration::from_millis(100));
        while !watchdog.has_expired(own) {}
        watchdog.progress();
        assert!(!watchdog.has_expired(own));
    }

    #[test]
    fn cpu_time_is_that_of_the_process() {
        let own = || cpu_time(std::process::id()).unwrap();
        let begin = own();
        while own() < begin + Duration::from_millis(50) {}
        let mut idle = start("exec sleep 60");
        assert!(cpu_time(idle.id()).unwrap() < Duration::from_millis(50));
        idle.kill().unwrap();
        idle.wait().unwrap();
        assert_eq!(cpu_time(idle.id()), None);
    }
}
