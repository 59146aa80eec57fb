//! A sender, a queue that marks, and a receiver with the datapath; afterwards, what the ends say
//! about marks.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Stats};
use ackwise_testbed::{Netns, Topology, host, link, packet_socket, router, run_command};

/// Size of the transfer, bytes.
pub const BYTES: u64 = 20_000_000;
/// Payload of a full segment with timestamps, bytes.
pub const SEGMENT: u32 = 1448;
/// Port of the receiver.
const PORT: u16 = 5001;
/// The receiver's address, on the second link of [`TOPOLOGY`].
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 9, 2, 2);

const TOPOLOGY: Topology = Topology {
    nodes: &[host("sender"), router("queue"), host("receiver")],
    links: &[
        link("sender.lan0", "queue.lan1"),
        link("queue.wan0", "receiver.wan1"),
    ],
};

/// The queue that marks, behind 20 Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Occasional single marks.
    Red,
    /// Marks every packet that waited for longer than 8 ms: runs of marks.
    Threshold,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// `tcp_ecn` of the sender.
    pub asks: u8,
    /// `tcp_ecn` of the receiver.
    pub grants: u8,
    /// `tcp_ecn_option` of both.
    pub option: u8,
    /// The queue on the path of the data.
    pub queue: Queue,
    /// One-way delay of data and of ACKs, ms.
    pub delay: u8,
    /// Share of the data packets that is lost before the queue, per cent.
    pub loss: f64,
    /// `tcp_congestion_control` of the sender.
    pub congestion: &'static str,
    /// The receiver's policy.
    pub policy: Option<&'static str>,
}

impl Default for Case {
    /// AccECN with all counters in every ACK, and `adaptive`.
    fn default() -> Self {
        Self {
            asks: 3,
            grants: 3,
            option: 2,
            queue: Queue::Red,
            delay: 10,
            loss: 0.0,
            congestion: "cubic",
            policy: Some("adaptive"),
        }
    }
}

/// `tcpi_ecn_mode` of `include/uapi/linux/tcp.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Disabled,
    Rfc3168,
    AccEcn,
    Pending,
}

/// Packets and bytes by their mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Packets with CE.
    pub ce: u32,
    /// Payload of packets with CE, bytes.
    pub ce_bytes: u32,
    /// Payload with ECT(0), bytes.
    pub e0_bytes: u32,
    /// Payload with ECT(1), bytes.
    pub e1_bytes: u32,
}

/// The ECN information in `TCP_INFO` of Linux 7.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    pub mode: Mode,
    /// The sender's estimate of what was delivered.
    pub delivered: Marks,
    /// What the receiver received.
    pub received: Marks,
    /// Bytes that are not acknowledged, or not even sent.
    outstanding: u32,
    /// Retransmitted segments.
    pub retransmits: u32,
}

impl Info {
    fn of(socket: &TcpStream) -> Self {
        let mut bytes = [0_u8; 512];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: both pointers are live, and the length is that of the buffer.
        let r = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
        assert!(length >= 280, "TCP_INFO has no AccECN: {length} bytes");
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a word"));
        let marks = |ce: usize, bytes: usize| Marks {
            ce: word(ce),
            e1_bytes: word(bytes),
            e0_bytes: word(bytes + 4),
            ce_bytes: word(bytes + 8),
        };
        Self {
            mode: [Mode::Disabled, Mode::Rfc3168, Mode::AccEcn, Mode::Pending]
                [(word(276) & 3) as usize],
            delivered: marks(196, 252),
            received: marks(248, 264),
            outstanding: word(24) + word(144),
            retransmits: word(100),
        }
    }
}

/// Pure ACKs that arrived at the sender, by their AccECN option.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acks {
    /// ACKs without the option.
    pub without: u64,
    /// ACKs with the option, by its number of counters.
    pub counters: [u64; 4],
    /// The largest number of bytes acknowledged by one ACK without a counter of CE-marked bytes.
    pub widest: u32,
    /// The newest acknowledgment number.
    newest: Option<u32>,
}

impl Acks {
    pub fn all(&self) -> u64 {
        self.without + self.counters.iter().sum::<u64>()
    }

    /// Counts a frame if it is a pure ACK of the receiver.
    fn count(&mut self, frame: &[u8]) {
        // The length of a header is in 32-bit words.
        let header = |at: usize, words: u8| at + usize::from(words) * 4;
        if frame.get(12..14) != Some(&[8, 0]) || frame[23] != 6 {
            return;
        }
        let tcp = header(14, frame[14] & 15);
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let options = tcp + 20..header(tcp, frame[tcp + 12] >> 4);
        let from = u16::from_be_bytes([frame[tcp], frame[tcp + 1]]);
        // Without payload, and neither SYN nor FIN nor RST.
        if from != PORT || end > options.end || frame[tcp + 13] & 7 != 0 {
            return;
        }
        let number = tcp + 8..tcp + 12;
        let number = u32::from_be_bytes(frame[number].try_into().expect("a word"));
        let step = number.wrapping_sub(self.newest.unwrap_or(number));
        // Half of the number space is older numbers.
        let step = if step < 1 << 31 { step } else { 0 };
        self.newest = Some(
            self.newest
                .map_or(number, |newest| newest.wrapping_add(step)),
        );

        let counters = counters_of(&frame[options]);
        match counters {
            None => self.without += 1,
            Some(counters) => self.counters[counters] += 1,
        }
        // The second counter is that of CE-marked bytes.
        if counters.is_none_or(|counters| counters < 2) {
            self.widest = self.widest.max(step);
        }
    }
}

/// The number of counters in the AccECN option among these TCP options; `None` without the option.
fn counters_of(mut rest: &[u8]) -> Option<usize> {
    while let Some((&kind, after)) = rest.split_first() {
        match kind {
            0 => break,
            1 => rest = after,
            _ => {
                let length = usize::from(after[0]);
                if matches!(kind, 172 | 174) {
                    return Some((length - 2) / 3);
                }
                rest = &rest[length..];
            }
        }
    }
    None
}

/// The results of a transfer.
#[derive(Debug)]
pub struct Ran {
    pub sender: Info,
    pub receiver: Info,
    /// Packets that the queue marked.
    pub marked: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    pub acks: Acks,
    pub stats: Option<Stats>,
}

impl Ran {
    /// The case and its figures.
    fn line(&self, case: &Case) -> String {
        let Case {
            asks,
            grants,
            option,
            queue,
            loss,
            congestion,
            policy,
            ..
        } = case;
        let policy = policy.unwrap_or("no policy");
        format!(
            "tcp_ecn {asks} to {grants}, option {option}, {queue:?}, {loss} % lost, {congestion}, {policy}: \
             {} packets marked, {} counted; {} ACKs, {} without option, by counters {:?}, widest {}",
            self.marked,
            self.sender.delivered.ce,
            self.acks.all(),
            self.acks.without,
            self.acks.counters,
            self.acks.widest,
        )
    }
}

/// Sends [`BYTES`] over the network of a case.
pub fn run(case: &Case) -> Ran {
    let [sender, queue, receiver] = TOPOLOGY.build();
    // In another namespace, only controls in this list can be chosen.
    sysctl("tcp_allowed_congestion_control", "reno cubic dctcp");
    // The queue would also count and drop packets that IPv6 sends by itself.
    queue.run(|| sysctl("../ipv6/conf/wan0/disable_ipv6", "1"));
    for (node, ecn) in [(&sender, case.asks), (&receiver, case.grants)] {
        node.run(|| {
            sysctl("tcp_ecn", &ecn.to_string());
            sysctl("tcp_ecn_option", &case.option.to_string());
            sysctl("tcp_congestion_control", case.congestion);
        });
    }
    sender.run(|| {
        run_command("ethtool", "-K lan0 tso off gso off gro off");
        let loss = format!(
            "qdisc add dev lan0 root netem delay {}ms limit 10000 loss {}%",
            case.delay, case.loss
        );
        run_command("tc", &loss);
    });
    queue.run(|| {
        run_command("ethtool", "-K lan1 tso off gso off gro off");
        run_command("ethtool", "-K wan0 tso off gso off gro off");
        let delay = format!(
            "qdisc add dev lan1 root netem delay {}ms limit 10000",
            case.delay
        );
        run_command("tc", &delay);
        set_up_queue(case.queue);
    });
    receiver.run(|| run_command("ethtool", "-K wan1 tso off gso off gro off"));

    let datapath = case.policy.map(|policy| {
        let policy = policy.parse().unwrap_or_else(|error| panic!("{error}"));
        receiver.run(|| {
            Datapath::attach(Options::new("wan1", policy)).unwrap_or_else(|error| panic!("{error}"))
        })
    });
    let (ends, acks) = transfer(&sender, &queue, &receiver);
    let stats = datapath.map(|datapath| {
        receiver.run(|| datapath.detach().unwrap_or_else(|error| panic!("{error}")))
    });
    let (marked, dropped) = queue.run(|| marks_of(case.queue));
    let ran = Ran {
        sender: ends[0],
        receiver: ends[1],
        marked,
        dropped,
        acks,
        stats,
    };
    println!("{}", ran.line(case));
    ran
}

/// The state of both ends when everything is acknowledged, and the ACKs that arrived at the sender.
fn transfer(sender: &Netns, queue: &Netns, receiver: &Netns) -> ([Info; 2], Acks) {
    let listener = receiver.run(|| TcpListener::bind((RECEIVER, PORT)).expect("a port"));
    let tap = queue.run(|| packet_socket("wan0"));
    deepen(&tap);
    let stop = AtomicBool::new(false);
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(&tap, &stop));
        let receiving = scope.spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            receive(&mut socket);
            finished.recv().expect("the sender ends");
            Info::of(&socket)
        });
        let address = SocketAddr::from((RECEIVER, PORT));
        let mut socket = sender.run(|| TcpStream::connect(address).expect("a connection"));
        send(&mut socket);
        let sent = Info::of(&socket);
        done.send(()).expect("the receiver waits");
        let received = receiving.join().expect("the receiver");
        stop.store(true, Ordering::Relaxed);
        ([sent, received], counting.join().expect("the counter"))
    })
}

/// Byte `at` of the transfer; no two segments are alike.
fn content(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Sends everything, and waits until it is acknowledged and no ACK is held any more.
fn send(socket: &mut TcpStream) {
    let block: u64 = 64_000;
    for start in (0..BYTES).step_by(block as usize) {
        let end = BYTES.min(start + block);
        let bytes: Vec<u8> = (start..end).map(content).collect();
        socket.write_all(&bytes).expect("it is sent");
    }
    while Info::of(socket).outstanding > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
}

fn receive(socket: &mut TcpStream) {
    let mut buffer = vec![0; 64_000];
    let mut at = 0;
    while at < BYTES {
        let length = socket.read(&mut buffer).expect("data");
        assert!(length > 0, "the stream ended after {at} bytes");
        for byte in &buffer[..length] {
            assert_eq!(*byte, content(at), "byte {at}");
            at += 1;
        }
    }
    assert_eq!(at, BYTES);
}

/// Counts ACKs until told to stop.
fn count(tap: &OwnedFd, stop: &AtomicBool) -> Acks {
    let mut acks = Acks::default();
    let mut frame = [0_u8; 2048];
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: the buffer is live and its length is its own.
        let length =
            unsafe { libc::recv(tap.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        if let Ok(length) = usize::try_from(length) {
            acks.count(&frame[..length]);
        }
    }
    acks
}

/// Enlarges the buffer for frames that arrive while nobody reads.
fn deepen(socket: &OwnedFd) {
    nix::sys::socket::setsockopt(
        &socket.as_fd(),
        nix::sys::socket::sockopt::RcvBufForce,
        &(64 << 20),
    )
    .expect("a receive buffer");
}

fn sysctl(name: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path} = {value}: {error}"));
}

/// Sets up the queue; the caller must be in its namespace.
fn set_up_queue(queue: Queue) {
    run_command(
        "tc",
        "qdisc add dev wan0 root handle 1: tbf rate 20mbit burst 1600 limit 1000000",
    );
    let marking = match queue {
        Queue::Red => {
            "red limit 1000000 min 8000 max 24000 avpkt 1500 burst 15 bandwidth 20mbit \
             probability 1.0 ecn"
        }
        Queue::Threshold => "fq_codel limit 1000 target 500ms interval 1s ce_threshold 8ms ecn",
    };
    run_command(
        "tc",
        &format!("qdisc add dev wan0 parent 1:1 handle 10: {marking}"),
    );
}

/// Packets that the queue marked, and packets that it dropped.
fn marks_of(queue: Queue) -> (u64, u64) {
    let text = run_command("tc", "-s -j qdisc show dev wan0");
    let disciplines: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let number = |discipline: &serde_json::Value, key: &str| {
        discipline[key]
            .as_u64()
            .unwrap_or_else(|| panic!("no {key}: {text}"))
    };
    let all = disciplines.as_array().expect("a list");
    let marking = all
        .iter()
        .find(|one| one["handle"] == "10:")
        .unwrap_or_else(|| panic!("no 10: in {text}"));
    let marked = match queue {
        Queue::Red => number(marking, "marked"),
        Queue::Threshold => number(marking, "ecn_mark") + number(marking, "ce_mark"),
    };
    (marked, all.iter().map(|one| number(one, "drops")).sum())
}
