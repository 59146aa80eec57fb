//! Carries ACKs through both daemons, from device to device, and measures the CPU time, the bytes
//! and the delay of each; compares with Simplemux with ROHC, if it is in the path.
//!
//! ```sh
//! PATH="$(scripts/peers/simplemux):$PATH" cargo bench -p ackwise-tunneld --bench end_to_end
//! ```
//!
//! Recorded ACKs of eight downloads, each copied ten times with other addresses, arrive at their
//! own pace (40,000 a second) from a TUN device. They are taken where they would leave through a
//! veth (for Simplemux they are routed to its device), cross it, and are read from a TUN device
//! behind the other end, where each is compared.
//!
//! CPU time is that of the two threads that move packets, or of the two processes, including the
//! kernel's work on their behalf, per ACK that arrived through the tunnel: ACKs that it did not
//! take in time cost it nothing, and do not count. Programs alternate; the median of the rounds
//! counts. The copies are alike, which flatters the bytes; for real ones see `ackwise tunnel
//! bench`.

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_testbed::{Netns, Topology, host, ip, link};
use ackwise_tunnel::trace::Recorded;
use ackwise_tunnel::{KeyPair, key_to_base64};
use ackwise_tunneld::{AttachMode, Config, Daemon};

/// The two ends; 10.9.1.1 – .2.
const TOPOLOGY: Topology = Topology {
    nodes: &[host("near"), host("far")],
    links: &[link("near.wan0", "far.wan1")],
};

const ROUNDS: usize = 5;
const COPIES: u8 = 10;
const PERIOD: Duration = Duration::from_millis(10);
const PEER: &str = "simplemux";

/// The two ends and the link between them.
struct Testbed {
    near: Netns,
    far: Netns,
    source: File,
    sink: File,
    packets: Vec<(Duration, Vec<u8>)>,
}

/// The results of a round.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    cpu_us: f64,
    /// The CPU time at the end where ACKs enter, µs; a part of `cpu_us`.
    in_us: f64,
    /// The percentage of ACKs that did not arrive through the tunnel.
    bypassed: f64,
    bytes: f64,
    lost: f64,
    wrong: f64,
    mean_ms: f64,
    p99_ms: f64,
}

/// A TUN device that is up, with a long queue.
fn tun(name: &str) -> File {
    let file = File::options().read(true).write(true).open("/dev/net/tun");
    let file = file.expect("/dev/net/tun");
    // SAFETY: all zeros are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: an open descriptor and a request that lives as long as the call.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
    assert_eq!(made, 0, "{name}: {}", std::io::Error::last_os_error());
    ip(&format!("link set {name} up txqueuelen 10000"));
    file
}

impl Testbed {
    fn new() -> Testbed {
        let [near, far] = TOPOLOGY.build();
        for end in [&near, &far] {
            end.run(|| {
                for (name, value) in [
                    ("ip_forward", "1"),
                    ("conf/all/rp_filter", "0"),
                    ("conf/default/rp_filter", "0"),
                ] {
                    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect(name);
                }
            });
        }
        let source = near.run(|| tun("src0"));
        let sink = far.run(|| {
            let sink = tun("dst0");
            ip("route add 10.77.1.1/32 dev dst0");
            // The sources of the ACKs must have a route: the device does not accept unknown
            // sources.
            ip("route add 10.77.0.0/16 via 10.9.1.1");
            sink
        });
        let trace = Recorded::Plain.read().expect("recorded");
        let packets = trace.iter().flat_map(|ack| {
            let at = Duration::from_nanos(ack.at_ns);
            (0..COPIES).map(move |copy| (at, other_address(&ack.packet, copy)))
        });
        Testbed {
            near,
            far,
            source,
            sink,
            packets: packets.collect(),
        }
    }

    /// The bytes of frames that left through the link, from the IP header on.
    fn sent(&self) -> u64 {
        self.near.run(|| {
            let table = std::fs::read_to_string("/proc/thread-self/net/dev").expect("a table");
            let line = table
                .lines()
                .find_map(|line| line.trim().strip_prefix("wan0:"));
            let numbers: Vec<u64> = line
                .into_iter()
                .flat_map(str::split_whitespace)
                .map(|number| number.parse().expect("a number"))
                .collect();
            numbers[8] - 14 * numbers[9]
        })
    }

    /// Plays all packets, and reads what arrives.
    fn run_round(&self, cpu_s: &dyn Fn() -> [f64; 2]) -> Round {
        // Discard what arrived too late for the previous round.
        let mut room = vec![0; 2048];
        while self.wait_for_packet() {
            let _ = (&self.sink).read(&mut room).expect("a packet");
        }
        let (cpu, bytes) = (cpu_s(), self.sent());
        let over = AtomicBool::new(false);
        let start = Instant::now();
        let (left, arrivals) = thread::scope(|scope| {
            let reader = scope.spawn(|| self.read(&over));
            let mut left = HashMap::with_capacity(self.packets.len());
            for (at, packet) in &self.packets {
                let now = start.elapsed();
                if *at > now + Duration::from_micros(100) {
                    thread::sleep(*at - now);
                }
                left.insert(key(packet), start.elapsed());
                (&self.source).write_all(packet).expect("a packet");
            }
            thread::sleep(100 * PERIOD);
            over.store(true, Ordering::Relaxed);
            (left, reader.join().expect("the reader"))
        });
        let count = self.packets.len() as f64;
        let mut waits: Vec<f64> = Vec::new();
        let mut wrong = 0.0;
        for (at, key) in arrivals {
            match left.get(&key) {
                Some(sent) => waits.push((at - start).saturating_sub(*sent).as_secs_f64() * 1e3),
                None => wrong += 1.0,
            }
        }
        waits.sort_by(f64::total_cmp);
        let p99 = waits.len() * 99 / 100;
        let [taken, restored] = {
            let after = cpu_s();
            [0, 1].map(|end| (after[end] - cpu[end]) * 1e6 / waits.len() as f64)
        };
        Round {
            // The CPU time for lost packets was wasted.
            cpu_us: taken + restored,
            in_us: taken,
            bypassed: 0.0,
            bytes: (self.sent() - bytes) as f64 / count,
            lost: count - waits.len() as f64,
            wrong,
            mean_ms: waits.iter().sum::<f64>() / waits.len().max(1) as f64,
            p99_ms: waits.get(p99).copied().unwrap_or(f64::NAN),
        }
    }

    /// Returns whether a packet is there within 20 ms.
    fn wait_for_packet(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.sink.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor, which is open.
        unsafe { libc::poll(&raw mut poll, 1, 20) == 1 }
    }

    fn read(&self, over: &AtomicBool) -> Vec<(Instant, Vec<u8>)> {
        let mut arrivals = Vec::with_capacity(self.packets.len());
        let mut room = vec![0; 2048];
        while !over.load(Ordering::Relaxed) {
            if !self.wait_for_packet() {
                continue;
            }
            let len = (&self.sink).read(&mut room).expect("a packet");
            // Skip the sink's own packets, such as router solicitations.
            if room[0] >> 4 == 4 && room[9] == 6 {
                arrivals.push((Instant::now(), key(&room[..len])));
            }
        }
        arrivals
    }

    fn ours(&self) -> Round {
        let keys = tempfile::tempdir().expect("a directory");
        let pairs = ["near", "far"].map(|name| {
            let pair = KeyPair::generate().expect("random numbers");
            let file = keys.path().join(name);
            std::fs::write(&file, key_to_base64(&pair.secret)).expect("a key");
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");
            pair
        });
        let start = |ns: &Netns, at: usize, endpoint: &str| {
            let hook = ["interface = \"wan0\"\n", ""][at];
            let text = format!(
                "{hook}device = \"awtun{at}\"\nlisten_port = 51830\nprivate_key = \"{}\"\nperiod = \"10 ms\"\n\
                 follow_rtt = false\n[[peer]]\nname = \"other\"\npublic_key = \"{}\"\n{endpoint}\n\
                 allowed_ips = [\"10.77.0.0/16\"]\n",
                ["near", "far"][at],
                key_to_base64(&pairs[1 - at].public)
            );
            let file = keys.path().join("tunnel.toml");
            std::fs::write(&file, text).expect("a file");
            let config = Config::load(&file).unwrap_or_else(|error| panic!("{error}"));
            ns.run(|| Daemon::start(config, AttachMode::Auto))
                .expect("a tunnel")
        };
        let far = start(&self.far, 1, "");
        let near = start(&self.near, 0, "endpoint = \"10.9.1.2:51830\"");
        self.near.run(|| ip("route add 10.77.1.1/32 via 10.9.1.2"));
        let ends = [far, near];
        let up = |end: &Daemon| end.stats().peers.iter().all(|peer| peer.up);
        ackwise_testbed::until("the tunnel", || ends.iter().all(up).then_some(()));
        // The path's MTU is probed in the first second.
        thread::sleep(Duration::from_secs(1));
        let round = self.run_round(&|| {
            thread::sleep(Duration::from_millis(120));
            [1, 0].map(|end: usize| ends[end].stats().cpu_s)
        });
        let arrivals = ends[0].stats().peers[0].packets_out.packets as f64;
        let all = self.packets.len() as f64 - round.lost;
        let round = Round {
            cpu_us: round.cpu_us * all / arrivals,
            in_us: round.in_us * all / arrivals,
            bypassed: (all - arrivals) * 100.0 / all,
            ..round
        };
        self.near.run(|| ip("route delete 10.77.1.1/32"));
        for end in ends {
            end.stop().expect("still there");
        }
        round
    }

    fn theirs(&self) -> Round {
        let mut ends = [
            (&self.near, "wan0", "10.9.1.2"),
            (&self.far, "wan1", "10.9.1.1"),
        ]
        .map(|(ns, wire, peer)| {
            ns.run(|| {
                ip("tuntap add dev smux0 mode tun");
                ip("link set smux0 up txqueuelen 10000");
                let period = PERIOD.as_micros().to_string();
                Command::new(PEER)
                    .args([
                        "-i", "smux0", "-e", wire, "-c", peer, "-M", "udp", "-T", "tun",
                    ])
                    .args(["-n", "100", "-P", &period, "-r", "1", "-d", "0"])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("simplemux")
            })
        });
        self.near.run(|| ip("route add 10.77.1.1/32 dev smux0"));
        thread::sleep(Duration::from_millis(500));
        let pids = ends.each_ref().map(Child::id);
        let round = self.run_round(&|| pids.map(cpu_s));
        for end in &mut ends {
            // It may have ended by itself, which the lost packets show.
            let _ = end.kill();
            let _ = end.wait();
        }
        for ns in [&self.near, &self.far] {
            ns.run(|| ip("link delete smux0"));
        }
        round
    }
}

/// The CPU time of a process with a single thread.
fn cpu_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    ns.unwrap_or(f64::NAN) / 1e9
}

/// A packet from another address, with correct checksums (RFC 1624).
fn other_address(packet: &[u8], copy: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let old = u16::from_be_bytes([packet[14], packet[15]]);
    packet[15] = packet[15].wrapping_add(copy);
    let new = u16::from_be_bytes([packet[14], packet[15]]);
    for at in [10, 36] {
        let sum = u16::from_be_bytes([packet[at], packet[at + 1]]);
        let mut value = u32::from(!sum) + u32::from(!old) + u32::from(new);
        while value > 0xffff {
            value = (value & 0xffff) + (value >> 16);
        }
        packet[at..at + 2].copy_from_slice(&(!(value as u16)).to_be_bytes());
    }
    packet
}

/// The bytes of a packet that are the same at every hop: without the TTL and the checksum over it.
fn key(packet: &[u8]) -> Vec<u8> {
    let mut key = packet.to_vec();
    key[8] = 0;
    key[10..12].fill(0);
    key
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(name: &str, rounds: &[Round]) {
    let of = |of: fn(&Round) -> f64| median(rounds, of);
    println!(
        "{name:<20} {:>6.2} µs of CPU, {:.2} of it to take; {:>5.2} B an ACK; {:>5.2} ms mean, \
         {:>5.2} ms p99; {} lost, {} wrong, {:.1} % outside",
        of(|r| r.cpu_us),
        of(|r| r.in_us),
        of(|r| r.bytes),
        of(|r| r.mean_ms),
        of(|r| r.p99_ms),
        of(|r| r.lost),
        of(|r| r.wrong),
        of(|r| r.bypassed),
    );
}

/// Other work on this machine must not count. If the kernel groups tasks by session, nice applies
/// within the session.
fn go_first() {
    // SAFETY: no pointers. A process that already leads a group stays there.
    if unsafe { libc::setsid() } > 0 {
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
}

fn main() {
    go_first();
    let bed = Testbed::new();
    let mut command = Command::new(PEER);
    command
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let there = command.status().is_ok();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(bed.ours());
        if there {
            theirs.push(bed.theirs());
        }
    }
    println!(
        "{} ACKs a round, {} rounds, PE {} ms; from device to device, with all headers",
        bed.packets.len(),
        ROUNDS,
        PERIOD.as_millis()
    );
    print("ackwise tunnel", &ours);
    let period = PERIOD.as_secs_f64() * 1e3;
    if median(&ours, |r| r.lost + r.bypassed) > 0.0 {
        println!(
            "ACKs were lost or bypassed: this machine has no time for this; latencies say nothing"
        );
    }
    println!(
        "added latency: {:.2} PE mean (≤ 0.6), {:.2} PE at p99 (≤ 1.2)",
        median(&ours, |r| r.mean_ms) / period,
        median(&ours, |r| r.p99_ms) / period
    );
    if there {
        print("simplemux with ROHC", &theirs);
        let ratio = median(&theirs, |r| r.cpu_us) / median(&ours, |r| r.cpu_us);
        println!("ACKs for a CPU second: {ratio:.2} times Simplemux with ROHC (≥ 5)");
    } else {
        println!("not compared: {PEER} is not on the path (scripts/peers/simplemux builds it)");
    }
}
