//! Namespaces without names (they end with the last descriptor), hand-made segments, and captures
//! with timestamps.
#![allow(dead_code)]

pub mod cgroup;
pub mod peer;
pub mod transfer;

use std::fs::File;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use ackwise_datapath::{Datapath, Options, Stats};
use ackwise_headers::{checksum, protocol};
use ackwise_netdev::create_tun;
use ackwise_netdev::ifreq::{self, index_of};
use ackwise_netdev::packet_socket::{self, Destination, Layer, Receives};
use ackwise_netdev::sockopt::set_int;
use ackwise_policy::LinkKind;
pub use ackwise_testbed::*;
use nix::sys::socket::MsgFlags;

pub fn attach(o: Options) -> Datapath {
    Datapath::attach(o).unwrap_or_else(|e| panic!("{e}"))
}

pub fn stats(a: &Datapath) -> Stats {
    a.stats().unwrap_or_else(|e| panic!("{e}"))
}

pub fn started(near: &Wire, far: &Wire, like: Seg) -> Flow {
    let flow = Flow::start(near, far, like);
    far.drain(ms(20));
    flow
}

pub fn tc(args: &str) {
    run_command("tc", args);
}

pub fn output(name: &str, args: &str) -> String {
    let out = Command::new(name)
        .args(args.split_whitespace())
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Sends and captures on one interface of the calling thread's namespace.
pub struct Wire {
    fd: OwnedFd,
    index: u32,
}

#[derive(Clone)]
pub struct Frame {
    pub at: Duration,
    pub outgoing: bool,
    /// The tag that the kernel removed from the frame, if there was one.
    pub tag: Option<u16>,
    pub bytes: Vec<u8>,
}

impl Wire {
    pub fn open(ifname: &str) -> Self {
        let index = index_of(ifname).unwrap_or_else(|| panic!("no {ifname}"));
        let fd = packet_socket::open(Layer::Link).expect("a packet socket");
        for (level, option, value) in [
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20),
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
        ] {
            set_int(&fd, level, option, value).expect("an option");
        }
        packet_socket::bind(&fd, Some(index), Receives::All).expect("a bound packet socket");
        Self { fd, index }
    }

    pub fn mark(&self, mark: u32) {
        set_int(&self.fd, libc::SOL_SOCKET, libc::SO_MARK, mark as i32).expect("a mark");
    }

    /// Sends a frame and returns when.
    pub fn send(&self, frame: &[u8]) -> Duration {
        self.send_as(frame, u16::from_ne_bytes([frame[12], frame[13]]))
    }

    /// Sends with the given protocol, for links without a header.
    pub fn send_as(&self, frame: &[u8], protocol: u16) -> Duration {
        let at = realtime();
        let to = Destination {
            interface: self.index,
            protocol,
        };
        packet_socket::send(&self.fd, to, frame, None, MsgFlags::empty()).expect("sent");
        at
    }

    /// Returns everything that arrives within the time.
    pub fn drain(&self, how_long: Duration) -> Vec<Frame> {
        let until = Instant::now() + how_long;
        let mut frames = Vec::new();
        loop {
            match self.next() {
                Some(f) => frames.push(f),
                None if Instant::now() >= until => return frames,
                None => std::thread::sleep(Duration::from_micros(300)),
            }
        }
    }

    /// Returns TCP frames that arrived from the other side.
    pub fn tcp(&self, how_long: Duration) -> Vec<Frame> {
        let mut frames = self.drain(how_long);
        frames.retain(|f| !f.outgoing && Seg::read(&f.bytes).is_some());
        frames
    }

    /// Returns TCP frames from the other side once there are this many, however slow the machine
    /// is. Further frames are left for the next call.
    pub fn expect(&self, n: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        eventually(&format!("{n} frames come"), || {
            while frames.len() < n {
                match self.next() {
                    Some(f) if !f.outgoing && Seg::read(&f.bytes).is_some() => frames.push(f),
                    Some(_) => {}
                    None => return false,
                }
            }
            true
        });
        frames
    }

    /// Returns TCP frames from the other side, up to and including this one.
    pub fn expect_up_to(&self, last: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.last().is_none_or(|f: &Frame| f.bytes != last) {
            frames.extend(self.expect(1));
        }
        frames
    }

    fn next(&self) -> Option<Frame> {
        let mut bytes = vec![0_u8; 66_000];
        let mut control = [0_u64; 16];
        // SAFETY: all pointers are valid for the call; the control buffer is aligned.
        unsafe {
            let mut from: libc::sockaddr_ll = zeroed();
            let mut part = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            let mut m: libc::msghdr = zeroed();
            m.msg_name = (&raw mut from).cast();
            m.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            m.msg_iov = &raw mut part;
            m.msg_iovlen = 1;
            m.msg_control = control.as_mut_ptr().cast();
            m.msg_controllen = size_of::<[u64; 16]>();
            let n = libc::recvmsg(self.fd.as_raw_fd(), &raw mut m, libc::MSG_DONTWAIT);
            if n < 0 {
                return None;
            }
            bytes.truncate(n as usize);
            let mut at = realtime();
            let mut c = libc::CMSG_FIRSTHDR(&raw const m);
            let mut tag = None;
            while !c.is_null() {
                if (*c).cmsg_level == libc::SOL_PACKET && (*c).cmsg_type == libc::PACKET_AUXDATA {
                    let aux = libc::CMSG_DATA(c)
                        .cast::<libc::tpacket_auxdata>()
                        .read_unaligned();
                    if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        tag = Some(aux.tp_vlan_tci);
                    }
                } else if (*c).cmsg_type == libc::SCM_TIMESTAMPNS {
                    let t = libc::CMSG_DATA(c).cast::<libc::timespec>().read_unaligned();
                    at = Duration::new(t.tv_sec as u64, t.tv_nsec as u32);
                }
                c = libc::CMSG_NXTHDR(&raw const m, c);
            }
            let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
            Some(Frame {
                at,
                outgoing,
                tag,
                bytes,
            })
        }
    }
}

pub fn realtime() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
}

/// A TCP segment to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seg {
    pub v6: bool,
    /// Whether it is from the data receiver rather than the data sender.
    pub acks: bool,
    pub port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: usize,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

impl Seg {
    pub fn ack(ack: u32) -> Self {
        Self {
            v6: false,
            acks: true,
            port: 4000,
            seq: 1,
            ack,
            flags: ACK,
            window: 1000,
            options: Vec::new(),
            payload: 0,
        }
    }

    pub fn data(seq: u32, payload: usize) -> Self {
        Self {
            acks: false,
            seq,
            ack: 1,
            payload,
            ..Self::ack(1)
        }
    }

    pub fn frame(&self) -> Vec<u8> {
        // Addresses that are not in use: no stack answers. 02:..:01 is the side of the ACKs.
        let (me, you) = if self.acks { (1, 2) } else { (2, 1) };
        let mut f = vec![2, 0, 0, 0, 0, 0x10 + you, 2, 0, 0, 0, 0, 0x10 + me];
        let tcp_len = 20 + self.options.len() + self.payload;
        let mut addresses = Vec::new();
        if self.v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend((tcp_len as u16).to_be_bytes());
            f.extend([6, 64]);
            for n in [me, you] {
                let mut a = [0_u8; 16];
                a[0] = 0xfd;
                a[1] = 0x77;
                a[15] = n;
                addresses.extend(a);
            }
            f.extend(&addresses);
        } else {
            f.extend([8, 0]);
            let at = f.len();
            f.extend([0x45, 0]);
            f.extend(((20 + tcp_len) as u16).to_be_bytes());
            f.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            addresses.extend([198, 18, 0, me, 198, 18, 0, you]);
            f.extend(&addresses);
            let sum = checksum::of(&f[at..]);
            f[at + 10..at + 12].copy_from_slice(&sum);
        }
        let at = f.len();
        let (from, to) = if self.acks {
            (self.port, 80)
        } else {
            (80, self.port)
        };
        f.extend(from.to_be_bytes());
        f.extend(to.to_be_bytes());
        f.extend(self.seq.to_be_bytes());
        f.extend(self.ack.to_be_bytes());
        assert_eq!(self.options.len() % 4, 0);
        f.extend([((5 + self.options.len() / 4) << 4) as u8, self.flags]);
        f.extend(self.window.to_be_bytes());
        f.extend([0; 4]);
        f.extend(&self.options);
        f.resize(f.len() + self.payload, 0x5a);
        let c = checksum::of_segment(&addresses, protocol::TCP, &f[at..]);
        f[at + 16..at + 18].copy_from_slice(&c);
        f
    }

    /// (ports, seq, ack, flags, payload) of a frame, if it is TCP.
    pub fn read(f: &[u8]) -> Option<Read> {
        let (l4, end) = match f.get(12..14)? {
            [8, 0] if f.get(23) == Some(&6) => {
                let ihl = usize::from(f[14] & 15) * 4;
                (
                    14 + ihl,
                    14 + usize::from(u16::from_be_bytes([f[16], f[17]])),
                )
            }
            [0x86, 0xdd] if f.get(20) == Some(&6) => {
                (54, 54 + usize::from(u16::from_be_bytes([f[18], f[19]])))
            }
            _ => return None,
        };
        let t = f.get(l4..)?;
        let n = |a: usize| u32::from_be_bytes([t[a], t[a + 1], t[a + 2], t[a + 3]]);
        let header = usize::from(t.get(12)? >> 4) * 4;
        Some(Read {
            sport: u16::from_be_bytes([t[0], t[1]]),
            dport: u16::from_be_bytes([t[2], t[3]]),
            seq: n(4),
            ack: n(8),
            flags: t[13],
            window: u16::from_be_bytes([t[14], t[15]]),
            options: t.get(20..header)?.to_vec(),
            payload: end.saturating_sub(l4 + header),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub sport: u16,
    pub dport: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: usize,
}

/// A link on which only the test sends.
const PAIR: Topology = Topology {
    nodes: &[host("near"), host("far")],
    links: &[link("near.aw0", "far.aw1").without_addresses()],
};

/// The frame with an 802.1Q tag inside.
pub fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut f = frame[..12].to_vec();
    f.extend([0x81, 0]);
    f.extend(vlan.to_be_bytes());
    f.extend(&frame[12..]);
    f
}

/// Two namespaces: `aw0` (the side of the ACKs, where ackwise attaches) and `aw1`.
pub struct Pair {
    pub near: Netns,
    pub far: Netns,
}

impl Pair {
    pub fn new() -> Self {
        let [near, far] = PAIR.build();
        Self { near, far }
    }

    /// Runs `f` in the near namespace, with wires at both ends.
    pub fn run<T: Send>(&self, f: impl FnOnce(&Wire, &Wire) -> T + Send) -> T {
        let far = self.far.run(|| Wire::open("aw1"));
        self.near.run(|| {
            let near = Wire::open("aw0");
            f(&near, &far)
        })
    }
}

/// Runs `f` at a data sender. `near` sends data through `aw0`, and receives their ACKs there. It
/// forwards the ACKs to a third namespace, so that what came back in is on a wire, the last
/// argument of `f`.
pub fn at_a_sender<T: Send>(f: impl FnOnce(&Wire, &Wire, &Wire) -> T + Send) -> T {
    let pair = Pair::new();
    let third = Netns::new();
    pair.near.wire("aw2", &third, "aw3");
    let out = third.run(|| Wire::open("aw3"));
    pair.run(|near, far| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("sysctl");
        for c in ["all", "aw0", "aw2"] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{c}/rp_filter"), "0").expect("sysctl");
        }
        ip("link set aw0 address 02:00:00:00:00:12");
        ip("addr add 198.19.0.1/24 dev aw2");
        ip("neigh add 198.19.0.9 lladdr 02:00:00:00:00:99 dev aw2");
        ip("route add 198.18.0.2/32 via 198.19.0.9");
        ip("route add 198.18.0.1/32 dev aw0");
        f(near, far, &out)
    })
}

/// A flow that has started: MSS 1000, everything up to `next` acknowledged.
pub struct Flow {
    pub next: u32,
    pub like: Seg,
}

impl Flow {
    pub fn start(near: &Wire, far: &Wire, like: Seg) -> Self {
        let mut flow = Self { next: 1000, like };
        for _ in 0..16 {
            flow.step(near, far);
            // Longer than any hold, so that the warm-up leaves nothing behind.
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(30));
        flow
    }

    /// After a pause the ACKs of ten segments pass, as at a start; this sends more than those.
    pub fn start_again(&mut self, near: &Wire, far: &Wire) {
        for _ in 0..12 {
            self.step(near, far);
        }
        far.expect_up_to(&self.ack().frame());
    }

    /// Sends one data segment in order.
    pub fn data(&mut self, far: &Wire) {
        far.send(&self.segment());
    }

    /// The frame of one data segment in order.
    pub fn segment(&mut self) -> Vec<u8> {
        let segment = Seg {
            acks: false,
            seq: self.next,
            ack: 1,
            payload: 1000,
            ..self.like.clone()
        };
        self.next = self.next.wrapping_add(1000);
        segment.frame()
    }

    /// Sends one data segment in order and its ACK, whose frame it returns.
    pub fn step(&mut self, near: &Wire, far: &Wire) -> Vec<u8> {
        self.data(far);
        let frame = self.ack().frame();
        near.send(&frame);
        frame
    }

    /// The ACK of all data so far.
    pub fn ack(&self) -> Seg {
        Seg {
            ack: self.next,
            ..self.like.clone()
        }
    }
}

/// Tests state what must happen, and leave the time to the machine. A clock only distinguishes a
/// hang from slowness.
pub fn eventually(what: &str, mut it_is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !it_is() {
        assert!(Instant::now() < until, "two minutes, and not yet: {what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A TUN device that is up, whose far end is the descriptor.
pub fn tun(name: &str) -> File {
    let (file, _) = create_tun(name, LinkKind::Ip).expect("a TUN device");
    set_up(name);
    file
}

/// Makes an interface send each packet by itself, with its checksum complete.
pub fn no_checksum_offload(name: &str) {
    const TX_CHECKSUMS: u32 = 0x17;
    ifreq::set_ethtool_value(name, TX_CHECKSUMS, 0).expect("a device without the offload");
}

/// Returns whether the TCP checksum of an IPv4 frame is right.
pub fn checksum_is_right(f: &[u8]) -> bool {
    let l4 = 14 + usize::from(f[14] & 15) * 4;
    let end = 14 + usize::from(u16::from_be_bytes([f[16], f[17]]));
    checksum::of_segment(&f[26..34], protocol::TCP, &f[l4..end]) == [0, 0]
}
