//! Measures what a packet costs in the queue before a slow uplink, in the kernel's queue
//! disciplines and in the gateway.
//!
//! ```sh
//! scripts/bench-device
//! ```
//!
//! This uses the whole machine's CPU time, so its results mean little if anything else runs. In the
//! machine that `scripts/bench-device` boots, a nanosecond is an instruction. Packets leave at a
//! steady pace through an interface that drops them; the cost of sending alone is subtracted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_testbed::program::must;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::sockopt::SndBufForce;
use nix::sys::socket::{MsgFlags, send, setsockopt};
use nix::unistd::Pid;

const DEVICE: &str = "wan0";
/// The shaped rate, kbit/s.
const RATE_KBIT: u64 = 20_000;
const TICK: Duration = Duration::from_millis(10);
/// The number of ticks that do not count, and of those that do.
const WARM_UP: usize = 50;
const TICKS: usize = 200;
/// The number of downloads, whose ACKs leave, and of uploads.
const FLOWS: u32 = 8;

/// The packets sent in a tick.
struct Load {
    name: &'static str,
    acks: u32,
    data: u32,
}

/// 70 % and 170 % of the rate, and 140 % of it in ACKs alone.
const LOADS: [Load; 3] = [
    Load {
        name: "below the rate",
        acks: 40,
        data: 10,
    },
    Load {
        name: "above it",
        acks: 200,
        data: 20,
    },
    Load {
        name: "above it, ACKs",
        acks: 530,
        data: 0,
    },
];

/// A queue and how it is set up.
#[derive(Clone, Copy)]
enum Queue {
    None,
    /// The arguments after `tc qdisc add dev DEVICE root`.
    Cake(&'static str),
    Gateway,
    /// `ackwise up --up` with this rate.
    Up(&'static str),
}

const QUEUES: [(&str, Queue); 6] = [
    ("cake", Queue::Cake("")),
    ("cake ack-filter", Queue::Cake("ack-filter")),
    (
        "cake ack-filter-aggressive",
        Queue::Cake("ack-filter-aggressive"),
    ),
    ("gateway", Queue::Gateway),
    ("up, a rate that is given", Queue::Up("20mbit")),
    ("up, a rate that is measured", Queue::Up("10mbit..20mbit")),
];

fn main() {
    // This machine's network is not touched, and everything is removed with this process.
    unshare(CloneFlags::CLONE_NEWNET).expect("run this as root");
    must(&format!("ip link add {DEVICE} type dummy"));
    must(&format!("ip addr add 192.0.2.1/24 dev {DEVICE}"));
    must(&format!("ip link set {DEVICE} up"));
    let idle = IdleCounter::start();
    for load in &LOADS {
        let alone = run(load, Queue::None, &idle);
        for (name, queue) in QUEUES {
            let found = run(load, queue, &idle);
            let cost = (found.busy_ns - alone.busy_ns) / found.sent as f64;
            println!(
                "figure queue {}; {name}; {cost:.0} ns a packet that is sent; {:.0} % left",
                load.name,
                100.0 * found.left as f64 / found.sent as f64
            );
        }
        println!(
            "figure queue {}; sending alone; {:.0} ns a packet that is sent",
            load.name,
            alone.busy_ns / alone.sent as f64
        );
    }
}

struct Found {
    busy_ns: f64,
    sent: u64,
    /// Packets that left through the device.
    left: u64,
}

fn run(load: &Load, queue: Queue, idle: &IdleCounter) -> Found {
    let rate = format!("{RATE_KBIT}kbit");
    let mbit = format!("{} Mbit/s", RATE_KBIT / 1000);
    let mut program = None;
    match queue {
        Queue::None => {}
        Queue::Cake(options) => {
            must(&format!(
                "tc qdisc add dev {DEVICE} root cake bandwidth {rate} {options}"
            ));
        }
        Queue::Gateway => program = Some(start(&["gateway", "up", DEVICE, "--rate", &mbit])),
        Queue::Up(rate) => program = Some(start(&["up", DEVICE, "--router", "--up", rate])),
    }
    let found = send_all(load, idle);
    if let Some(mut child) = program {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
    } else if !matches!(queue, Queue::None) {
        must(&format!("tc qdisc del dev {DEVICE} root"));
    }
    found
}

/// Starts `ackwise`, and waits until it is up.
fn start(arguments: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ackwise"))
        .args(["--format", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.contains("\"event\""), "{line}");
    // It continues to write there.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    child
}

/// Sends a tick's packets, sleeps for the rest of the tick, and repeats.
fn send_all(load: &Load, idle: &IdleCounter) -> Found {
    // The socket receives nothing.
    let socket = packet_socket::open(Layer::Link).unwrap();
    let index = index_of(DEVICE).unwrap();
    packet_socket::bind(&socket, Some(index), Receives::Nothing).unwrap();
    // Packets that wait in the queue must not block the sender.
    setsockopt(&socket, SndBufForce, &(64 << 20)).unwrap();
    let mut frames: Vec<_> = (0..load.acks).map(|n| frame(n % FLOWS, 0)).collect();
    frames.extend((0..load.data).map(|n| frame(FLOWS + n % FLOWS, 1448)));
    let mut numbers = [1_u32; 2 * FLOWS as usize];
    let began = Instant::now();
    let (mut before, mut sent) = ((began, 0.0, 0), 0);
    for tick in 0..WARM_UP + TICKS {
        if tick == WARM_UP {
            before = (Instant::now(), idle.ns(), left());
        }
        for frame in &mut frames {
            next_of_flow(frame, &mut numbers);
            // A full queue is reported to the sender.
            match send(socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) | Err(nix::errno::Errno::ENOBUFS) => {}
                Err(error) => panic!("{DEVICE}: {error}"),
            }
        }
        if tick >= WARM_UP {
            sent += frames.len() as u64;
        }
        std::thread::sleep((TICK * (tick as u32 + 1)).saturating_sub(began.elapsed()));
    }
    let late = began
        .elapsed()
        .saturating_sub(TICK * (WARM_UP + TICKS) as u32);
    assert!(
        late < TICK,
        "the machine is too slow for this: {late:?} late"
    );
    Found {
        busy_ns: before.0.elapsed().as_nanos() as f64 - (idle.ns() - before.1),
        sent,
        left: left() - before.2,
    }
}

/// An Ethernet frame of a flow with timestamps.
fn frame(flow: u32, payload: usize) -> Vec<u8> {
    let length = 52 + payload as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([
        0x45,
        0,
        (length >> 8) as u8,
        length as u8,
        0,
        0,
        0x40,
        0,
        64,
        6,
        0,
        0,
    ]);
    frame.extend([192, 0, 2, 1, 198, 51, 100, flow as u8]);
    let words = frame[14..34].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x13, 0x89, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2]);
    frame.extend([0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2]);
    frame.resize(66 + payload, 0);
    frame
}

/// Makes it the flow's next frame: it acknowledges two more segments, or carries the next data.
fn next_of_flow(frame: &mut [u8], numbers: &mut [u32]) {
    let (at, step) = match frame.len() {
        66 => (42, 2 * 1448),
        _ => (38, 1448),
    };
    let number = &mut numbers[usize::from(frame[33])];
    *number = number.wrapping_add(step);
    frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Counts the CPU time that nobody else wants.
struct IdleCounter {
    rounds: Arc<AtomicU64>,
    /// The duration of a round.
    round_ns: f64,
}

impl IdleCounter {
    /// Starts, and measures how long a round takes while nothing else runs.
    fn start() -> Self {
        let rounds = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&rounds);
        std::thread::spawn(move || {
            let least = libc::sched_param { sched_priority: 0 };
            // SAFETY: a live parameter, of this thread.
            let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const least) };
            assert_eq!(set, 0, "SCHED_IDLE");
            loop {
                for round in 0..200 {
                    std::hint::black_box(round);
                }
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Anything else that runs makes a round seem longer: the shortest counts.
        let measured = (0..20).map(|_| {
            let (began, before) = (Instant::now(), rounds.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(50));
            let count = rounds.load(Ordering::Relaxed) - before;
            began.elapsed().as_nanos() as f64 / count as f64
        });
        let round_ns = measured.fold(f64::INFINITY, f64::min);
        Self { rounds, round_ns }
    }

    /// The machine's idle CPU time since the start, ns.
    fn ns(&self) -> f64 {
        self.rounds.load(Ordering::Relaxed) as f64 * self.round_ns
    }
}

/// Packets that have left through the device.
fn left() -> u64 {
    let text = fs::read_to_string("/proc/net/dev").unwrap();
    let name = format!("{DEVICE}:");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&name));
    let numbers = line.expect("the device").split_whitespace();
    numbers
        .map(|number| number.parse().unwrap())
        .nth(9)
        .unwrap()
}
