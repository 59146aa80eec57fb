//! ACK congestion control between unmodified stacks: `ackwise attach` with the policy `acc` at the
//! receiver, and a gateway that marks ACKs and tells the receiver.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_datapath::{Datapath, Options};
use ackwise_gateway::{Acc, AttachMode, Config, Gateway};
use ackwise_policy::Config as Policy;
use common::{AccessNetwork, Netns, alone};

/// Marks early and often, so that a few seconds suffice.
const MARKING: &str = "{ limit = \"200 packets\", discipline = \"red\", ecn = true, \
    min = \"1 packets\", max = \"10 packets\", max_probability = \"100 %\", \
    weight = 0.5, mark_limit = \"100 %\" }";
const THIN: &str = "150 kbit/s";
/// A wide link, whose queue does not mark what a busy machine sends in one go.
const WIDE: &str = "20 Mbit/s";
const LENIENT: &str = "{ limit = \"500 packets\", discipline = \"red\", ecn = true, \
    min = \"200 packets\", max = \"400 packets\" }";

fn gateway(network: &AccessNetwork, rate: &str, more: &str) -> Gateway {
    let queue = if rate == WIDE { LENIENT } else { MARKING };
    let text =
        format!("interface = \"wan0\"\nrate = \"{rate}\"\noverhead = 14\nqueue = {queue}\n{more}");
    let config = Config::parse("test", &text).unwrap();
    let gateway = network
        .router
        .run(|| Gateway::start(config, AttachMode::Auto));
    gateway.unwrap_or_else(|e| panic!("{e}"))
}

/// The data's link: 20 Mbit/s, packet by packet.
fn down(network: &AccessNetwork) -> Gateway {
    let text = "interface = \"wan1\"\nrate = \"20 Mbit/s\"\nqueue = \"100 packets\"";
    let config = Config::parse("test", text).unwrap();
    let gateway = network
        .server
        .run(|| Gateway::start(config, AttachMode::Auto));
    gateway.unwrap_or_else(|e| panic!("{e}"))
}

fn attach(network: &AccessNetwork, policy: &str, dry_run: bool) -> Datapath {
    let mut options = Options::new("lan0", policy.parse::<Policy>().unwrap());
    // These paths have almost no delay, so a fraction of the RTT would be no time to wait.
    options.hold_rtt_shift = 0;
    options.dry_run = dry_run;
    network.host.run(|| Datapath::attach(options).unwrap())
}

/// The contents of TCP packets that pass an interface.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Seen {
    acks: u64,
    capable_acks: u64,
    data: u64,
    data_with_ece: u64,
    /// Data with ECN bits in the IP header.
    capable_data: u64,
}

/// Watches an interface until it is told to stop.
fn watch<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    netns: &'scope Netns,
    interface: &'static str,
    stop: &'scope AtomicBool,
) -> thread::ScopedJoinHandle<'scope, Seen> {
    let socket = netns.run(|| common::packet_socket(interface));
    scope.spawn(move || {
        let mut seen = Seen::default();
        let mut frame = [0; 80];
        while !stop.load(Ordering::Relaxed) {
            // SAFETY: a writable buffer of the size given.
            let got = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_TRUNC,
                )
            };
            if got < 54 || frame[12..14] != [8, 0] || frame[23] != 6 {
                continue;
            }
            let (ip, tcp) = frame[14..].split_at(20);
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            let payload = total - 20 - usize::from(tcp[12] >> 4) * 4;
            let capable = u64::from(ip[1] & 3 != 0);
            if tcp[13] & 0x07 != 0 {
                continue;
            }
            if payload == 0 {
                seen.acks += 1;
                seen.capable_acks += capable;
            } else {
                seen.data += 1;
                seen.data_with_ece += u64::from(tcp[13] & 0x40 != 0);
                seen.capable_data += capable;
            }
        }
        seen
    })
}

/// A download with known contents, and its progress.
struct Download {
    stream: TcpStream,
    at: u64,
}

impl Download {
    fn begin(network: &AccessNetwork) -> Self {
        let listener = network
            .server
            .run(|| TcpListener::bind("10.9.2.2:80").unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let chunk: Vec<u8> = (0..251 * 64).map(|n| (n % 251) as u8).collect();
            while stream.write_all(&chunk).is_ok() {}
        });
        let stream = network
            .host
            .run(|| TcpStream::connect("10.9.2.2:80").unwrap());
        Self { stream, at: 0 }
    }

    /// Receives for this long, and longer if the machine is too busy for this many bytes.
    fn receive(&mut self, span: Duration, least: u64) {
        let began = Instant::now();
        let least = self.at + least;
        let mut buffer = vec![0; 1 << 16];
        while began.elapsed() < span || self.at < least {
            assert!(began.elapsed() < Duration::from_secs(60), "at {}", self.at);
            let got = self.stream.read(&mut buffer).unwrap();
            assert!(got > 0);
            for byte in &buffer[..got] {
                assert_eq!(u64::from(*byte), self.at % 251, "at {}", self.at);
                self.at += 1;
            }
        }
    }

    /// Continues until the policy has withheld this many ACKs, or gives up after a long time.
    fn until_withheld(&mut self, attached: &Datapath, least: u64) {
        for _ in 0..40 {
            if thinned(attached).0 >= least {
                break;
            }
            self.receive(Duration::from_secs(1), 1_000_000);
        }
    }
}

/// The held ACKs that never left, and the data segments, so far.
fn thinned(attached: &Datapath) -> (u64, u64) {
    let stats = attached.stats().unwrap();
    (stats.withheld, stats.data_segments)
}

struct Outcome {
    withheld: u64,
    acc: Option<Acc>,
    /// At the receiver's interface, and at the sender's.
    receiver: Seen,
    sender: Seen,
    /// Segments with ECE that reached the host's own TCP.
    told_the_stack: u64,
}

/// Counts segments with ECE behind the hooks, where the host's stack sees them.
fn count_ece(host: &Netns) {
    host.run(|| {
        common::run_command("nft", "add table ip acc");
        let input = "{ type filter hook input priority 0 ; }";
        common::run_command("nft", &format!("add chain ip acc in {input}"));
        common::run_command("nft", "add rule ip acc in tcp flags & ecn == ecn counter");
    });
}

fn counted(host: &Netns) -> u64 {
    let rules = host.run(|| common::run_command("nft", "list chain ip acc in"));
    let (_, rest) = rules.split_once("counter packets ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Runs a download for at least three seconds with 20 Mbit/s of data.
fn run(network: &AccessNetwork, policy: &str, rate: &str, more: &str, dry_run: bool) -> Outcome {
    run_until(network, policy, rate, more, dry_run, 0)
}

/// Runs a download like [`run`] until this many ACKs have been withheld. How many seconds that
/// takes depends on how much CPU time the test gets.
fn run_until(
    network: &AccessNetwork,
    policy: &str,
    rate: &str,
    more: &str,
    dry_run: bool,
    withheld: u64,
) -> Outcome {
    let down = down(network);
    let up = gateway(network, rate, more);
    let attached = attach(network, policy, dry_run);
    let stop = AtomicBool::new(false);
    count_ece(&network.host);
    let (receiver, sender) = thread::scope(|scope| {
        let receiver = watch(scope, &network.router, "lan1", &stop);
        let sender = watch(scope, &network.server, "wan1", &stop);
        let mut download = Download::begin(network);
        download.receive(Duration::from_secs(3), 3_000_000);
        download.until_withheld(&attached, withheld);
        stop.store(true, Ordering::Relaxed);
        (receiver.join().unwrap(), sender.join().unwrap())
    });
    down.stop().unwrap();
    let (withheld, segments) = thinned(&attached);
    assert!(segments > 500, "{segments} segments");
    attached.detach().unwrap();
    Outcome {
        withheld,
        acc: up.stop().unwrap().acc,
        receiver,
        sender,
        told_the_stack: counted(&network.host),
    }
}

#[test]
fn marks_make_acks_fewer_and_no_marks_leave_them_alone() {
    let _alone = alone();
    let thin = run_until(&AccessNetwork::new(), "acc", THIN, "acc = true", false, 101);
    let acc = thin.acc.unwrap();
    println!("{acc:?} {:?} {:?}", thin.receiver, thin.sender);
    assert!(acc.marks > 10 && acc.echoes > 5, "{acc:?}");
    assert!(acc.echoes <= acc.marks && acc.unknown == 0, "{acc:?}");
    assert!(thin.withheld > 100, "{}", thin.withheld);
    assert!(thin.receiver.capable_acks > 100, "{:?}", thin.receiver);
    assert!(thin.receiver.data_with_ece > 5, "{:?}", thin.receiver);
    assert_eq!(thin.told_the_stack, 0, "the receiver's TCP sees no ECE");
    // Nobody would echo beyond the gateway: there everything is as without ACC.
    assert_eq!(thin.sender.capable_acks, 0, "{:?}", thin.sender);
    assert_eq!(thin.sender.data_with_ece, 0, "{:?}", thin.sender);

    let wide = run(&AccessNetwork::new(), "acc", WIDE, "acc = true", false);
    let acc = wide.acc.unwrap();
    assert_eq!((acc.marks, acc.echoes, wide.withheld), (0, 0, 0), "{acc:?}");
    assert!(acc.capable > 100 && wide.sender.capable_acks == 0);
}

#[test]
fn when_marks_end_acks_come_back() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let down = down(&network);
    let up = gateway(&network, THIN, "acc = true");
    let attached = attach(&network, "acc", false);
    let mut download = Download::begin(&network);
    download.receive(Duration::from_secs(2), 2_000_000);
    download.until_withheld(&attached, 101);
    up.stop().unwrap();
    let (congested, _) = thinned(&attached);
    // Let d come down; then there are as many ACKs as the stack makes.
    download.receive(Duration::from_millis(700), 1_000_000);
    let (before, segments) = thinned(&attached);
    download.receive(Duration::from_secs(1), 1_500_000);
    let (after, more) = thinned(&attached);
    println!("withheld {congested}, then {}", after - before);
    assert!(congested > 100, "{congested}");
    assert!(more - segments > 500);
    assert_eq!(after, before);
    attached.detach().unwrap();
    down.stop().unwrap();
}

#[test]
fn by_default_no_packet_is_changed() {
    let _alone = alone();
    for (policy, more, dry_run) in [
        // ACC at neither end, at one of them, or in a dry run.
        ("every-n", "", false),
        ("every-n", "acc = true", false),
        ("acc", "acc = true", true),
    ] {
        let outcome = run(&AccessNetwork::new(), policy, THIN, more, dry_run);
        for seen in [outcome.receiver, outcome.sender] {
            let changed = (seen.capable_acks, seen.data_with_ece, seen.capable_data);
            assert_eq!(changed, (0, 0, 0), "{policy}, {more}: {seen:?}");
            assert!(seen.acks > 50 && seen.data > 500, "{seen:?}");
        }
        let acc = outcome.acc.unwrap_or_default();
        assert_eq!((acc.capable, acc.marks, acc.echoes), (0, 0, 0));
    }
}

#[test]
fn a_connection_with_ecn_is_left_alone() {
    let _alone = alone();
    let network = AccessNetwork::new();
    for end in [&network.host, &network.server] {
        end.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap());
    }
    let outcome = run(&network, "acc", THIN, "acc = true", false);
    let acc = outcome.acc.unwrap();
    assert_eq!(acc.with_ecn, 1, "{acc:?}");
    assert_eq!((acc.capable, acc.marks, acc.echoes), (0, 0, 0), "{acc:?}");
    assert_eq!(outcome.withheld, 0);
    assert!(outcome.receiver.capable_data > 500);
    assert_eq!(outcome.receiver.capable_acks, 0);
}
