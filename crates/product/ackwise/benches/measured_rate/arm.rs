//! What sets the rate of the queue, and a run with it.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ackwise_testbed::{program::must, until};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::uplink::{Downloads, Uplink, near, quantile};

/// The steps of 100 ms that do not count.
const WARM_UP: usize = 50;
/// The number of uploads, or of downloads.
const FLOWS: u16 = 2;
/// Hosts behind the modem that cake-autorate may ping: it uses six, and two are in reserve.
const HOSTS: u32 = 8;
/// The directory of cake-autorate's configuration and log.
const DIRECTORY: &str = "/tmp/autorate";
/// The control group whose CPU time is measured.
const GROUP: &str = "/sys/fs/cgroup/arm";

/// What sets the rate of cake, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// The queue of the modem alone.
    Nothing,
    /// `ackwise up --up MIN..MAX`.
    Measured,
    /// cake-autorate, with its defaults.
    CakeAutorate,
    /// 95 % of the link's rate, set ten times a second.
    Known,
}

impl Arm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Measured => "measured",
            Self::CakeAutorate => "cake-autorate",
            Self::Known => "known",
        }
    }
}

/// The results of a run; waits are in ms at the 50th, 95th and 99th percentile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    pub utilisation: f64,
    pub modem_ms: [f64; 3],
    pub sparse_ms: [f64; 3],
    /// The number of different rates of cake that were seen, sampled each second.
    pub rates: usize,
    /// CPU seconds per second of what sets the rate, if the kernel reports them.
    pub cpu: Option<f64>,
}

/// Applies the rates, one per 100 ms. With `downloads` the traffic is two downloads, over a
/// downlink that is on average this many times as fast as the uplink, and the utilisation is the
/// downlink's.
pub fn run(arm: Arm, rates: &[u64], downloads: Option<u64>, autorate: Option<&Path>) -> Found {
    let mean_bps = rates.iter().sum::<u64>() / rates.len() as u64;
    // The modem's queue holds a second's worth of data.
    let mut uplink = Uplink::new(rates[0], mean_bps / 8);
    let accounts = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if accounts {
        fs::create_dir(GROUP).unwrap();
    }
    // `ackwise up` accepts no less than 8 kbit/s.
    let bounds = [(mean_bps / 20).max(8_000), mean_bps, mean_bps * 4];
    let down_bps = downloads.map(|ratio| mean_bps * ratio);
    if let Some(bps) = down_bps {
        uplink.limit_downlink(bps, 500, 0);
    }
    // All arms have what `ackwise up` has: a filter where ACKs are the load.
    let filter = downloads.map_or("", |_| "ack-filter-aggressive");
    let child = match arm {
        Arm::Nothing => None,
        Arm::Measured => Some(measured(bounds)),
        Arm::CakeAutorate => {
            cake("add", bounds[1], filter);
            Some(cake_autorate(bounds, autorate.expect("--autorate")))
        }
        Arm::Known => {
            cake("add", rates[0], filter);
            None
        }
    };
    let used = || accounts.then(cpu_us);
    let mut before = None;
    let mut seen = Vec::new();
    let traffic = down_bps.map(|bps| (bps, Downloads::start(FLOWS, Duration::ZERO)));
    let down = || {
        traffic
            .as_ref()
            .map_or(0, |(_, downloads)| downloads.bytes())
    };
    let uploads = if traffic.is_some() { 0 } else { FLOWS };
    let measured = uplink.measure(rates, WARM_UP, usize::from(uploads), |index, rate| {
        if index == WARM_UP {
            before = Some((Instant::now(), used(), down()));
        }
        if arm == Arm::Known {
            cake("change", rate / 100 * 95, "");
        } else if index % 10 == 9 {
            seen.push(must("tc -n near qdisc show dev up0"));
        }
    });
    let (began, used_before, down_before) = before.expect("longer than what is not counted");
    let seconds = began.elapsed().as_secs_f64();
    let utilisation = match down_bps {
        Some(bps) => (down() - down_before) as f64 * 8.0 / seconds / bps as f64,
        None => measured.utilisation,
    };
    let cpu = used().zip(used_before);
    let found = Found {
        utilisation,
        modem_ms: [0.5, 0.95, 0.99].map(|part| quantile(&measured.modem_ms, part)),
        sparse_ms: [0.5, 0.95, 0.99].map(|part| quantile(&measured.sparse_ms, part)),
        rates: {
            seen.sort();
            seen.dedup();
            seen.len()
        },
        cpu: cpu.map(|(now, then)| (now - then) as f64 / 1e6 / seconds),
    };
    // An arm that never changes the rate is no comparison; if ACKs are thinned, none may have
    // waited.
    if matches!(arm, Arm::Measured | Arm::CakeAutorate) && downloads.is_none() && found.rates < 2 {
        let log = format!("{DIRECTORY}/cake-autorate.primary.log");
        let output = fs::read_to_string(log).unwrap_or_default();
        panic!("{} changed no rate\n{output}", arm.name());
    }
    if let Some((_, downloads)) = traffic {
        downloads.end();
    }
    if let Some(child) = child {
        end(child);
    }
    if accounts {
        // End what it has left behind.
        fs::write(format!("{GROUP}/cgroup.kill"), "1").unwrap();
        until("an empty control group", || fs::remove_dir(GROUP).ok());
    }
    found
}

fn cake(verb: &str, bps: u64, more: &str) {
    must(&format!(
        "tc -n near qdisc {verb} dev up0 root handle 9: cake bandwidth {bps}bit {more}"
    ));
}

/// Starts a program in the near namespace, in the control group if there is one.
fn start(command: &mut Command) -> Child {
    // Children start in the group of this process.
    let enter = |group: &str| {
        if Path::new(GROUP).exists() {
            fs::write(format!("{group}/cgroup.procs"), "0").unwrap();
        }
    };
    enter(GROUP);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    enter("/sys/fs/cgroup");
    child
}

fn measured([min, _, max]: [u64; 3]) -> Child {
    let mut command = near(env!("CARGO_BIN_EXE_ackwise"));
    command
        .args(["--format", "json", "up", "up0", "--router", "--up"])
        .arg(format!("{min}bit..{max}bit"))
        .stdout(Stdio::piped());
    let mut child = start(&mut command);
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.contains("\"event\":\"up\""), "{line}");
    // It continues to write there.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    child
}

/// Set up as documented: the script, and a file with the interfaces, three rates and hosts that
/// answer. The threshold for an active connection is the minimum rate, since the default of 2
/// Mbit/s exceeds some links. The return path is not adjusted.
fn cake_autorate([min, base, max]: [u64; 3], script: &Path) -> Child {
    // It needs another interface for the return path, and reads its MTU.
    must("ip link add down0 netns near type veth peer name down1 netns near");
    let mut hosts = String::new();
    for host in 11..11 + HOSTS {
        must(&format!("ip -n far addr add 10.2.0.{host}/24 dev net0"));
        let _ = write!(hosts, " \"10.2.0.{host}\"");
    }
    let [min, base, max] = [min, base, max].map(|bps| bps / 1000);
    let config = format!(
        "dl_if=down0\nul_if=up0\nadjust_dl_shaper_rate=0\nadjust_ul_shaper_rate=1\n\
         min_ul_shaper_rate_kbps={min}\nbase_ul_shaper_rate_kbps={base}\n\
         max_ul_shaper_rate_kbps={max}\nconnection_active_thr_kbps={min}\n\
         log_file_path_override=\"{DIRECTORY}\"\nreflectors=({hosts} )\n"
    );
    fs::create_dir_all(DIRECTORY).unwrap();
    let file = format!("{DIRECTORY}/config.primary.sh");
    fs::write(&file, config).unwrap();
    let mut command = near("bash");
    command
        .arg(script.join("cake-autorate.sh"))
        .arg(&file)
        .env("CAKE_AUTORATE_SCRIPT_PREFIX", script)
        .env("CAKE_AUTORATE_CONFIG_PREFIX", DIRECTORY)
        .env("rx_bytes_path", "/sys/class/net/up0/statistics/rx_bytes")
        .stdout(Stdio::null());
    start(&mut command)
}

/// Ends what was started, and waits for it.
fn end(mut child: Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    for _ in 0..100 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The CPU time of the control group, µs.
fn cpu_us() -> u64 {
    let text = fs::read_to_string(format!("{GROUP}/cpu.stat")).unwrap();
    let usage = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    usage.expect("a control group's CPU time").parse().unwrap()
}
