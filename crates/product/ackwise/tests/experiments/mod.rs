//! Experiments of the real `ackwise ab` on a line in namespaces, for its calibration in virtual
//! time.
//!
//! ```text
//!   near ── up0 ──► modem ── out0 ──► net0 ── far      ackwise ab net0
//!      0.05 % loss       2 Mbit/s, 30 kB
//! ```
//!
//! The seed of the program's coin is given, so it is known which block comes when: nothing inside
//! the program is needed to make the line carry less while the policy is on. The program reports
//! when it is ready and after each pair; the line keeps in step by that, and is compared with what
//! the program prints at its end.
#![allow(dead_code, reason = "the test and the calibration use their own parts")]

pub mod journal;
pub mod summary;
#[path = "../uplink/mod.rs"]
mod uplink;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_rng::Rng;
use ackwise_switchback::{Block, Design, Judge, Level, METRICS, Outcome, Verdict};
use ackwise_testbed::program::{Program, must};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use uplink::{Uplink, inside};

/// The command under test.
pub const ACKWISE: Program = Program::new(env!("CARGO_BIN_EXE_ackwise"));

/// The rate of the line, bit/s.
const RATE: f64 = 2e6;
/// The queue before the line.
const QUEUE_BYTES: u64 = 30_000;
/// Losses in the direction of the data.
const LOSS: &str = "0.05%";
/// The length of a block.
pub const BLOCK: Duration = Duration::from_secs(2);
/// The maximum number of pairs of an experiment.
pub const PAIRS: usize = 60;
/// How often the line's rate is adjusted to the load.
const TICK: Duration = Duration::from_millis(500);
/// How long traffic runs before the program starts.
const WARM: Duration = Duration::from_secs(3);
/// The maximum difference between the line's and the program's blocks, s.
const IN_STEP: f64 = 0.01;
/// The program is ready within this time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The factor of the line's rate while the policy is on, in experiments with harm.
const HARM: f64 = 0.9;

/// Written with results, so that those of another design are not mixed with them.
pub fn design() -> String {
    format!(
        "{RATE} bit/s, {QUEUE_BYTES} bytes, loss {LOSS}, blocks of {BLOCK:?}, {PAIRS} pairs, \
         {HARM} planted; {}",
        LOADS.each_ref().map(|load| load.name).join(", ")
    )
}

/// The traffic.
#[derive(Debug, Clone, Copy)]
enum Flows {
    /// Connections that always have data.
    Bulk(u16),
    /// This many transfers at a time, of [`SIZES`], one after the other.
    Transfers(u16),
}

/// The sizes of short transfers, bytes.
const SIZES: [usize; 3] = [5_000, 20_000, 100_000];

/// A kind of traffic.
#[derive(Debug)]
pub struct Load {
    pub name: &'static str,
    flows: Flows,
    /// The share of its rate that the line has, as a function of the block and a phase between 0
    /// and 1.
    capacity: fn(f64, f64) -> f64,
    /// The number of pairs within which a loss of a tenth must be found in 95 % of experiments.
    pub within: Option<usize>,
}

/// Oscillates between the full rate and a fifth of it, once per unit of time.
fn pattern(time: f64) -> f64 {
    0.6 + 0.4 * (std::f64::consts::TAU * time).sin()
}

static LOADS: [Load; 6] = [
    Load {
        name: "one flow",
        flows: Flows::Bulk(1),
        capacity: |_, _| 1.0,
        within: Some(25),
    },
    Load {
        name: "four flows",
        flows: Flows::Bulk(4),
        capacity: |_, _| 1.0,
        within: Some(25),
    },
    Load {
        name: "short transfers",
        flows: Flows::Transfers(4),
        capacity: |_, _| 1.0,
        within: Some(25),
    },
    Load {
        name: "drift to a tenth",
        flows: Flows::Bulk(4),
        // The program ends when it knows the answer: it should still see much of this change.
        capacity: |block, _| 0.1_f64.powf((block / 60.0).min(1.0)),
        within: Some(25),
    },
    Load {
        name: "a daily pattern",
        flows: Flows::Bulk(4),
        capacity: |block, phase| pattern(block / 120.0 + phase),
        within: Some(25),
    },
    Load {
        name: "a pattern of 24 blocks",
        flows: Flows::Bulk(4),
        capacity: |block, phase| pattern(block / 24.0 + phase),
        within: None,
    },
];

/// A load, and whether the line carries less while the policy is on.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub load: &'static Load,
    pub harm: bool,
}

/// Every kind of experiment; its index is its number.
pub fn kinds() -> Vec<Kind> {
    let both = |load| [false, true].map(|harm| Kind { load, harm });
    LOADS.iter().flat_map(both).collect()
}

/// The result of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The number of the kind.
    pub kind: usize,
    /// The number of the experiment within the kind, from 0.
    pub experiment: u64,
    /// The number of pairs of blocks.
    pub pairs: usize,
    /// The program's verdict.
    pub verdict: Verdict,
    /// The judged metrics with a certain effect, however small, and the pair after which it was
    /// certain.
    pub effects: BTreeMap<String, usize>,
    /// The ratio of data with the policy to data without.
    pub ratio: f64,
}

/// The line on which experiments run one after the other.
pub struct Line {
    uplink: Uplink,
    rate_bps: u64,
    port: u16,
}

impl Line {
    pub fn new() -> Self {
        let uplink = Uplink::new(RATE as u64, QUEUE_BYTES);
        must(&format!(
            "tc -n near qdisc add dev up0 root netem loss {LOSS}"
        ));
        // A connection must not learn from those of an earlier experiment.
        for namespace in ["near", "far"] {
            must(&format!(
                "ip netns exec {namespace} sysctl -q -w net.ipv4.tcp_no_metrics_save=1"
            ));
        }
        Self {
            uplink,
            rate_bps: RATE as u64,
            port: 5000,
        }
    }

    fn set_rate(&mut self, bps: u64) {
        if bps != self.rate_bps {
            self.uplink.set_rate(bps);
            self.rate_bps = bps;
        }
    }

    /// Runs a policy on one flow for some pairs, and returns the blocks. The policy may thin while
    /// it is on.
    pub fn policy(&mut self, policy: &[&str], pairs: usize) -> Vec<Outcome> {
        let traffic = self.start(Flows::Bulk(1), &mut Rng::new(1));
        std::thread::sleep(WARM);
        let (blocks, _) = self.ab(policy, pairs, 1, |_, _| RATE);
        traffic.end();
        blocks
    }

    /// Runs one experiment without a policy to compare. `seed` is the calibration's.
    pub fn experiment(&mut self, kind: usize, experiment: u64, seed: u64) -> Found {
        let Kind { load, harm } = kinds()[kind];
        let mut draws = Rng::stream(seed ^ experiment.rotate_left(32), kind as u64);
        let phase = draws.below(1 << 20) as f64 / (1 << 20) as f64;
        let factor = |block| match block {
            Block::On if harm => HARM,
            _ => 1.0,
        };
        let rate = |at: f64, block| RATE * (load.capacity)(at, phase) * factor(block);
        let coin = draws.next_u64() >> 1;
        self.set_rate(rate(0.0, Block::Off) as u64);
        std::thread::sleep(Duration::from_micros(draws.below(1_000_000)));
        let traffic = self.start(load.flows, &mut draws);
        std::thread::sleep(WARM);
        let (blocks, verdict) = self.ab(&["--policy", "none"], PAIRS, coin, rate);
        traffic.end();
        found(kind, experiment, &blocks, verdict)
    }

    /// Runs the program beside a line whose rate is a function of the time, in blocks, and of the
    /// block's kind. Returns the blocks that the program measured and its verdict.
    fn ab(
        &mut self,
        policy: &[&str],
        pairs: usize,
        coin: u64,
        rate: impl Fn(f64, Block) -> f64,
    ) -> (Vec<Outcome>, Verdict) {
        let run = Ab::start(policy, pairs, coin);
        let began = Instant::now();
        let mut schedule: Vec<(Block, f64)> = Vec::new();
        let mut start = began;
        let mut design = Design::new(coin);
        'pairs: for _ in 0..pairs {
            for block in design.by_ref().take(2) {
                schedule.push((block, (start - began).as_secs_f64()));
                let end = start + BLOCK;
                while Instant::now() < end {
                    let at = began.elapsed().div_duration_f64(BLOCK);
                    self.set_rate(rate(at, block) as u64);
                    let tick = end.min(Instant::now() + TICK);
                    match run.lines.recv_timeout(tick - Instant::now()) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => break 'pairs,
                        Ok(line) => panic!("not at the end of a pair: {line}"),
                    }
                }
                start = end;
            }
            let line = run.lines.recv_timeout(TICK);
            let line = line.expect("a line after each pair");
            assert!(line.contains(" pairs: data "), "{line}");
            start = Instant::now();
        }
        let report = run.end();
        assert_eq!(report.blocks.len() % 2, 0, "{}", report.ended);
        assert!(schedule.len() >= report.blocks.len());
        for (block, (planned, start)) in report.blocks.iter().zip(schedule) {
            assert_eq!(block.policy, planned);
            let late = block.at_s - start - BLOCK.as_secs_f64() / 5.0;
            assert!(late.abs() < IN_STEP, "{late} s late: {block:?}");
            assert!(block.data_bytes_per_s > 0.0, "{block:?}");
        }
        (report.blocks, report.verdict)
    }

    /// Starts flows from near to far.
    fn start(&mut self, flows: Flows, draws: &mut Rng) -> Traffic {
        let (flows, transfers) = match flows {
            Flows::Bulk(flows) => (flows, false),
            Flows::Transfers(flows) => (flows, true),
        };
        let end = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..flows {
            // Do not reuse a port while connections to it may be left.
            self.port = if self.port < 30_000 {
                self.port + 1
            } else {
                5001
            };
            let address = ("10.2.0.2", self.port);
            let listener = inside("far", move || TcpListener::bind(address).unwrap());
            let listener = listener.join().unwrap();
            std::thread::spawn(move || receive(&listener));
            let mut draws = Rng::new(draws.next_u64());
            let end = Arc::clone(&end);
            threads.push(inside("near", move || {
                std::thread::sleep(Duration::from_micros(draws.below(1_000_000)));
                while !end.load(Ordering::Relaxed) {
                    let bytes = if transfers {
                        SIZES[draws.below(SIZES.len() as u64) as usize]
                    } else {
                        usize::MAX
                    };
                    send(address, bytes, &end);
                }
                // The last connection tells the receiver that no other follows.
                drop(TcpStream::connect(address));
            }));
        }
        Traffic { end, threads }
    }
}

/// Flows that continue until this is dropped.
struct Traffic {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Accepts connections one after the other until one sends nothing.
fn receive(listener: &TcpListener) {
    let mut bytes = vec![0; 1 << 16];
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut got = 0;
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            got += n;
        }
        if got == 0 {
            return;
        }
    }
}

/// Sends this many bytes in a connection of their own, and waits until they are received. At the
/// end, what still waits is given up.
fn send(address: (&str, u16), bytes: usize, end: &AtomicBool) {
    let mut stream = TcpStream::connect(address).unwrap();
    let some_time = Some(Duration::from_millis(200));
    stream.set_write_timeout(some_time).unwrap();
    stream.set_read_timeout(some_time).unwrap();
    let give_up = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &give_up).unwrap();
    let all = [0; 1 << 14];
    let mut left = bytes;
    while left > 0 && !end.load(Ordering::Relaxed) {
        left -= stream.write(&all[..left.min(all.len())]).unwrap_or(0);
    }
    if left > 0 {
        return;
    }
    stream.shutdown(Shutdown::Write).unwrap();
    while !end.load(Ordering::Relaxed) && stream.read(&mut [0]).is_err() {}
}

/// A running `ackwise ab`.
struct Ab {
    child: Child,
    /// Its messages after each pair; closed when it ends.
    lines: Receiver<String>,
    out: JoinHandle<String>,
}

/// The parts of its report that count here.
#[derive(Debug, Deserialize)]
struct Report {
    verdict: Verdict,
    ended: String,
    blocks: Vec<Outcome>,
}

impl Ab {
    /// Starts it, and returns when its first block begins.
    fn start(policy: &[&str], pairs: usize, coin: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready");
        let ready = UnixDatagram::bind(&path).unwrap();
        // It sends to this socket after it has dropped root.
        for path in [directory.path(), &path] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let mut child = Command::new("ip")
            .args(["netns", "exec", "far", ACKWISE.path()])
            .args(["--format", "json", "ab", "net0", "--user", "nobody"])
            .args(["--block", &format!("{}s", BLOCK.as_secs())])
            .args(["--pairs", &pairs.to_string(), "--seed", &coin.to_string()])
            .args(policy)
            .env_remove("RUST_LOG")
            .env("NOTIFY_SOCKET", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let err = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in err.lines() {
                // Nobody listens after a failure.
                let _ = sender.send(line.unwrap());
            }
        });
        ready.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut bytes = [0; 256];
        let n = ready.recv(&mut bytes).unwrap_or_else(|error| {
            let all: Vec<_> = lines.try_iter().collect();
            panic!("not ready: {error}: {all:?}")
        });
        let text = String::from_utf8_lossy(&bytes[..n]);
        assert!(text.contains("READY=1"), "{text}");
        Self { child, lines, out }
    }

    fn end(mut self) -> Report {
        let status = self.child.wait().unwrap();
        let out = self.out.join().unwrap();
        let all: Vec<_> = self.lines.try_iter().collect();
        assert!(status.success(), "{status}: {all:?}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

/// Judges again after each pair, as the program did.
fn found(kind: usize, experiment: u64, blocks: &[Outcome], verdict: Verdict) -> Found {
    let judge = Judge {
        level: Level::new(0.05).unwrap(),
        difference: 0.05,
        judges_rtt: true,
    };
    let (effects, last) = judge.effects(blocks, &METRICS);
    assert_eq!(last, verdict);
    let mut found = Found {
        kind,
        experiment,
        pairs: blocks.len() / 2,
        verdict,
        effects: BTreeMap::new(),
        ratio: effects[0].ratio,
    };
    for pair in 1..=found.pairs {
        for metric in judge.certain_effects(&blocks[..2 * pair]) {
            found.effects.entry(metric.name.to_owned()).or_insert(pair);
        }
    }
    found
}
