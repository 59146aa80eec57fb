//! The contract's first rule, by capture: on real TCP connections through a
//! router, every ACK that went into the router either came out byte for byte
//! within D, or a later ACK with at least its number came out within D.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ackwise_datapath::{Attachment, Options, Position};
use common::{ACK, FIN, Frame, Netns, RST, SYN, Seg, Wire, alone, ip, ms, tc};

struct Bed {
    receiver: Netns,
    router: Netns,
    sender: Netns,
}

/// receiver awr ── awi router awo ── aws sender; the sender's side is shaped, so
/// that packets come spaced, as from a wire.
fn bed(rate: &str) -> Bed {
    let (receiver, router, sender) = (Netns::new(), Netns::new(), Netns::new());
    receiver.veth("awr", &router, "awi");
    router.veth("awo", &sender, "aws");
    receiver.run(|| {
        ip("addr add 10.77.1.1/24 dev awr");
        ip("route add default via 10.77.1.2");
    });
    router.run(|| {
        ip("addr add 10.77.1.2/24 dev awi");
        ip("addr add 10.77.2.2/24 dev awo");
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("sysctl");
    });
    sender.run(|| {
        ip("addr add 10.77.2.1/24 dev aws");
        ip("route add default via 10.77.2.2");
        ip("link set aws gso_max_segs 1 gso_max_size 2000");
        tc(&format!(
            "qdisc add dev aws root tbf rate {rate} burst 3100 limit 200000"
        ));
    });
    Bed {
        receiver,
        router,
        sender,
    }
}

/// The sender sends `bytes`; how long that took.
fn transfer(bed: &Bed, bytes: usize) -> Duration {
    let listener = bed
        .receiver
        .run(|| TcpListener::bind("10.77.1.1:0").expect("listen"));
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
        let begin = Instant::now();
        let mut c = bed.sender.run(|| TcpStream::connect(to).expect("connect"));
        c.write_all(&vec![7; bytes]).expect("write");
        drop(c);
        assert_eq!(reader.join().expect("reader"), bytes);
        begin.elapsed()
    })
}

struct Seen {
    at: Duration,
    ack: u32,
    bytes: Vec<u8>,
}

/// By receiver's port: the ACK direction's segments, as they passed a wire.
/// Forwarding changes addresses of the link and the TTL, so from TCP on.
fn acks(frames: &[Frame]) -> HashMap<(u16, u16), Vec<Seen>> {
    let mut flows: HashMap<_, Vec<Seen>> = HashMap::new();
    for f in frames {
        let Some(s) = Seg::read(&f.bytes) else {
            continue;
        };
        if f.outgoing || f.bytes[26..30] != [10, 77, 1, 1] {
            continue;
        }
        let len = usize::from(u16::from_be_bytes([f.bytes[16], f.bytes[17]]));
        // The checksum of a veth frame is whatever offload left; see hold.rs for it.
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

fn has_news(s: &common::Read, last: Option<&common::Read>) -> bool {
    s.flags & (SYN | FIN | RST) != 0
        || s.flags != ACK
        || s.payload > 0
        || s.options.len() > 12
        || last.is_some_and(|l| l.ack == s.ack)
}

fn prove(policy: &str, rate: &str, bytes: usize, least: u64) {
    let _alone = alone();
    let bed = bed(rate);
    let hold = ms(10);
    let before = bed.router.run(|| Wire::open("awi"));
    let after = bed.sender.run(|| Wire::open("aws"));
    let attachment = bed.router.run(|| {
        let mut o = Options::new("awo", policy.parse().expect("a policy"));
        o.position = Position::Router;
        o.hold_max = hold;
        o.hold_rtt_shift = 0;
        Attachment::attach(o).unwrap_or_else(|e| panic!("{e}"))
    });
    let took = transfer(&bed, bytes);
    let (went_in, came_out) = (before.drain(ms(60)), after.drain(ms(60)));
    let stats = bed.router.run(|| attachment.detach()).expect("detach");
    eprintln!(
        "{policy}: {bytes} bytes in {took:?}; {} of {} ACKs withheld, {} re-emitted; {:?}",
        stats.withheld, stats.acks, stats.reemitted, stats.lateness
    );

    let (went_in, came_out) = (acks(&went_in), acks(&came_out));
    assert!(!went_in.is_empty());
    let mut withheld = 0_u64;
    let mut over = Vec::new();
    for (flow, ins) in &went_in {
        let outs = &came_out[flow];
        let mut left: BTreeMap<&[u8], Vec<Duration>> = BTreeMap::new();
        for o in outs {
            left.entry(&o.bytes).or_default().push(o.at);
        }
        let mut last = None;
        for i in ins {
            let seg = {
                let mut f = vec![0; 12];
                f.extend([8, 0, 0x45, 0]);
                f.extend(((20 + i.bytes.len()) as u16).to_be_bytes());
                f.extend([0, 0, 0, 0, 64, 6]);
                f.resize(34, 0);
                f.extend(&i.bytes);
                Seg::read(&f).expect("TCP")
            };
            let itself = left
                .get(i.bytes.as_slice())
                .and_then(|at| at.first().copied());
            let at_once =
                itself.is_some_and(|at| at.saturating_sub(i.at) < Duration::from_micros(900));
            if has_news(&seg, last.as_ref()) {
                assert!(itself.is_some(), "an ACK with news never left: {seg:?}");
            }
            last = Some(seg);
            if at_once {
                continue;
            }
            withheld += 1;
            let newer = outs
                .iter()
                .filter(|o| o.at >= i.at && i.ack.wrapping_sub(o.ack) as i32 <= 0)
                .map(|o| o.at)
                .min();
            let settled = newer.expect("a withheld ACK was neither superseded nor sent");
            over.push(settled.saturating_sub(i.at).saturating_sub(hold));
        }
        assert_eq!(
            outs.last().map(|o| &o.bytes),
            ins.last().map(|i| &i.bytes),
            "the last word"
        );
    }
    over.sort();
    assert!(stats.withheld >= least, "nothing was thinned: {stats:#?}");
    assert!(
        withheld >= stats.withheld / 2,
        "the capture missed the thinning: {withheld}"
    );
    let p99 = over[over.len() * 99 / 100];
    eprintln!(
        "  {withheld} settled; beyond D: p50 {:?}, p99 {p99:?}",
        over[over.len() / 2]
    );
    // 0.2 and 5 ms are for an idle machine; `make bench` prints them.
    assert!(over[over.len() / 2] <= ms(2), "{over:?}");
    assert!(p99 <= ms(50), "{p99:?}");
    assert_eq!(stats.release.lost, 0);
}

#[test]
fn each_withheld_ack_every_n() {
    prove("every-n:n=8", "30mbit", 12_000_000, 1000);
}

#[test]
fn each_withheld_ack_every_n_far() {
    prove("every-n:n=64", "10mbit", 4_000_000, 500);
}

#[test]
fn each_withheld_ack_adaptive() {
    // Its usual start is longer than what is withheld of this path without distance.
    prove("adaptive:start_segments=64", "30mbit", 12_000_000, 20);
}

/// TCP_INFO's tcpi_snd_ssthresh and tcpi_snd_cwnd.
fn cwnd(c: &TcpStream) -> (u32, u32) {
    use std::os::fd::AsRawFd;
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
    let word = |i: usize| u32::from_ne_bytes(info[i..i + 4].try_into().expect("4 bytes"));
    (word(76), word(80))
}

/// BBR, which may be the default here, does not answer a local drop; reno does.
fn use_reno(c: &TcpStream) {
    use std::os::fd::AsRawFd;
    let name = b"reno";
    // SAFETY: a valid buffer and its length.
    let r = unsafe {
        libc::setsockopt(
            c.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
}

/// A connection that sends both ways, with ackwise at this host: withholding its
/// ACKs must not look like a local drop, which would shrink its own window.
#[test]
fn a_local_socket_takes_no_harm() {
    let _alone = alone();
    let run = |policy: Option<&str>| {
        let bed = bed("40mbit");
        let attachment = policy.map(|p| {
            bed.receiver.run(|| {
                let mut o = Options::new("awr", p.parse().expect("a policy"));
                o.hold_rtt_shift = 0;
                Attachment::attach(o).unwrap_or_else(|e| panic!("{e}"))
            })
        });
        let listener = bed
            .receiver
            .run(|| TcpListener::bind("10.77.1.1:0").expect("listen"));
        let to = listener.local_addr().expect("an address");
        let far = bed.sender.run(|| TcpStream::connect(to).expect("connect"));
        let (near, _) = listener.accept().expect("a connection");
        use_reno(&near);
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
            // An upload with pauses, in which pure ACKs answer the download.
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
    assert!(stats.withheld > 200, "{stats:#?}");
    assert!(
        info.0 >= 100 || info.0 >= plain_info.0,
        "a local drop was noticed: ssthresh {}",
        info.0
    );
    assert!(
        thinned * 10 >= plain * 8,
        "upload fell from {plain} to {thinned}"
    );
}
