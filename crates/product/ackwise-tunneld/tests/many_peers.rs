//! One end with two live peers: they move and restart during transfers, one of them lies, and the
//! end is flooded with handshakes. What the honest peers carry arrives byte for byte.

mod common;

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ackwise_headers::{checksum, protocol};
use ackwise_netdev::raw_socket::{self, SockProtocol};
use ackwise_tunnel::{
    Actions, KeyPair, OtherPackets, Security, Tunnel, TunnelConfig, key_to_base64,
};
use ackwise_tunneld::{AttachMode, Config, Daemon, PeerStats};
use common::{
    Capture, Netns, Topology, alone, host, ip, is_up, link, peer, router, run_command, transfer,
    transfer_and, until, write_key,
};
use nix::sys::socket::MsgFlags;

const BYTES: usize = 4_000_000;
/// The addresses on which the branches' hosts listen.
const DOWN: [&str; 2] = ["10.9.1.1:5001", "10.9.2.1:5001"];
/// The centre's addresses that the branches use.
const CENTRE: [&str; 2] = ["10.9.3.2", "10.9.4.2"];

const TOPOLOGY: Topology = Topology {
    nodes: &[
        host("host0"),
        host("host1"),
        router("branch0"),
        router("branch1"),
        router("centre"),
        host("server"),
    ],
    links: &[
        link("host0.lan0", "branch0.lan1"),
        link("host1.lan0", "branch1.lan1"),
        link("branch0.wan0", "centre.wan1"),
        link("branch1.wan0", "centre.wan2"),
        link("centre.net0", "server.net1"),
    ],
};

/// Two branches that download from a server behind the centre. The ACKs of each pass through a
/// tunnel from its router to the centre's.
struct Branches {
    hosts: [Netns; 2],
    routers: [Netns; 2],
    centre: Netns,
    server: Netns,
    keys: tempfile::TempDir,
    branch_keys: [KeyPair; 2],
    centre_key: KeyPair,
}

impl Branches {
    fn new() -> Self {
        let [host0, host1, branch0, branch1, centre, server] = TOPOLOGY.build();
        let keys = tempfile::tempdir().unwrap();
        let branches = Self {
            hosts: [host0, host1],
            routers: [branch0, branch1],
            centre,
            server,
            branch_keys: ["branch0", "branch1"].map(|name| write_key(keys.path(), name)),
            centre_key: write_key(keys.path(), "centre"),
            keys,
        };
        // An ACK for every two segments, as on a wire, and not for every 64 KiB.
        for (end, device) in [
            (&branches.hosts[0], "lan0"),
            (&branches.hosts[1], "lan0"),
            (&branches.server, "net1"),
        ] {
            end.run(|| run_command("ethtool", &format!("-K {device} tso off gso off gro off")));
        }
        branches
    }

    fn config(&self, text: &str) -> Config {
        let path = self.keys.path().join("tunnel.toml");
        std::fs::write(&path, format!("listen_port = 51830\n{text}")).unwrap();
        Config::load(&path).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The end that both branches contact, and which learns their addresses from them.
    fn start_centre(&self) -> Daemon {
        let mut text = "private_key = \"centre\"\n".to_owned();
        for (n, keys) in self.branch_keys.iter().enumerate() {
            text += &format!(
                "[[peer]]\nname = \"branch{n}\"\npublic_key = \"{}\"\n\
                 allowed_ips = [\"10.9.{}.0/24\"]\n",
                key_to_base64(&keys.public),
                n + 1
            );
        }
        self.start(&self.centre, &text)
    }

    fn start_branch(&self, n: usize) -> Daemon {
        let text = format!(
            "private_key = \"branch{n}\"\ninterface = \"wan0\"\n[[peer]]\nname = \"centre\"\n\
             public_key = \"{}\"\nendpoint = \"{}:51830\"\nallowed_ips = [\"10.9.5.0/24\"]\n",
            key_to_base64(&self.centre_key.public),
            CENTRE[n]
        );
        self.start(&self.routers[n], &text)
    }

    fn start(&self, at: &Netns, text: &str) -> Daemon {
        until("the port", || {
            let config = self.config(text);
            match at.run(|| Daemon::start(config, AttachMode::Auto)) {
                Ok(daemon) => Some(daemon),
                // A command that another thread is starting has a copy of the last socket until it
                // executes its program.
                Err(error) if error.to_string().contains("Address already in use") => None,
                Err(error) => panic!("{error}"),
            }
        })
    }

    /// Downloads to a branch until ACKs have passed its tunnel; a busy machine makes few.
    fn used(&self, n: usize, end: &Daemon) {
        until("the tunnel", || is_up(end).then_some(()));
        let before = peer(end).packets_in.packets;
        for _ in 0..10 {
            transfer(&self.server, &self.hosts[n], DOWN[n], BYTES);
            // The counters are updated several times per second.
            thread::sleep(Duration::from_millis(120));
            if peer(end).packets_in.packets > before + 100 {
                return;
            }
        }
        panic!("ten transfers, and no ACKs: {:#?}", end.stats());
    }

    fn nothing_left(&self) {
        for at in self.routers.iter().chain([&self.centre]) {
            assert_eq!(at.leftovers(), (Vec::new(), 0));
        }
    }

    /// The first branch gets another address during a transfer, and loses its old one.
    fn first_branch_moves(&self) {
        self.routers[0].run(|| {
            std::fs::write("/proc/sys/net/ipv4/conf/wan0/promote_secondaries", "1").unwrap();
            ip("addr add 10.9.3.9/24 dev wan0");
        });
        self.centre
            .run(|| ip("route replace 10.9.1.0/24 via 10.9.3.9"));
        self.routers[0].run(|| ip("addr del 10.9.3.1/24 dev wan0"));
    }
}

fn of(centre: &Daemon, n: usize) -> PeerStats {
    centre.stats().peers[n].clone()
}

/// Both download at once. Meanwhile one moves, and the other's process ends and restarts.
#[test]
fn two_peers_that_move_and_restart() {
    let _alone = alone();
    let branches = Branches::new();
    let centre = branches.start_centre();
    let first = branches.start_branch(0);
    let second = branches.start_branch(1);
    branches.used(0, &first);
    branches.used(1, &second);
    let second = thread::scope(|scope| {
        let download = |n: usize, during: Box<dyn FnOnce() + Send>| {
            let (from, to) = (&branches.server, &branches.hosts[n]);
            move || transfer_and(from, to, DOWN[n], 4 * BYTES, during)
        };
        let moves = download(0, Box::new(|| branches.first_branch_moves()));
        let moves = scope.spawn(moves);
        let restarted = scope.spawn(|| {
            let mut restarted = None;
            let (from, to) = (&branches.server, &branches.hosts[1]);
            transfer_and(from, to, DOWN[1], 4 * BYTES, || {
                drop(second);
                restarted = Some(branches.start_branch(1));
            });
            restarted
        });
        moves.join().expect("the first transfer");
        restarted.join().expect("the second transfer")
    });
    let second = second.expect("it started again");
    until("the new address", || {
        let at = of(&centre, 0).endpoint?;
        (at.to_string() == "10.9.3.9:51830").then_some(())
    });
    branches.used(0, &first);
    branches.used(1, &second);
    for n in 0..2 {
        let stats = of(&centre, n);
        assert!(stats.up, "{stats:#?}");
        assert_eq!(stats.failures.not_allowed, 0, "{stats:#?}");
        assert_eq!(stats.failures.undecodable, 0, "{stats:#?}");
    }
    for end in [first, second, centre] {
        end.stop().unwrap();
    }
    branches.nothing_left();
}

const SYN: u8 = 2;
const ACK: u8 = 16;
/// The pause between two rounds of lies of some 200 datagrams each. The rate that the end can bear
/// depends on the CPU, which is not tested here: a peer that sends more than one core can read
/// starves the others, as with any server.
const PAUSE: Duration = Duration::from_millis(40);
/// The number of earlier datagrams that the liar changes, truncates and replays in each round.
const REPLAYED: usize = 50;
/// The port of packets that the liar forges in the name of others.
const FORGED: u16 = 666;

/// A segment without payload from an address to port 7 of the server.
fn segment(from: [u8; 4], port: u16, flags: u8, number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0];
    packet.extend(from);
    packet.extend([10, 9, 5, 2]);
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum);
    packet.extend(port.to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(number.to_be_bytes());
    packet.extend(number.rotate_left(13).to_be_bytes());
    packet.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
    let sum = checksum::of_segment(&packet[12..20], protocol::TCP, &packet[20..]);
    packet[36..38].copy_from_slice(&sum);
    packet
}

/// The second branch, with its true key but without the daemon.
struct MaliciousPeer {
    tunnel: Tunnel,
    socket: UdpSocket,
    began: Instant,
    actions: Actions,
    /// The last datagrams that it sent, for replays.
    sent: Vec<Vec<u8>>,
}

impl MaliciousPeer {
    fn new(branches: &Branches) -> Self {
        let keys = &branches.branch_keys[1];
        let mut tunnel = Tunnel::new(TunnelConfig {
            max_flows: u16::MAX,
            other_packets: OtherPackets::Carry,
            ..TunnelConfig::new(Security::Noise {
                secret: keys.secret,
                public: keys.public,
                peer: branches.centre_key.public,
            })
        });
        let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        tunnel.set_unix_offset(today.unwrap().as_nanos() as u64);
        let socket = branches.routers[1].run(|| UdpSocket::bind("10.9.4.1:51830").unwrap());
        socket.connect((CENTRE[1], 51830)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            tunnel,
            socket,
            began: Instant::now(),
            actions: Actions::default(),
            sent: Vec::new(),
        }
    }

    /// Passes packets to the tunnel, and performs what is due. Every datagram is sent twice.
    fn step(&mut self, packets: &[Vec<u8>]) {
        let now = self.began.elapsed().as_nanos() as u64 + 1;
        let mut room = [0; 2048];
        while let Ok(len) = self.socket.recv(&mut room) {
            let _ = self.tunnel.datagram(&room[..len], now, &mut self.actions);
        }
        for packet in packets {
            self.tunnel.packet(packet, now, &mut self.actions);
        }
        self.tunnel.tick(now, &mut self.actions);
        for datagram in std::mem::take(&mut self.actions.datagrams) {
            for _ in 0..2 {
                let _ = self.socket.send(&datagram);
            }
            self.sent.push(datagram);
        }
        self.actions.clear();
        let old = self.sent.len().saturating_sub(REPLAYED);
        self.sent.drain(..old);
    }

    fn connect(&mut self) {
        until("the liar's tunnel", || {
            self.step(&[]);
            self.tunnel.is_up().then_some(())
        });
    }

    /// One round of every attack, with new flows each time.
    fn send_wrong(&mut self, round: u32) {
        let own = |n: u32| [10, 9, 2, (n >> 16) as u8 | 1];
        let mut packets = Vec::new();
        for n in 0..200 {
            let number = (round * 200 + n).wrapping_mul(0x9e37_79b9);
            // Its own flows, more than the other end can track.
            let port = 0x8000 | (round * 200 + n) as u16;
            packets.push(segment(own(round * 200), port, ACK, number));
        }
        // In the name of the other branch, of the centre, of the server; and packets that are not
        // ACKs.
        for from in [[10, 9, 1, 1], [10, 9, 3, 1], [10, 9, 5, 2], [127, 0, 0, 1]] {
            packets.push(segment(from, FORGED, ACK, round));
            packets.push(segment(from, FORGED, SYN, round));
        }
        packets.push(segment([10, 9, 2, 1], FORGED, SYN, round));
        self.step(&packets);
        // Datagrams that are truncated, changed, or replayed.
        for (n, datagram) in self.sent.iter().enumerate() {
            let mut changed = datagram.clone();
            let at = (round as usize * 7 + n) % changed.len();
            changed[at] ^= 1 << (round % 8);
            for bytes in [&changed[..], &datagram[..at], &datagram[..]] {
                let _ = self.socket.send(bytes);
            }
        }
    }
}

/// The second peer is authentic and hostile: it sends for others, opens more flows than there is
/// memory for, and changes, truncates and replays its datagrams. The first one is not affected.
#[test]
fn a_peer_that_lies_replays_and_floods() {
    let _alone = alone();
    let branches = Branches::new();
    let centre = branches.start_centre();
    let honest = branches.start_branch(0);
    branches.used(0, &honest);
    let mut attacker = MaliciousPeer::new(&branches);
    attacker.connect();
    let arrived = Capture::start(&branches.server, "net1");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Acquire) || round < 300 {
                attacker.send_wrong(round);
                round += 1;
                thread::sleep(PAUSE);
            }
            round
        });
        let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..3 {
                branches.used(0, &honest);
            }
        }));
        stop.store(true, Ordering::Release);
        println!("{} rounds of lies", rounds.join().expect("the liar"));
        if let Err(panic) = used {
            std::panic::resume_unwind(panic);
        }
    });
    let refused = until("what was refused", || {
        let stats = of(&centre, 1);
        let failures = &stats.failures;
        let all = [
            failures.not_allowed,
            failures.refused,
            failures.replayed,
            failures.auth_failures,
        ];
        all.iter().all(|&count| count > 0).then_some(stats)
    });
    println!("{:#?}", refused.failures);
    assert!(
        refused.memory <= centre.stats().memory_of_peer,
        "{refused:#?}"
    );
    let forged = arrived.end();
    let forged = forged.iter().filter(|frame| {
        frame.get(12..14) == Some(&[8, 0]) && frame.get(34..36) == Some(&FORGED.to_be_bytes())
    });
    assert_eq!(forged.count(), 0, "what the liar said for others arrived");
    // On a busy machine the peer may time out for a moment.
    let honest_stats = until("the honest peer is up", || {
        let stats = of(&centre, 0);
        stats.up.then_some(stats)
    });
    assert_eq!(
        honest_stats.endpoint,
        Some("10.9.3.1:51830".parse().unwrap())
    );
    let failures = honest_stats.failures;
    let wrong = [
        failures.replayed,
        failures.undecodable,
        failures.refused,
        failures.not_allowed,
    ];
    assert_eq!(wrong, [0; 4], "{failures:#?}");
    branches.used(0, &honest);
    for end in [honest, centre] {
        end.stop().unwrap();
    }
    branches.nothing_left();
}

/// Handshakes of initiators that are no peers but know the public key of the centre, each from a
/// different address that is not theirs.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    fn start(branches: &Branches, per_second: u64) -> Self {
        // Answers have a route, and nobody receives them.
        branches
            .centre
            .run(|| ip("route replace 198.18.0.0/15 via 10.9.4.1"));
        branches.routers[1].run(|| ip("route replace blackhole 198.18.0.0/15"));
        let initiations: Vec<_> = (0..64).map(|_| initiation(branches)).collect();
        let socket =
            branches.routers[1].run(|| raw_socket::open(false, SockProtocol::Raw).unwrap());
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let began = Instant::now();
            let mut n = 0_u64;
            while !stopped.load(Ordering::Acquire) {
                let due = began.elapsed().as_micros() as u64 * per_second / 1_000_000;
                while n < due {
                    n += 1;
                    let initiation = &initiations[n as usize % initiations.len()];
                    send_from(&socket, n as u32, initiation);
                }
                count.store(n, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self {
            stop,
            sent,
            thread: Some(thread),
        }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn initiation(branches: &Branches) -> Vec<u8> {
    let keys = KeyPair::generate().unwrap();
    let mut tunnel = Tunnel::new(TunnelConfig::new(Security::Noise {
        secret: keys.secret,
        public: keys.public,
        peer: branches.centre_key.public,
    }));
    let mut actions = Actions::default();
    tunnel.tick(1, &mut actions);
    actions.datagrams.pop().expect("an initiation")
}

/// Sends a datagram to the centre from an address of 198.18.0.0/15 (RFC 2544) that depends on
/// `n`.
fn send_from(socket: &OwnedFd, n: u32, datagram: &[u8]) {
    let spread = n.wrapping_mul(0x9e37_79b9);
    let source = 0xc612_0000 | (spread >> 15);
    let len = (28 + datagram.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(source.to_be_bytes());
    packet.extend([10, 9, 4, 2]);
    packet.extend((1024 | spread as u16).to_be_bytes());
    packet.extend(51830_u16.to_be_bytes());
    packet.extend((len - 20).to_be_bytes());
    // Without a checksum (RFC 768).
    packet.extend([0, 0]);
    packet.extend(datagram);
    raw_socket::send(socket, &packet, [10, 9, 4, 2].into(), MsgFlags::empty()).unwrap();
}

/// 10,000 handshakes per second: ACKs continue, with less CPU time for handshakes than they would
/// take on a slow machine. At 500 per second a peer that restarts gets its session, for which it
/// must prove its address. The goodputs are printed, not asserted, since they vary on a busy
/// machine.
#[test]
fn handshakes_from_addresses_of_nobody() {
    let _alone = alone();
    let branches = Branches::new();
    // Spaced as on a wire.
    branches.centre.run(|| {
        run_command(
            "tc",
            "qdisc add dev wan1 root tbf rate 50mbit burst 20000 limit 300000",
        )
    });
    let centre = branches.start_centre();
    let first = branches.start_branch(0);
    branches.used(0, &first);
    let download = || {
        let began = Instant::now();
        transfer(&branches.server, &branches.hosts[0], DOWN[0], 3 * BYTES);
        3.0 * BYTES as f64 * 8e-6 / began.elapsed().as_secs_f64()
    };
    let quiet = download();
    let cpu = centre.stats().cpu_s;
    let flood = Flood::start(&branches, 10_000);
    let loud = download();
    branches.used(0, &first);
    until("enough handshakes", || {
        (flood.sent() >= 20_000).then_some(())
    });
    let sent = flood.sent();
    drop(flood);
    let stats = until("counters", || {
        let stats = centre.stats();
        (stats.cookies_sent > 1000 && stats.unknown_sources > 50).then_some(stats)
    });
    println!(
        "{quiet:.1} Mbit/s without, {loud:.1} Mbit/s with {sent} handshakes; {} of nobody, {} \
         cookies, {} limited; {:.1} µs of CPU time for each, ACKs included",
        stats.unknown_sources,
        stats.cookies_sent,
        stats.handshakes_limited,
        (stats.cpu_s - cpu) * 1e6 / sent as f64,
    );
    let flood = Flood::start(&branches, 500);
    drop(first);
    let first = branches.start_branch(0);
    branches.used(0, &first);
    drop(flood);
    assert_eq!(of(&centre, 1).endpoint, None);
    for end in [first, centre] {
        end.stop().unwrap();
    }
    branches.nothing_left();
}
