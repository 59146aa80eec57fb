//! Generates scripts from a seed: a few connections as stacks have them, and then everything that
//! goes wrong on a wire, or is made to.

use ackwise_datapath::Tag;
use ackwise_rng::Rng;

use crate::frames::{Ip, Tcp, insert_tag};
use crate::script::{Action, Script, Step};

const US: u64 = 1000;
const MS: u64 = 1000 * US;

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;
const ECE: u16 = 64;
const CWR: u16 = 128;
const AE: u16 = 256;

/// One connection, with the state of both ends.
struct Peer {
    ip: Ip,
    /// The outermost tag, which a device usually has removed from the frame.
    outer: Option<Tag>,
    ports: [u16; 2],
    scale: Option<u8>,
    timestamps: bool,
    accecn: bool,
    /// The number of counters in its ACKs' AccECN option; 0 for no such option.
    counters: usize,
    /// Whether its ACKs have all options that fit, so that with extension headers they exceed the
    /// room in a slot.
    long: bool,
    mss: u32,
    /// The first byte of the data that has not been sent.
    next: u32,
    /// The last acknowledgment of the data.
    acked: u32,
    /// The next byte that the ACKs' side sends.
    own: u32,
    clock: u32,
    window: u16,
    ecn: u16,
    /// CE, ECT(0), ECT(1).
    counted: [u32; 3],
    blocks: Vec<(u32, u32)>,
}

impl Peer {
    fn new(rng: &mut Rng, number: u8, ethernet: bool) -> Peer {
        let first = match rng.below(3) {
            0 => (rng.below(20_000) as u32).wrapping_neg(), // it wraps soon
            _ => rng.next_u64() as u32,
        };
        let v6 = rng.below(3) == 0;
        Peer {
            ip: Ip {
                v6,
                extensions: vec![60; if v6 && rng.below(3) == 0 { 4 } else { 0 }],
                // Two of them may differ only in their VLAN.
                number: number & !(rng.below(2) as u8),
                tags: match (ethernet, rng.below(4)) {
                    (false, _) => None,
                    (_, 0) => Some(vec![u16::from(number)]),
                    (_, 1) => Some(vec![7, u16::from(number) | 0x2000]),
                    _ => Some(Vec::new()),
                },
                ..Ip::default()
            },
            outer: (ethernet && rng.below(4) == 0).then(|| Tag {
                provider: rng.below(3) == 0,
                // A priority tag is not a VLAN; the value may include bits of the priority.
                tci: [0, u16::from(number), 7, 0x6007][rng.below(4) as usize],
            }),
            ports: [4000, 80],
            scale: (rng.below(4) > 0).then(|| rng.below(16) as u8),
            timestamps: rng.below(3) > 0,
            accecn: rng.below(3) == 0,
            counters: rng.below(4) as usize,
            long: rng.below(6) == 0,
            mss: [100, 536, 1000, 1400][rng.below(4) as usize],
            next: first,
            acked: first,
            own: 1,
            clock: rng.next_u64() as u32,
            window: 1000 + rng.below(60_000) as u16,
            ecn: 0,
            counted: [0; 3],
            blocks: Vec::new(),
        }
    }

    fn stamps(&mut self, options: &mut Vec<u8>, back: u32) {
        if !self.timestamps {
            return;
        }
        options.extend([1, 1, 8, 10]);
        options.extend(self.clock.wrapping_sub(back).to_be_bytes());
        options.extend(self.clock.wrapping_sub(2).to_be_bytes());
    }

    fn segment(&self, acks: bool) -> Tcp {
        let [near, far] = self.ports;
        let (from, to) = if acks { (near, far) } else { (far, near) };
        Tcp {
            acks,
            from,
            to,
            flags: ACK,
            window: self.window,
            ..Tcp::default()
        }
    }

    fn syn(&mut self, rng: &mut Rng, acks: bool, flags: u16) -> Vec<u8> {
        let mut t = self.segment(acks);
        t.flags = flags;
        t.seq = self.next.wrapping_sub(1);
        if self.accecn {
            t.flags |= match flags & ACK {
                0 => AE | CWR | ECE,
                _ => [CWR, ECE, AE, 0, CWR | ECE][rng.below(5) as usize],
            };
        }
        t.options.extend([2, 4]);
        t.options.extend((self.mss as u16).to_be_bytes());
        if let Some(scale) = self.scale {
            t.options.extend([1, 3, 3, scale]);
        }
        self.stamps(&mut t.options, 0);
        t.frame(&self.ip)
    }

    /// Data in order, or displaced by `shift` bytes.
    fn data(&mut self, rng: &mut Rng, payload: u32, shift: i64) -> Vec<u8> {
        let mut t = self.segment(false);
        let mut ip = self.ip.clone();
        t.seq = self.next.wrapping_add(shift as u32);
        t.payload = payload as usize;
        t.ack = 1;
        t.flags |= [0, 8, ECE, FIN, 0, 0, 0, 0, 0, 0, 0][rng.below(11) as usize];
        if t.flags & FIN != 0 && rng.below(8) > 0 {
            t.flags &= !FIN;
        }
        ip.ecn = [0, 2, 3, 1][rng.below(4) as usize];
        self.stamps(&mut t.options, 0);
        let end = t.seq.wrapping_add(payload);
        if end.wrapping_sub(self.next).cast_signed() > 0 {
            self.next = end;
        }
        t.frame(&ip)
    }

    /// An ACK like those before.
    fn ack(&mut self, number: u32) -> Vec<u8> {
        let t = self.plain_ack(number);
        t.frame(&self.ip)
    }

    fn plain_ack(&mut self, number: u32) -> Tcp {
        let mut t = self.segment(true);
        t.seq = self.own;
        t.ack = number;
        t.flags |= self.ecn;
        self.stamps(&mut t.options, 0);
        if self.accecn && self.counters > 0 {
            self.counters(&mut t.options, self.counters);
        }
        self.sack(&mut t.options);
        if self.long {
            t.options.resize(40, 1);
        }
        self.acked = number;
        t
    }

    fn counters(&self, options: &mut Vec<u8>, how_many: usize) {
        let [ce, e0, e1] = self.counted;
        let len = 2 + 3 * how_many;
        options.extend([172, len as u8]);
        for n in [e0, ce, e1].iter().take(how_many) {
            options.extend(&n.to_be_bytes()[1..]);
        }
        while !options.len().is_multiple_of(4) {
            options.push(1);
        }
    }

    fn sack(&self, options: &mut Vec<u8>) {
        let room = (40 - options.len()).saturating_sub(4) / 8;
        let blocks = &self.blocks[..self.blocks.len().min(room).min(4)];
        if blocks.is_empty() {
            return;
        }
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
    }

    /// Changes the contents of its ACKs from now on.
    fn corrupt(&mut self, rng: &mut Rng) {
        match rng.below(6) {
            0 | 1 => self.ecn ^= ECE,
            2 => self.counters = rng.below(4) as usize,
            3 => self.timestamps ^= true,
            4 => self.clock = self.clock.wrapping_sub(rng.below(20) as u32),
            _ => {
                self.window = self
                    .window
                    .wrapping_add((rng.below(8) as u16).wrapping_sub(4))
            }
        }
    }

    /// An ACK with something unusual.
    fn odd_ack(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut ip = self.ip.clone();
        let half = self.mss / 2;
        let forward = self.acked.wrapping_add(rng.below(6) as u32 * half);
        let mut t = self.plain_ack(forward);
        match rng.below(15) {
            0 => t.ack = t.ack.wrapping_sub(rng.below(8) as u32 * half),
            1 => t.ack = self.next.wrapping_add(1 + rng.below(5000) as u32),
            2 => t.flags ^= 1 << rng.below(12),
            3 => {
                t.payload = rng.below(3) as usize * 10;
                self.own = self.own.wrapping_add(t.payload as u32);
            }
            4 => {
                t.payload = rng.below(3) as usize * 10;
                t.seq = t.seq.wrapping_sub(rng.below(40) as u32);
            }
            5 => t.window = rng.below(70_000) as u16 / [1, 16, 4096][rng.below(3) as usize],
            6 => ip.ecn = 3,
            7 => t.options.clear(),
            8 => {
                t.options.clear();
                self.stamps(&mut t.options, rng.below(100) as u32);
            }
            9 => {
                t.options.clear();
                self.stamps(&mut t.options, 0);
                let at = rng.below(3) as usize;
                self.counted[at] = self.counted[at].wrapping_add(rng.below(3) as u32);
                self.counters(&mut t.options, rng.below(4) as usize);
            }
            10 => t.options.extend([30, 4, 0, 0]),
            11 => {
                let left = t
                    .ack
                    .wrapping_add((rng.below(6) as u32 * self.mss).wrapping_sub(self.mss));
                let right = left.wrapping_add(self.mss);
                self.blocks.insert(0, (left, right));
                self.blocks.truncate(4);
                t.options.clear();
                self.stamps(&mut t.options, 0);
                self.sack(&mut t.options);
            }
            12 => self.blocks.clear(),
            13 => self.ecn ^= [ECE, CWR, AE, ECE][rng.below(4) as usize],
            _ => self.window = rng.below(65_536) as u16,
        }
        t.options.truncate(40);
        t.frame(&ip)
    }

    /// A frame whose IP header is unusual.
    fn odd_ip(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut ip = self.ip.clone();
        match rng.below(8) {
            0 => ip.options = vec![[0, 1, 131, 137, 148][rng.below(5) as usize]; 4],
            1 => {
                ip.extensions =
                    vec![[0, 43, 60, 44, 51][rng.below(5) as usize]; rng.below(6) as usize]
            }
            2 => ip.fragment = [0x2000, 0x0001, 0x4000, 0x8000][rng.below(4) as usize],
            3 => ip.longer = rng.below(41) as i32 - 20,
            4 => ip.padding = rng.below(30) as usize,
            5 => ip.pppoe = ip.tags.is_some(),
            6 => ip.protocol = [17, 1, 58, 0][rng.below(4) as usize],
            _ => ip.tags = ip.tags.map(|_| vec![5; rng.below(4) as usize]),
        }
        let t = self.plain_ack(self.next);
        t.frame(&ip)
    }
}

/// Changes bytes anywhere.
fn mutate(rng: &mut Rng, frame: &mut Vec<u8>) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(frame.len().clamp(1, 90) as u64) as usize;
        match rng.below(6) {
            0 => frame.truncate(at.max(14)),
            1 => frame.insert(at.min(frame.len()), rng.next_u64() as u8),
            2 if at < frame.len() => {
                frame.remove(at);
            }
            3 => frame.extend(std::iter::repeat_n(0, at)),
            _ => {
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= match rng.below(2) {
                        0 => 1 << rng.below(8),
                        _ => rng.next_u64() as u8,
                    };
                }
            }
        }
    }
}

/// The script for a seed.
pub fn script(seed: u64, policy: &str, position: &'static str, ethernet: bool) -> Script {
    let mut rng = Rng::new(seed);
    let mut peers: Vec<Peer> = (0..1 + rng.below(4))
        .map(|n| Peer::new(&mut rng, n as u8, ethernet))
        .collect();
    let mut steps = Vec::new();
    for peer in &mut peers {
        warm_up(&mut rng, peer, &mut steps);
    }
    let odd = [1, 3, 20][rng.below(3) as usize];
    for _ in 0..rng.below(200) {
        let which = rng.below(peers.len() as u64) as usize;
        let peer = &mut peers[which];
        if rng.below(20) == 0 {
            peer.corrupt(&mut rng);
        }
        let mut what = match rng.below(odd) {
            _ if rng.below(16) == 0 => Action::Tick,
            _ if rng.below(16) == 0 => Action::Return(rng.below(8) as usize),
            0 => one(&mut rng, peer),
            _ if peer.next == peer.acked || rng.below(3) == 0 => {
                let payload = peer.mss;
                frame(false, peer.data(&mut rng, payload, 0))
            }
            _ => frame(true, peer.ack(peer.next)),
        };
        let outer = peer.outer;
        tag(&mut rng, outer, &mut what);
        let wait = match rng.below(60) {
            0 => rng.below(8000) * MS,
            1..8 => rng.below(40) * MS,
            _ => rng.below(400) * US,
        };
        peers[which].clock = peers[which].clock.wrapping_add((wait / MS) as u32);
        steps.push(Step { wait, what });
    }
    Script {
        policy: policy.to_owned(),
        position,
        ethernet,
        // 32-bit microseconds wrap after 72 minutes.
        begin: 1 + rng.below(5_000_000) * MS,
        steps,
    }
}

/// A handshake or none, and as many ACKs as a start takes, or fewer.
fn warm_up(rng: &mut Rng, peer: &mut Peer, steps: &mut Vec<Step>) {
    let outer = peer.outer;
    let mut push = |wait, acks, bytes| {
        let mut what = frame(acks, bytes);
        if let Action::Frame { tag, .. } = &mut what {
            *tag = outer;
        }
        steps.push(Step { wait, what });
    };
    if rng.below(5) > 0 {
        push(MS, false, peer.syn(rng, false, SYN));
        push(rng.below(30) * MS, true, peer.syn(rng, true, SYN | ACK));
    }
    for _ in 0..rng.below(20) {
        let payload = peer.mss;
        push(rng.below(200) * US, false, peer.data(rng, payload, 0));
        push(rng.below(200) * US, true, peer.ack(peer.next));
    }
}

fn frame(acks: bool, bytes: Vec<u8>) -> Action {
    Action::Frame {
        acks,
        gso_size: 0,
        mark: 0,
        tag: None,
        bytes,
    }
}

/// Puts the outermost tag beside a frame, or occasionally into it.
fn tag(rng: &mut Rng, outer: Option<Tag>, what: &mut Action) {
    let (Some(outer), Action::Frame { tag, bytes, .. }) = (outer, what) else {
        return;
    };
    if rng.below(10) > 0 || bytes.len() < 14 {
        *tag = Some(outer);
        return;
    }
    insert_tag(bytes, outer);
}

fn one(rng: &mut Rng, peer: &mut Peer) -> Action {
    let mss = peer.mss;
    let mut what = match rng.below(100) {
        0..30 => {
            let payload = mss * (1 + rng.below(2) as u32);
            let mut what = frame(false, peer.data(rng, payload.min(1400), 0));
            if let Action::Frame { gso_size, .. } = &mut what {
                *gso_size = if rng.below(3) == 0 { mss } else { 0 };
            }
            what
        }
        30..34 => {
            let shift = (rng.below(8) as i64 - 4) * i64::from(mss);
            let payload = rng.below(u64::from(mss) + 1) as u32;
            frame(false, peer.data(rng, payload, shift))
        }
        34..66 => {
            let ahead = peer.next.wrapping_sub(peer.acked);
            let by = if rng.below(3) == 0 { mss } else { ahead };
            frame(true, peer.ack(peer.acked.wrapping_add(by.min(ahead))))
        }
        66..80 => frame(true, peer.odd_ack(rng)),
        80..83 => frame(true, peer.odd_ip(rng)),
        83..85 => {
            let acks = rng.below(2) == 0;
            let flags = [SYN, SYN | ACK, RST, FIN | ACK][rng.below(4) as usize];
            frame(acks, peer.syn(rng, acks, flags))
        }
        85..90 => Action::Tick,
        _ => Action::Return(rng.below(8) as usize),
    };
    if let Action::Frame {
        bytes, mark, acks, ..
    } = &mut what
    {
        if rng.below(12) == 0 {
            mutate(rng, bytes);
        }
        *mark = match rng.below(40) {
            0 => 0xac50_0000 | rng.below(64) as u32,
            1 => rng.next_u64() as u32 & 0x0fff_ffff,
            _ => 0,
        };
        *acks ^= rng.below(200) == 0;
    }
    what
}
