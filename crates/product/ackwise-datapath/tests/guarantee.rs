//! The first rule of the contract, checked by capture: on real TCP connections through a router,
//! every ACK that entered the router either came out once, byte for byte, or was followed by one
//! with at least its number. `make bench` prints how late.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Position};
use common::{
    ACK, Frame, Netns, Seg, Topology, Wire, alone, eventually, here_and_in_virtual_time, host, ip,
    link, ms, router, tc, time_is_virtual,
};

struct Testbed {
    receiver: Netns,
    router: Netns,
    sender: Netns,
}

const TOPOLOGY: Topology = Topology {
    nodes: &[host("receiver"), router("router"), host("sender")],
    links: &[
        link("receiver.awr", "router.awi"),
        link("sender.aws", "router.awo"),
    ],
};

/// Builds the network. The sender's side is shaped, so that packets are spaced as on a wire.
fn bed(rate: &str) -> Testbed {
    let [receiver, router, sender] = TOPOLOGY.build();
    sender.run(|| {
        ip("route change default via 10.9.2.2 rto_min 20s");
        // No tail loss probes (RFC 8985 §7).
        std::fs::write("/proc/sys/net/ipv4/tcp_early_retrans", "0").expect("sysctl");
        ip("link set aws gso_max_segs 1 gso_max_size 2000");
        tc(&format!(
            "qdisc add dev aws root tbf rate {rate} burst 3100 limit 200000"
        ));
    });
    Testbed {
        receiver,
        router,
        sender,
    }
}

/// The sender sends `bytes` at once, and then a little repeatedly, each time when everything before
/// is acknowledged. Only the datapath can let the last ACK of each leave: the sender retransmits
/// nothing for 20 s, and then the test fails.
fn transfer(bed: &Testbed, bytes: usize) {
    let listener = bed
        .receiver
        .run(|| TcpListener::bind("10.9.1.1:0").expect("listen"));
    let to = listener.local_addr().expect("an address");
    std::thread::scope(|s| {
        let reader = s.spawn(move || {
            let (mut c, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; 64 << 10];
            let mut total = 0;
            loop {
                match c.read(&mut buffer).expect("read") {
                    0 => return total,
                    n => total += n,
                }
            }
        });
        let c = bed.sender.run(|| TcpStream::connect(to).expect("connect"));
        // On failure, end at once rather than after the sender's timers.
        option(&c, libc::SOL_SOCKET, libc::SO_LINGER, &NO_LINGER);
        let send = |n: usize| {
            (&c).write_all(&vec![7; n]).expect("write");
            eventually("everything is acknowledged", || unacknowledged(&c) == 0);
            // On several CPUs a veth does not keep the order, and TCP takes that for loss.
            let again = info(&c, TOTAL_RETRANS);
            assert!(again == 0 || !time_is_virtual(), "{again} were sent again");
        };
        send(bytes);
        for _ in 0..BURSTS {
            send(BURST);
        }
        c.shutdown(std::net::Shutdown::Write).expect("shutdown");
        assert_eq!(reader.join().expect("reader"), bytes + BURSTS * BURST);
    });
}

/// struct linger { 1, 0 }
const NO_LINGER: [u8; 8] = if cfg!(target_endian = "big") {
    [0, 0, 0, 1, 0, 0, 0, 0]
} else {
    [1, 0, 0, 0, 0, 0, 0, 0]
};
const BURSTS: usize = 60;
const BURST: usize = 20_000;

/// Bytes in the send buffer: not sent, or not acknowledged.
fn unacknowledged(c: &TcpStream) -> i32 {
    let mut n = 0;
    // SAFETY: a pointer to an int, as this request expects.
    let r = unsafe { libc::ioctl(c.as_raw_fd(), libc::TIOCOUTQ, &raw mut n) };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    n
}

/// The offset of tcpi_total_retrans in TCP_INFO.
const TOTAL_RETRANS: usize = 100;

/// A word of TCP_INFO at an offset.
fn info(c: &TcpStream, at: usize) -> u32 {
    let mut info = [0_u8; 256];
    let mut len = 256_u32;
    // SAFETY: a valid buffer and its length.
    let r = unsafe {
        libc::getsockopt(
            c.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(r, 0);
    u32::from_ne_bytes(info[at..at + 4].try_into().expect("4 bytes"))
}

struct Seen {
    at: Duration,
    ack: u32,
    bytes: Vec<u8>,
}

/// The segments in the direction of the ACKs as they passed a wire, by ports. Forwarding changes
/// link addresses and the TTL, so the bytes start at TCP.
fn acks(frames: &[Frame]) -> HashMap<(u16, u16), Vec<Seen>> {
    let mut flows: HashMap<_, Vec<Seen>> = HashMap::new();
    for f in frames {
        let Some(s) = Seg::read(&f.bytes) else {
            continue;
        };
        if f.outgoing || f.bytes[26..30] != [10, 9, 1, 1] {
            continue;
        }
        let len = usize::from(u16::from_be_bytes([f.bytes[16], f.bytes[17]]));
        // The checksum of a veth frame is whatever the offload left; hold.rs tests it.
        let mut bytes = f.bytes[34..14 + len].to_vec();
        bytes[16..18].fill(0);
        flows.entry((s.sport, s.dport)).or_default().push(Seen {
            at: f.at,
            ack: s.ack,
            bytes,
        });
    }
    flows
}

/// What docs/contract.md says must leave, as far as this transfer can cause it. An ACK that
/// advances the number and only repeats SACK blocks of the one before may be withheld.
fn has_news(s: &common::Read, last: Option<&common::Read>) -> bool {
    let sacked = sack(s);
    let repeated = |block: &[u8]| {
        let left = u32::from_be_bytes(block[..4].try_into().expect("4 bytes"));
        let is_dsack = left.wrapping_sub(s.ack) as i32 <= 0;
        !is_dsack && last.is_some_and(|l| sack(l).chunks(8).any(|b| b == block))
    };
    s.flags != ACK
        || s.payload > 0
        || last.is_some_and(|l| l.ack == s.ack)
        || !sacked.chunks(8).all(repeated)
}

/// The SACK blocks, 8 bytes each, or none.
fn sack(s: &common::Read) -> &[u8] {
    const SACK: u8 = 5;
    // Linux writes timestamps in 12 bytes, followed by two NOPs and the blocks.
    match s.options.get(12..) {
        Some([1, 1, SACK, len, blocks @ ..]) => &blocks[..usize::from(*len) - 2],
        _ => &[],
    }
}

/// Parses the TCP header of what [`acks`] kept.
fn header(s: &Seen) -> common::Read {
    let mut f = vec![0; 12];
    f.extend([8, 0, 0x45, 0]);
    f.extend(((20 + s.bytes.len()) as u16).to_be_bytes());
    f.extend([0, 0, 0, 0, 64, 6]);
    f.resize(34, 0);
    f.extend(&s.bytes);
    Seg::read(&f).expect("TCP")
}

/// One flow before and after the router: nothing is invented, nothing leaves too often, and what
/// does not leave is followed by an ACK that says at least as much. Returns how many did not leave,
/// and how many left twice.
fn settle(ins: &[Seen], outs: &[Seen]) -> (u64, u64) {
    let count = |seen: &[Seen]| {
        let mut n = BTreeMap::<Vec<u8>, u64>::new();
        for s in seen {
            *n.entry(s.bytes.clone()).or_default() += 1;
        }
        n
    };
    let (arrived, left) = (count(ins), count(outs));
    let mut by_number = HashMap::<u32, u64>::new();
    for i in ins {
        *by_number.entry(i.ack).or_default() += 1;
    }
    let mut twice = 0;
    for (bytes, n) in &left {
        let before = *arrived.get(bytes).expect("left byte for byte as it came");
        let more = n.saturating_sub(before);
        twice += more;
        // Only a duplicate whose original is held may leave twice: see flow.h.
        let number = outs.iter().find(|o| o.bytes == *bytes).expect("it").ack;
        assert!(
            more == 0 || by_number[&number] > before,
            "{number} left {n} times"
        );
    }
    let (mut withheld, mut last) = (0, None);
    for i in ins {
        let seg = header(i);
        let itself = left.contains_key(&i.bytes);
        if has_news(&seg, last.as_ref()) {
            assert!(itself, "an ACK with news never left: {seg:?}");
        }
        last = Some(seg);
        if itself {
            continue;
        }
        withheld += 1;
        let newer = |o: &Seen| o.at >= i.at && i.ack.wrapping_sub(o.ack) as i32 <= 0;
        assert!(
            outs.iter().any(newer),
            "neither superseded nor sent: {last:?}"
        );
    }
    let last = ins.last().map(|i| &i.bytes);
    let itself = |o: &Seen| Some(&o.bytes) == last;
    assert!(outs.iter().any(itself), "the last word never left");
    if time_is_virtual() {
        assert!(outs.last().is_some_and(itself), "it was not the last");
    }
    (withheld, twice)
}

fn check_guarantee(policy: &str, rate: &str, bytes: usize, least: u64) {
    let _alone = alone();
    let bed = bed(rate);
    let before = bed.router.run(|| Wire::open("awi"));
    let after = bed.sender.run(|| Wire::open("aws"));
    let attachment = bed.router.run(|| {
        let mut o = Options::new("awo", policy.parse().expect("a policy"));
        o.position = Position::Router;
        o.hold_max = ms(10);
        o.hold_rtt_shift = 0;
        Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"))
    });
    transfer(&bed, bytes);
    let (mut went_in, mut came_out) = (before.drain(ms(60)), after.drain(ms(60)));
    // Detaching sends what is held.
    let stats = bed.router.run(|| attachment.detach()).expect("detach");
    went_in.extend(before.drain(ms(10)));
    came_out.extend(after.drain(ms(10)));
    eprintln!(
        "{policy}: {bytes} bytes; {} of {} ACKs withheld, {} re-emitted; {:?}",
        stats.withheld, stats.acks, stats.reemitted, stats.lateness
    );

    let (went_in, came_out) = (acks(&went_in), acks(&came_out));
    assert!(!went_in.is_empty());
    let (mut withheld, mut twice) = (0, 0);
    for (flow, ins) in &went_in {
        let (w, t) = settle(ins, &came_out[flow]);
        withheld += w;
        twice += t;
    }
    // What was seen on the wires matches the programs' counts: each withheld ACK was superseded, or
    // was re-emitted and so is on both wires.
    assert_eq!(withheld, stats.withheld - stats.reemitted, "{stats:#?}");
    assert_eq!(twice, stats.cloned, "{stats:#?}");
    if time_is_virtual() {
        // A busy machine may let everything pass, or delay a re-emission.
        assert!(stats.withheld >= least, "nothing was thinned: {stats:#?}");
        assert_eq!(stats.release.lost, 0);
    }
}

#[test]
fn each_withheld_ack_every_n() {
    here_and_in_virtual_time(|| check_guarantee("every-n:n=8", "30mbit", 12_000_000, 1000));
}

#[test]
fn each_withheld_ack_every_n_far() {
    here_and_in_virtual_time(|| check_guarantee("every-n:n=64", "10mbit", 4_000_000, 500));
}

#[test]
fn each_withheld_ack_adaptive() {
    // With its defaults it would let nearly all ACKs of this short path pass.
    here_and_in_virtual_time(|| {
        check_guarantee(
            "adaptive:start_segments=64,acks_per_rtt=2",
            "30mbit",
            12_000_000,
            1,
        );
    });
}

/// TCP_INFO's tcpi_snd_ssthresh and tcpi_snd_cwnd.
fn cwnd(c: &TcpStream) -> (u32, u32) {
    (info(c, 76), info(c, 80))
}

fn option(c: &TcpStream, level: i32, name: i32, value: &[u8]) {
    // SAFETY: a buffer and its length.
    let r = unsafe {
        libc::setsockopt(
            c.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as u32,
        )
    };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
}

/// A connection that sends in both directions, with ackwise on this host: withholding its ACKs must
/// not look like a local drop, which would shrink its own window.
#[test]
fn a_local_socket_takes_no_harm() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        two_way_with_and_without();
    });
}

fn two_way_with_and_without() {
    let run = |policy: Option<&str>| {
        let bed = bed("40mbit");
        let attachment = policy.map(|p| {
            bed.receiver.run(|| {
                let mut o = Options::new("awr", p.parse().expect("a policy"));
                o.hold_rtt_shift = 0;
                Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"))
            })
        });
        let listener = bed
            .receiver
            .run(|| TcpListener::bind("10.9.1.1:0").expect("listen"));
        let to = listener.local_addr().expect("an address");
        let far = bed.sender.run(|| TcpStream::connect(to).expect("connect"));
        let (near, _) = listener.accept().expect("a connection");
        // BBR, which may be the default here, does not react to a local drop.
        option(&near, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"reno");
        let stop = std::sync::atomic::AtomicBool::new(false);
        let pump = |mut c: TcpStream, pause: Duration| {
            let stop = &stop;
            move || {
                let mut sent = 0_usize;
                let chunk = vec![1; 16 << 10];
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    match c.write(&chunk) {
                        Ok(n) => sent += n,
                        Err(_) => break,
                    }
                    std::thread::sleep(pause);
                }
                let _ = c.shutdown(std::net::Shutdown::Write);
                sent
            }
        };
        let sink = |mut c: TcpStream| {
            move || {
                let mut buffer = vec![0; 64 << 10];
                let mut n = 0;
                while let Ok(k) = c.read(&mut buffer) {
                    if k == 0 {
                        break;
                    }
                    n += k;
                }
                n
            }
        };
        let clone = |c: &TcpStream| c.try_clone().expect("clone");
        let (up, info) = std::thread::scope(|s| {
            let up_sink = s.spawn(sink(clone(&far)));
            let down_sink = s.spawn(sink(clone(&near)));
            s.spawn(pump(clone(&far), Duration::ZERO));
            // An upload with pauses, during which pure ACKs answer the download.
            s.spawn(pump(clone(&near), ms(8)));
            std::thread::sleep(ms(2000));
            let info = cwnd(&near);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            down_sink.join().expect("sink");
            (up_sink.join().expect("sink"), info)
        });
        let stats = attachment.map(|a| bed.receiver.run(|| a.detach()).expect("detach"));
        (up, info, stats)
    };
    let (plain, plain_info, _) = run(None);
    let (thinned, info, stats) = run(Some("every-n:n=8"));
    let stats = stats.expect("attached");
    eprintln!(
        "upload {plain} → {thinned} bytes; (ssthresh, cwnd) {plain_info:?} → {info:?}; \
        withheld {} of {}",
        stats.withheld, stats.acks
    );
    assert!(stats.withheld > 0, "{stats:#?}");
    if !time_is_virtual() {
        // A busy machine reorders, which also shrinks a window.
        return;
    }
    assert!(stats.withheld > 200, "{stats:#?}");
    assert!(
        info.0 >= 100 || info.0 >= plain_info.0,
        "a local drop was noticed: ssthresh {}",
        info.0
    );
}

/// The oracle of [`settle`] recognises a repeated SACK block.
#[test]
fn a_repeated_block_is_no_news() {
    let ack = |number: u32, blocks: &[[u32; 2]]| {
        let mut options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            options.extend(blocks.iter().flatten().flat_map(|e| e.to_be_bytes()));
        }
        common::Read {
            sport: 1,
            dport: 2,
            seq: 1,
            ack: number,
            flags: ACK,
            window: 100,
            options,
            payload: 0,
        }
    };
    let hole = ack(1000, &[[3000, 4000]]);
    assert!(has_news(&hole, Some(&ack(900, &[]))));
    assert!(!has_news(&ack(2000, &[[3000, 4000]]), Some(&hole)));
    assert!(has_news(&ack(1000, &[[3000, 4000]]), Some(&hole)));
    assert!(has_news(&ack(2000, &[[3000, 5000]]), Some(&hole)));
    let dsack = ack(2000, &[[1000, 2000], [3000, 4000]]);
    assert!(has_news(&dsack, Some(&dsack)));
    assert!(!has_news(&ack(5000, &[]), Some(&hole)));
}
