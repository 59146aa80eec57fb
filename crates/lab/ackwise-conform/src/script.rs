//! Writes the steps of a case: a connection, a flow of ACKs that a filter may thin, and news in the
//! middle.

use crate::case::{Expect, Script, Step, Variant};
use crate::packet::{Flow, Protocol, Segment, Side, flag};

/// Bytes of data in a segment.
pub(crate) const MSS: u32 = 1000;
/// Interval between data segments in a burst, each with its ACK: some three times as fast as the
/// suite's shaper lets ACKs pass.
const BURST_NS: u64 = 400_000;
/// Time between a data segment and its ACK.
const ANSWER_NS: u64 = 100_000;
/// The window scale of the receiver.
const WINDOW_SCALE: u8 = 7;
/// The window field of most ACKs.
pub(crate) const WINDOW: u16 = 1000;
/// Number of ACKs before the first news of a case.
const WARM_UP_ACKS: u32 = 16;
/// Bytes of the receiver's data before the news.
const BLOCK: u32 = 400;
const MS: u64 = 1_000_000;

/// The features that a connection negotiates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Features {
    pub timestamps: bool,
    pub accecn: bool,
    /// The sender's first sequence number, if it matters.
    pub isn: Option<u32>,
    /// The first TSval of the receiver.
    pub clock: u32,
    /// Additional options of the receiver's SYN.
    pub syn_options: &'static [u8],
}

/// A connection that carries data from the sender to the receiver, and ACKs back.
#[derive(Debug)]
pub(crate) struct Connection {
    script: Script,
    features: Features,
    flow: Flow,
    phase: u32,
    pub now_ns: u64,
    /// The receiver's next sequence number.
    pub seq: u32,
    /// The sender's next sequence number.
    pub snd_nxt: u32,
    /// The receiver's next expected number.
    pub rcv_nxt: u32,
    pub window: u16,
    /// ACE, and the AccECN option, as on every ACK.
    pub flags: u16,
    /// Options of every ACK, after the timestamps.
    pub extra: Vec<u8>,
}

/// A SACK option with two bytes of padding before it.
pub(crate) fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (left, right) in blocks {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

/// An option of the given kind with a body.
pub(crate) fn option(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 2 + body.len() as u8], body].concat()
}

impl Connection {
    /// A connection after the handshake and the start.
    pub fn established(variant: Variant, features: Features) -> Self {
        let mut it = Self::opening(variant, features);
        it.open();
        it.warm();
        it
    }

    /// An established connection with timestamps.
    pub fn with_timestamps(variant: Variant) -> Self {
        let features = Features {
            timestamps: true,
            clock: 10_000,
            ..Features::default()
        };
        Self::established(variant, features)
    }

    /// An established connection without options.
    pub fn plain(variant: Variant) -> Self {
        Self::established(variant, Features::default())
    }

    /// A connection that has sent nothing yet.
    pub fn opening(variant: Variant, features: Features) -> Self {
        let isn = features.isn.unwrap_or(30_000);
        let script = Script {
            window_scale: WINDOW_SCALE,
            timestamps: features.timestamps,
            ..Script::default()
        };
        Self {
            script,
            features,
            flow: variant.flow,
            phase: variant.phase,
            now_ns: 0,
            seq: 5_000,
            snd_nxt: isn,
            rcv_nxt: isn,
            window: WINDOW,
            flags: flag::ACK,
            extra: Vec::new(),
        }
    }

    /// Does the handshake, which the receiver opens.
    pub fn open(&mut self) {
        let ecn = if self.features.accecn {
            [flag::AE | flag::CWR | flag::ECE, flag::CWR]
        } else {
            [0, 0]
        };
        let mut options = vec![2, 4, 3, 232, 1, 3, 3, WINDOW_SCALE, 1, 1, 4, 2];
        options.extend(self.timestamps());
        let mut syn = self.ack();
        syn.flags = flag::SYN | ecn[0];
        syn.ack = 0;
        syn.options.clone_from(&options);
        syn.options.extend(self.features.syn_options);
        let at = self.send(syn);
        self.expect(Expect::Arrives(at));
        self.wait_ms(10);
        self.seq += 1;
        let mut syn_ack = self.data(&[]);
        syn_ack.flags = flag::SYN | flag::ACK | ecn[1];
        syn_ack.options = options;
        self.send(syn_ack);
        self.snd_nxt = self.snd_nxt.wrapping_add(1);
        self.rcv_nxt = self.snd_nxt;
        self.wait_ms(1);
        if self.features.accecn {
            // The SYN-ACK was not ECN-capable (RFC 9768 §3.1.1, Table 3); then the counter starts
            // at 5.
            self.flags = flag::ACK | flag::CWR;
        }
        let third = self.ack();
        let at = self.send(third);
        self.expect(Expect::Acked(at));
        if self.features.accecn {
            self.set_ace(5);
        }
        self.wait_ms(10);
    }

    /// Does the sender's start: each ACK is sent only when the one before it is gone.
    pub fn warm(&mut self) {
        for _ in 0..WARM_UP_ACKS {
            self.segment();
            let ack = self.ack();
            self.send(ack);
            self.wait_ms(5);
        }
        self.wait_ms(40);
    }

    /// Returns the steps and expectations so far.
    pub fn done(self) -> Script {
        self.script
    }

    /// Switches to a flow that differs from the current one only as the closure says.
    pub fn switch(&mut self, change: impl FnOnce(&mut Flow)) {
        change(&mut self.flow);
    }

    /// Makes an option of this kind mandatory for ACKs from here on.
    pub fn sign(&mut self, kind: u8, body: &[u8]) {
        self.script.signed = Some(kind);
        self.extra = option(kind, body);
    }

    pub fn set_ace(&mut self, ace: u32) {
        self.flags = flag::ACK | ((ace & 7) as u16) << 6;
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * MS;
    }

    pub fn wait_us(&mut self, us: u64) {
        self.now_ns += us * 1000;
    }

    /// The receiver's timestamp clock, in milliseconds.
    pub fn clock(&self) -> u32 {
        self.features.clock.wrapping_add((self.now_ns / MS) as u32)
    }

    fn timestamps(&self) -> Vec<u8> {
        if !self.features.timestamps {
            return Vec::new();
        }
        self.timestamps_at(self.clock())
    }

    /// A timestamps option with this TSval.
    pub fn timestamps_at(&self, clock: u32) -> Vec<u8> {
        let echo = 90_000_u32.wrapping_add((self.now_ns / MS) as u32);
        let body = [clock.to_be_bytes(), echo.to_be_bytes()].concat();
        [vec![1, 1], option(8, &body)].concat()
    }

    /// An ACK of everything that has arrived.
    pub fn ack(&self) -> Segment {
        let mut options = self.timestamps();
        options.extend(&self.extra);
        Segment {
            from: Side::Receiver,
            flow: self.flow,
            protocol: Protocol::Tcp,
            seq: self.seq,
            ack: self.rcv_nxt,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options,
            payload: Vec::new(),
            ip_ecn: 0,
        }
    }

    /// A segment of the sender with this data.
    pub fn data(&self, payload: &[u8]) -> Segment {
        let mut options = Vec::new();
        if self.features.timestamps {
            let clock = 90_000_u32.wrapping_add((self.now_ns / MS) as u32);
            let body = [clock.to_be_bytes(), self.clock().to_be_bytes()].concat();
            options = [vec![1, 1], option(8, &body)].concat();
        }
        Segment {
            from: Side::Sender,
            seq: self.snd_nxt,
            ack: self.seq,
            flags: flag::ACK,
            options,
            payload: payload.to_vec(),
            ..self.ack()
        }
    }

    /// Sends a segment now and returns its index.
    pub fn send(&mut self, segment: Segment) -> usize {
        self.script.steps.push(Step {
            at_ns: self.now_ns,
            segment,
        });
        self.script.steps.len() - 1
    }

    /// Sends a data segment that arrives in order.
    pub fn segment(&mut self) {
        self.lose_nothing();
        self.rcv_nxt = self.snd_nxt;
    }

    /// Sends a data segment without changing what the receiver expects next.
    pub fn lose_nothing(&mut self) {
        let data = self.data(&[0x5a; MSS as usize]);
        self.send(data);
        self.now_ns += ANSWER_NS;
        self.snd_nxt = self.snd_nxt.wrapping_add(MSS);
    }

    /// Skips data that get lost before the device: a hole of this many segments.
    pub fn hole(&mut self, segments: u32) {
        self.snd_nxt = self.snd_nxt.wrapping_add(segments * MSS);
    }

    /// Sends data segments in order, and an ACK for each, which a filter may thin.
    pub fn burst(&mut self, segments: u32) {
        for _ in 0..segments {
            self.segment();
            let ack = self.ack();
            self.send(ack);
            self.now_ns += BURST_NS - ANSWER_NS;
        }
    }

    /// Sends the ACKs before news: enough that some wait in any queue.
    pub fn before(&mut self) {
        let phase = self.phase;
        self.burst(20 + phase);
        self.block();
    }

    /// Sends data of the receiver, which no filter removes: later packets wait behind them for some
    /// 9 ms, however short a filter keeps the queue.
    pub fn block(&mut self) {
        let mut data = self.ack();
        data.payload = vec![0x62; BLOCK as usize];
        let at = self.send(data);
        self.expect(Expect::Arrives(at));
        self.sent(BLOCK);
        self.now_ns += ANSWER_NS;
    }

    /// Sends the ACKs after news.
    pub fn after(&mut self) {
        let phase = self.phase;
        self.burst(10 + phase);
    }

    /// Sends a modified ACK of everything so far, and returns its index.
    pub fn news(&mut self, change: impl FnOnce(&mut Segment)) -> usize {
        let mut segment = self.ack();
        change(&mut segment);
        let at = self.send(segment);
        self.now_ns += BURST_NS;
        at
    }

    /// Sends the next data segment in order and its modified ACK, and returns the ACK's index.
    pub fn next_news(&mut self, change: impl FnOnce(&mut Segment)) -> usize {
        self.segment();
        self.news(change)
    }

    /// Notes that the receiver has sent this many bytes of sequence space.
    pub fn sent(&mut self, bytes: u32) {
        self.seq = self.seq.wrapping_add(bytes);
    }

    pub fn expect(&mut self, expect: Expect) {
        self.script.expects.push(expect);
    }

    /// Expects that the last ACK of the script is heard.
    pub fn expect_last(&mut self) {
        let steps = self.script.steps.iter();
        let last = steps
            .enumerate()
            .rev()
            .find(|(_, it)| it.segment.from == Side::Receiver && it.segment.flags & flag::ACK != 0);
        if let Some((at, _)) = last {
            self.expect(Expect::Acked(at));
        }
    }
}
