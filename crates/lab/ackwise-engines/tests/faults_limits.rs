//! Limits and neighbours: maps that are full, slots that are taken, garbage from unknown sources,
//! and traffic of the same host in the other direction.

mod harness;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use ackwise_datapath::Stats;
use ackwise_engines::tcpinfo::SockDiag;
use ackwise_engines::traffic::content::{CHUNK, Producer, Tally};
use ackwise_headers::{checksum, protocol};
use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_rng::Rng;
use ackwise_scenario::IpVersion;
use ackwise_testbed::here_and_in_virtual_time;
use harness::network::{PORT, Tune};
use harness::{
    Case, Need, Network, POLICIES, alone, check, consistent, exactly, matrix, one, options, shared,
};
use nix::sys::socket::{MsgFlags, send};

const FAST: &str = r#"both = { rate = "50 Mbit/s", delay = "10 ms", queue = "200 packets" }"#;

#[test]
fn more_flows_than_the_map_keeps() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        for policy in POLICIES {
            let mut case = Case::new("300 connections, room for 64").link(FAST);
            case.flow = "connections = 300\nbytes = \"24 kB\"".to_owned();
            case.seconds = 20.0;
            case.timeouts = 4;
            let network = Network::build(&case);
            let mut wanted = options(&network.interface("receiver", "wan"), policy);
            wanted.max_flows = 64;
            let attachment = network.attach("receiver", wanted);
            let ran = network.run(&case, |_| ());
            // The list is exact now that no flows come and go.
            let kept = attachment.flows(1000).expect("flows").len();
            let stats = network.detach("receiver", attachment);
            let ran = network.finish(ran);
            check(&case, policy, Need::Any, &ran, &stats);
            assert_eq!(
                ran.outcome.bytes,
                300 * 24_000,
                "every connection, every byte"
            );
            assert!(stats.flows_created >= 300, "{stats:#?}");
            exactly(|| assert!((17..=64).contains(&kept), "{kept} flows are kept"));
            let flows = stats.memory["flows"];
            assert!(flows < 64 * 2048, "room for 64 flows takes {flows} bytes");
        }
    });
}

/// Simulates a virtual machine whose CPUs are preempted in the middle of a program: packets that
/// wait for a lock give up, and the packets in hand leave.
#[test]
fn locks_that_somebody_keeps() {
    let _alone = alone();
    let mut case = Case::new("locks taken a third of the time");
    case.contend_locks = true;
    for policy in POLICIES {
        // On a busy machine the program that takes the locks may not coincide with a re-emission.
        // Then the run proves nothing, and the next one may.
        let met = (0..6).any(|_| {
            let (ran, stats) = one(&case, policy);
            check(&case, policy, Need::Some, &ran, &stats);
            assert_eq!(stats.release.lost, 0, "{policy}: {stats:#?}");
            let re_emission = policy == POLICIES[0] || stats.release.unlocked > 0;
            stats.fail_open["busy"] > 0 && re_emission
        });
        assert!(met, "{policy}: no packet met a lock that was taken");
    }
}

/// A long flow keeps its entry beside a stream of short ones: the least recently used entry is
/// evicted first.
#[test]
fn a_busy_flow_outlives_a_flood_of_short_ones() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        let mut case = Case::new("a flow among short ones, room for 64");
        case.tune = |options| options.max_flows = 64;
        case.during = |network| {
            let listener = network.inside("receiver", || TcpListener::bind("0.0.0.0:7000"));
            let listener = listener.expect("listen");
            let to = (network.address("receiver", "wan"), 7000);
            network.at(Duration::from_millis(600));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..150 {
                        let (mut one, _) = listener.accept().expect("a connection");
                        let mut all = Vec::new();
                        one.read_to_end(&mut all).expect("its bytes");
                        assert_eq!(all, [7; 100]);
                    }
                });
                network.inside("sender", || {
                    for _ in 0..150 {
                        // The two ends do not wait for each other: they close by themselves.
                        let mut one = TcpStream::connect(to).expect("connect");
                        one.write_all(&[7; 100]).expect("write");
                    }
                });
            });
        };
        case.seconds = 5.0;
        for policy in POLICIES {
            let (ran, stats) = harness::one(&case, policy);
            check(&case, policy, Need::Some, &ran, &stats);
            // Each flow counts once, or not at all if it only ever sent a FIN: the busy one was
            // never forgotten.
            let created = stats.flows_created;
            exactly(|| assert!((129..=151).contains(&created), "{stats:#?}"));
            exactly(|| {
                assert!(
                    stats.withheld * 3 > stats.acks,
                    "the long flow was not thinned any more: {stats:#?}"
                );
            });
        }
    });
}

#[test]
fn fewer_slots_than_flows() {
    here_and_in_virtual_time(|| {
        fn one_slot(options: &mut ackwise_datapath::Options) {
            options.slots = 1;
        }
        fn four_slots(options: &mut ackwise_datapath::Options) {
            options.slots = 4;
        }
        let tunes: [(&str, Tune); 2] = [("1 slot", one_slot), ("4 slots", four_slots)];
        for (name, tune) in tunes {
            let mut case = Case::new(&format!("{name}, 24 connections")).link(FAST);
            case.flow = "connections = 24".to_owned();
            case.tune = tune;
            case.timeouts = 3;
            case.need = [Need::Any, Need::Some];
            let seen = matrix(&case);
            let (_, stats) = &seen[1];
            exactly(|| {
                assert!(
                    stats.fail_open["no-slot"] > 0,
                    "the slots never ran out: {stats:#?}"
                );
            });
        }
    });
}

/// Segments that an off-path attacker might send: at the flow's own ports and elsewhere, with flags
/// of all kinds, whole and broken.
fn garbage(network: &Network) {
    network.at(Duration::from_millis(600));
    let (from, to) = (
        network.address("sender", "wan"),
        network.address("receiver", "wan"),
    );
    let ifname = network.interface("sender", "wan");
    let node = network.node("sender");
    let mac = |of: usize| network.topology.plan.interface(0, of).mac;
    let (mine, theirs) = if network.topology.plan.interface(0, 0).node == node {
        (mac(0), mac(1))
    } else {
        (mac(1), mac(0))
    };
    let sent = network.inside("sender", || {
        let connections = SockDiag::open()
            .unwrap_or_else(|error| panic!("{error}"))
            .connections_to(PORT, IpVersion::V4)
            .expect("connections");
        let Some(flow) = connections.first() else {
            exactly(|| panic!("there is no flow"));
            return 0;
        };
        let port = flow.source_port;
        // A socket that only sends.
        let wire = packet_socket::open(Layer::Link).expect("a packet socket");
        packet_socket::bind(&wire, index_of(&ifname), Receives::Nothing).expect("bound");
        let mut rng = Rng::stream(5, 5);
        let until = Instant::now() + Duration::from_millis(1200);
        let mut sent = 0;
        while Instant::now() < until {
            for _ in 0..4 {
                let target = !rng.next_u64().is_multiple_of(4);
                let source = if target {
                    port
                } else {
                    rng.next_u64() as u16 | 1
                };
                let address = if target {
                    from.octets()
                } else {
                    (0x0b00_0000 | (rng.next_u64() as u32 & 0xff_ffff)).to_be_bytes()
                };
                let frame = stray(&mut rng, (mine, theirs), address, to.octets(), source);
                let n = send(wire.as_raw_fd(), &frame, MsgFlags::empty());
                sent += usize::from(n == Ok(frame.len()));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        sent
    });
    exactly(|| assert!(sent > 300, "{sent} stray segments"));
}

/// One such segment, without payload: its content is not for the application.
fn stray(
    rng: &mut Rng,
    (mine, theirs): ([u8; 6], [u8; 6]),
    from: [u8; 4],
    to: [u8; 4],
    port: u16,
) -> Vec<u8> {
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    let draw = rng.next_u64();
    // Options: none, those of a usual SYN, nonsense, and a length beyond the end.
    let options: &[u8] = match draw % 5 {
        0 => &[],
        1 => &[2, 4, 5, 180, 1, 3, 3, 14],
        2 => &[8, 10, 255, 255, 255, 255, 0, 0, 0, 0, 1, 1],
        3 => &[5, 34, 0, 0],
        _ => &[253, 0, 2, 1],
    };
    let flags = [SYN, SYN | ACK, RST, RST | ACK, SYN | 0xc0, SYN | 1][(draw >> 8) as usize % 6];
    let mut tcp = Vec::new();
    tcp.extend(port.to_be_bytes());
    tcp.extend(PORT.to_be_bytes());
    tcp.extend((rng.next_u64() as u32).to_be_bytes());
    tcp.extend((rng.next_u64() as u32).to_be_bytes());
    let mut offset = 5 + options.len() / 4;
    match (draw >> 16) % 16 {
        0 => offset = 2,  // shorter than a header
        1 => offset = 15, // longer than the packet
        _ => {}
    }
    tcp.extend([(offset << 4) as u8, flags]);
    tcp.extend((draw as u16).to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(options);
    if (draw >> 24).is_multiple_of(16) {
        tcp.truncate(12);
    }
    let mut ip = vec![0x45, 0];
    ip.extend(((20 + tcp.len()) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    ip.extend(from);
    ip.extend(to);
    let header = checksum::of(&ip);
    ip[10..12].copy_from_slice(&header);
    if tcp.len() >= 20 {
        let whole = checksum::of_segment(&ip[12..20], protocol::TCP, &tcp);
        tcp[16..18].copy_from_slice(&whole);
    }
    let mut frame = Vec::new();
    frame.extend(theirs);
    frame.extend(mine);
    frame.extend([8, 0]);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}

#[test]
fn garbage_from_off_the_path() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("stray SYN, RST, broken headers");
        case.during = garbage;
        // A SYN at its ports resets a flow's state, and `adaptive` leaves a new flow alone.
        case.need = [Need::Any, Need::Some];
        case.timeouts = 2;
        for (_, stats) in matrix(&case) {
            exactly(|| {
                assert!(
                    stats.syns > 100,
                    "the stray SYNs did not arrive: {stats:#?}"
                )
            });
            exactly(|| {
                assert!(
                    stats.unparsable > 0,
                    "the broken packets did not arrive: {stats:#?}"
                )
            });
        }
    });
}

/// One connection that sends both ways for a while.
fn both_ways(policy: &str) -> Stats {
    let case = Case::new("two-way");
    let network = Network::build(&case);
    let attachment = network.attach(
        "receiver",
        options(&network.interface("receiver", "wan"), policy),
    );
    let far = (network.address("sender", "wan"), 7000);
    let listener = network.inside("sender", || TcpListener::bind(far).expect("listen"));
    let near = network.inside("receiver", || TcpStream::connect(far).expect("connect"));
    let (far, _) = listener.accept().expect("a connection");
    let until = Instant::now() + Duration::from_millis(1800);
    let pump = |mut socket: TcpStream, seed: u64, size: usize, pause: Duration| {
        move || {
            let mut producer = Producer::new(seed);
            let mut chunk = vec![0; size];
            while Instant::now() < until {
                producer.fill(&mut chunk);
                socket.write_all(&chunk).expect("write");
                producer.sent(&chunk);
                std::thread::sleep(pause);
            }
            socket.shutdown(Shutdown::Write).expect("shutdown");
            producer.finish()
        }
    };
    let sink = |mut socket: TcpStream| {
        move || {
            let mut tally = Tally::default();
            let mut buffer = vec![0; CHUNK];
            loop {
                match socket.read(&mut buffer).expect("read") {
                    0 => return tally.finish(),
                    count => tally.add(&buffer[..count]),
                }
            }
        }
    };
    let clone = |socket: &TcpStream| socket.try_clone().expect("clone");
    std::thread::scope(|scope| {
        let sinks = [
            scope.spawn(sink(clone(&far))),
            scope.spawn(sink(clone(&near))),
        ];
        let pumps = [
            // With pauses, in which pure ACKs answer the download.
            scope.spawn(pump(clone(&near), 1, 8192, Duration::from_millis(5))),
            scope.spawn(pump(clone(&far), 2, CHUNK / 4, Duration::ZERO)),
        ];
        let sent = pumps.map(|pump| pump.join().expect("a writer"));
        let got = sinks.map(|sink| sink.join().expect("a reader"));
        for (sent, got) in sent.iter().zip(&got) {
            assert_eq!((sent.bytes, sent.sha256), (got.bytes, got.sha256));
        }
    });
    network.detach("receiver", attachment)
}

/// The bytes of both directions of one connection are right while its ACKs are thinned. The tests
/// of ackwise-datapath show, with reno, which reacts to a local drop, that the socket is not
/// harmed.
#[test]
fn both_ways_at_once_arrive() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        for policy in POLICIES {
            let stats = both_ways(policy);
            consistent(policy, &stats);
            // The data of the other direction fill the queue of the ACKs, which `adaptive` notices
            // after a tenth of a second.
            let few = stats.withheld < stats.acks / 20;
            let right = stats.withheld > 0 && (few || policy != "adaptive");
            exactly(|| assert!(right, "{policy}: {stats:#?}"));
        }
    });
}
