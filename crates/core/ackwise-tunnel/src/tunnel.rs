//! One end of a tunnel, without I/O: packets, datagrams and the time in, packets,
//! datagrams and the next time out.
//!
//! Times are nanoseconds of a clock that never goes back. While the other side does not
//! answer, or before it did, every packet takes the ordinary path at once.

use std::collections::VecDeque;

use crate::bundle;
use crate::news::{Classifier, Kind};
use crate::pmtu::Pmtu;
use crate::rtt::{Fate, Rtt};
use crate::session::{OpenError, Opened, Sessions, Terms};
use crate::{DecodeError, Packets, Pushed, Security, Variant};

const MS: u64 = 1_000_000;
/// Shortest period that a short round trip leads to.
const LEAST_PERIOD: u64 = MS / 2;
/// Periods to a round trip: bundling shall not be felt (see `docs/tunnel-format.md`).
const PERIODS_PER_RTT: u64 = 8;
/// A period may be cut short for news, to this part of it.
const NEWS: u64 = 4;
/// Bounds of the time after which an unanswered peer counts as dead.
const PATIENCE: std::ops::RangeInclusive<u64> = 20 * MS..=1000 * MS;
/// How often a dead peer is asked whether it is back.
const ASK_DEAD: u64 = 250 * MS;
/// Packets that wait to be spaced; beyond, they leave at once.
const MAX_SPACED: usize = 4096;

/// What becomes of packets that are no pure ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    /// They take the ordinary path.
    #[default]
    Outside,
    /// They are carried as they are, if they are short.
    Carried,
}

/// How an end of a tunnel works.
#[derive(Debug, Clone)]
pub struct TunnelConfig {
    /// How datagrams are protected.
    pub security: Security,
    /// How ACKs are written.
    pub variant: Variant,
    /// Flows to keep, in each direction.
    pub max_flows: u16,
    /// The longest multiplexing period, in nanoseconds.
    pub period: u64,
    /// Whether it shall be at most an eighth of the tunnel's round trip.
    pub follow_rtt: bool,
    /// Whether ACKs that carry news cut a period short.
    pub news: bool,
    /// Whether restored ACKs are spaced as evenly as bundles come.
    pub space: bool,
    /// Packets that are no pure ACKs.
    pub others: Others,
    /// The longest payload of a UDP datagram to try, in bytes; at least 800.
    pub max_datagram: usize,
    /// Whether this side begins handshakes; one of the two has to, the one that knows where
    /// the other is.
    pub begins: bool,
    /// Silence after which the other side is asked whether it is there.
    pub keepalive: u64,
}

impl TunnelConfig {
    /// 10 ms or an eighth of the round trip, 1024 flows, entropy-coded.
    pub fn new(security: Security) -> TunnelConfig {
        TunnelConfig {
            security,
            variant: Variant::Entropy,
            max_flows: 1024,
            period: 10 * MS,
            follow_rtt: true,
            news: true,
            space: false,
            others: Others::Outside,
            max_datagram: 1452,
            begins: true,
            keepalive: 10_000 * MS,
        }
    }
}

/// What is to be done. The caller empties it.
#[derive(Debug, Default)]
pub struct Actions {
    /// To the peer, in this order.
    pub datagrams: Vec<Vec<u8>>,
    /// Restored: to where they go.
    pub packets: Packets,
    /// By the ordinary path, as if there were no tunnel.
    pub outside: Packets,
}

impl Actions {
    /// Forgets all, but keeps the memory.
    pub fn clear(&mut self) {
        self.datagrams.clear();
        self.packets.clear();
        self.outside.clear();
    }
}

/// Who a datagram was from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Someone who began a handshake, perhaps by a repeated message: the answer goes to
    /// where it came from, and nothing is learnt of the peer.
    Answered,
    /// The peer: it is where the datagram came from.
    Peer,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were taken into bundles, and their bytes; without those that were given
    /// back when the peer fell silent.
    pub packets_in: u64,
    /// See `packets_in`.
    pub bytes_in: u64,
    /// Packets that took the ordinary path.
    pub outside: u64,
    /// Bundles with packets that were sent, and their bytes without IP and UDP.
    pub bundles_out: u64,
    /// See `bundles_out`.
    pub bundle_bytes_out: u64,
    /// Datagrams that were sent, and their bytes without IP and UDP.
    pub datagrams_out: u64,
    /// See `datagrams_out`.
    pub bytes_out: u64,
    /// Datagrams that were opened.
    pub datagrams_in: u64,
    /// Bundles with packets that came, and bytes of all datagrams that were opened.
    pub bundles_in: u64,
    /// See `bundles_in`.
    pub bytes_from: u64,
    /// Packets that were restored, and their bytes.
    pub packets_out: u64,
    /// See `packets_out`.
    pub restored_bytes: u64,
    /// ACKs that carried news.
    pub news: u64,
    /// Datagrams that belong to no session or are of no known kind.
    pub foreign: u64,
    /// Datagrams that are not authentic.
    pub forged: u64,
    /// Datagrams that came before.
    pub replayed: u64,
    /// Handshakes that were not answered because there were too many.
    pub flood: u64,
    /// Bundles that were not understood.
    pub undecodable: u64,
    /// Times that the peer stopped answering.
    pub deaths: u64,
}

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    config: TunnelConfig,
    sessions: Sessions,
    /// The session that numbers are of.
    session: Option<u8>,
    classifier: Classifier,
    rtt: Rtt,
    pmtu: Pmtu,
    /// When the last bundle left, and when the next is to.
    released: u64,
    due: Option<u64>,
    /// Whether the next bundle leaves at once, because there was none for a period; and
    /// whether the last one did.
    pause: bool,
    after_pause: bool,
    /// Bytes of a bundle for each packet in it, in sixteenths.
    mean: usize,
    /// When feedback is to leave.
    owe: Option<u64>,
    sent_at: u64,
    /// Since when an answer is awaited, and whether it was asked for again.
    unanswered: Option<(u64, bool)>,
    alive: bool,
    ask_at: u64,
    /// When the last bundle came, and the packets that wait to be spaced.
    arrived: u64,
    spaced: VecDeque<(u64, Box<[u8]>)>,
    plain: Vec<u8>,
    /// For what is opened.
    opened: Vec<u8>,
    restored: Packets,
    counters: Counters,
}

impl Tunnel {
    /// An end that knows nothing of the other yet.
    pub fn new(config: TunnelConfig) -> Tunnel {
        let terms = Terms {
            security: config.security.clone(),
            variant: config.variant,
            max_flows: config.max_flows,
        };
        Tunnel {
            sessions: Sessions::new(terms),
            session: None,
            classifier: Classifier::new(config.max_flows),
            rtt: Rtt::default(),
            pmtu: Pmtu::new(config.max_datagram.max(800)),
            released: 0,
            due: None,
            pause: false,
            after_pause: false,
            mean: 16 * 4,
            owe: None,
            sent_at: 0,
            unanswered: None,
            alive: false,
            ask_at: 0,
            arrived: 0,
            spaced: VecDeque::new(),
            plain: Vec::new(),
            opened: Vec::new(),
            restored: Packets::default(),
            counters: Counters::default(),
            config,
        }
    }

    /// Whether the other side answers.
    pub fn is_up(&self) -> bool {
        self.alive
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The multiplexing period at present.
    pub fn period(&self) -> u64 {
        let by_rtt = self.rtt.smoothed().map(|rtt| rtt / PERIODS_PER_RTT);
        match by_rtt.filter(|_| self.config.follow_rtt) {
            Some(by_rtt) => by_rtt.max(LEAST_PERIOD).min(self.config.period),
            None => self.config.period,
        }
    }

    /// Packets that wait for the next bundle, and when it leaves at the latest.
    pub fn waiting(&mut self) -> Option<(usize, u64)> {
        let due = self.due?;
        let session = self.sessions.current()?;
        Some((session.codecs.encoder.len(), due))
    }

    /// What comes before this time leaves after it, unless a bundle is full: news, too.
    pub fn soonest(&self) -> u64 {
        self.released + self.period() / NEWS
    }

    /// The longest datagram, as far as it is known.
    pub fn datagram_size(&self) -> usize {
        self.pmtu.size()
    }

    /// The tunnel's round trip, if it is known.
    pub fn rtt(&self) -> Option<u64> {
        self.rtt.smoothed()
    }

    /// How long the present session has been there, if there is one.
    pub fn session_age(&mut self, now: u64) -> Option<u64> {
        self.sessions.current().map(|session| session.age(now))
    }

    /// The system refused a datagram of this length: nothing longer passes.
    pub fn too_long(&mut self, len: usize) {
        self.pmtu.too_long(len);
    }

    /// A packet for the other side. What is due leaves with the next [`Tunnel::tick`], so that
    /// packets which are read together leave together.
    pub fn packet(&mut self, packet: &[u8], now: u64, actions: &mut Actions) {
        let kind = self.classifier.look(packet, now / 1000);
        let fits = kind != Kind::Other || self.config.others == Others::Carried;
        if !fits || !self.alive || !self.push(packet, now, actions) {
            self.counters.outside += 1;
            actions.outside.push(packet);
            return;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.len() as u64;
        let news = kind == Kind::News && self.config.news;
        self.counters.news += u64::from(news);
        let due = (self.released + self.wait(news, now)).max(now);
        self.pause |= self.due.is_none() && now >= self.released + self.period();
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        if self.is_full() {
            self.release_one(now, actions);
        }
    }

    /// How long after the last bundle the next may leave.
    fn wait(&self, news: bool, now: u64) -> u64 {
        let period = self.period();
        if news {
            period / NEWS
        } else if self.after_pause && now < self.released + period / 2 {
            // The rest of a burst, of which the first went ahead.
            period / 2
        } else {
            period
        }
    }

    /// Whether what waits will fill a datagram.
    fn is_full(&mut self) -> bool {
        let (room, mean) = (self.room(), self.mean);
        let session = self.sessions.current();
        session.is_some_and(|s| s.codecs.encoder.len() * mean / 16 >= room)
    }

    fn room(&self) -> usize {
        self.pmtu.size() - self.config.security.overhead()
    }

    fn push(&mut self, packet: &[u8], now: u64, actions: &mut Actions) -> bool {
        for _ in 0..2 {
            let Some(session) = self.sessions.current() else {
                return false;
            };
            if session.codecs.encoder.push(packet) != Pushed::Refused {
                return true;
            }
            if session.codecs.encoder.is_empty() {
                return false;
            }
            self.release(now, actions);
        }
        false
    }

    /// Sends what waits.
    fn release(&mut self, now: u64, actions: &mut Actions) {
        self.due = None;
        self.released = now;
        self.after_pause = std::mem::take(&mut self.pause);
        while self.send_bundle(now, actions) > 0 {}
    }

    /// Sends a full bundle. What had no place in it leaves when it is due, or with the next.
    fn release_one(&mut self, now: u64, actions: &mut Actions) {
        self.released = now;
        self.after_pause = std::mem::take(&mut self.pause);
        if self.send_bundle(now, actions) == 0 {
            self.due = None;
        }
    }

    /// Sends as much of what waits as fits; so much is left.
    fn send_bundle(&mut self, now: u64, actions: &mut Actions) -> usize {
        let room = self.room();
        let Some(session) = self.sessions.current() else {
            return 0;
        };
        if session.codecs.encoder.is_empty() {
            return 0;
        }
        self.plain.clear();
        let feedback = session.codecs.decoder.feedback();
        let number = session.next_number();
        let encoder = &mut session.codecs.encoder;
        let made = encoder.finish(number, feedback, room, &mut self.plain);
        self.mean = (7 * self.mean + 16 * self.plain.len() / made.packets.max(1)) / 8;
        self.counters.bundles_out += 1;
        self.owe = None;
        let before = self.counters.bytes_out;
        self.send(true, now, actions);
        self.counters.bundle_bytes_out += self.counters.bytes_out - before;
        made.left
    }

    /// Seals and sends what is in `plain`.
    fn send(&mut self, awaits: bool, now: u64, actions: &mut Actions) -> Option<u64> {
        let session = self.sessions.current()?;
        let number = session.next_number();
        // Only what is too long cannot be sealed, and nothing is.
        let datagram = session.seal(&self.plain).ok()?;
        if awaits {
            self.rtt.sent(number, now, datagram.len());
            self.unanswered.get_or_insert((now, false));
        }
        self.dispatch(datagram, now, actions);
        Some(number)
    }

    fn dispatch(&mut self, datagram: Vec<u8>, now: u64, actions: &mut Actions) {
        self.sent_at = now;
        self.counters.datagrams_out += 1;
        self.counters.bytes_out += datagram.len() as u64;
        actions.datagrams.push(datagram);
    }

    /// Sends feedback without packets, or a question.
    fn send_empty(&mut self, asks: bool, now: u64, actions: &mut Actions) {
        let Some(session) = self.sessions.current() else {
            return;
        };
        self.plain.clear();
        bundle::empty(session.codecs.decoder.feedback(), asks, &mut self.plain);
        self.owe = None;
        self.send(asks, now, actions);
    }

    /// A datagram from the other side, or from anyone. [`Heard`] says where what is to be
    /// sent now goes to.
    ///
    /// # Errors
    /// It was not opened, or what was in it not understood; nothing has come of it.
    pub fn datagram(
        &mut self,
        datagram: &[u8],
        now: u64,
        actions: &mut Actions,
    ) -> Result<Heard, DatagramError> {
        let mut plain = std::mem::take(&mut self.opened);
        plain.clear();
        let opened = self.sessions.open(datagram, now, &mut plain);
        let opened = opened.inspect_err(|error| {
            *match error {
                OpenError::Kind | OpenError::Session => &mut self.counters.foreign,
                OpenError::Authentic => &mut self.counters.forged,
                OpenError::Replayed => &mut self.counters.replayed,
                OpenError::Flood => &mut self.counters.flood,
            } += 1;
        })?;
        match opened {
            Opened::Answer(answer) => {
                // Whoever sent this may have replayed it: it says nothing of the peer.
                self.dispatch(answer, now, actions);
                Ok(Heard::Answered)
            }
            Opened::Established => {
                self.heard();
                self.follow_session(actions);
                self.send_empty(true, now, actions);
                Ok(Heard::Peer)
            }
            Opened::Data { session, number } => {
                self.counters.datagrams_in += 1;
                self.counters.bytes_from += datagram.len() as u64;
                self.heard();
                self.follow_session(actions);
                let taken = self.take(session, number, &plain, now, actions);
                self.opened = plain;
                taken?;
                Ok(Heard::Peer)
            }
        }
    }

    /// Sends feedback in a session that is not the current one.
    fn answer_in(&mut self, id: u8, now: u64, actions: &mut Actions) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let mut plain = Vec::new();
        bundle::empty(session.codecs.decoder.feedback(), false, &mut plain);
        if let Ok(datagram) = session.seal(&plain) {
            self.dispatch(datagram, now, actions);
        }
    }

    fn heard(&mut self) {
        self.alive = true;
        self.unanswered = None;
    }

    /// Takes what waits along into a new session.
    fn follow_session(&mut self, actions: &mut Actions) {
        let current = self.sessions.current().map(|session| session.id);
        if current == self.session {
            return;
        }
        let last = self.session.and_then(|last| self.sessions.get(last));
        let mut waiting = Packets::default();
        if let Some(last) = last {
            last.codecs.encoder.take_back(&mut waiting);
        }
        self.session = current;
        self.rtt.forget_sent();
        self.pmtu.forget_probe();
        for packet in waiting.iter() {
            let session = self.sessions.current();
            let taken = session.map(|s| s.codecs.encoder.push(packet));
            if taken.is_none_or(|taken| taken == Pushed::Refused) {
                actions.outside.push(packet);
            }
        }
    }

    fn take(
        &mut self,
        id: u8,
        number: u64,
        plain: &[u8],
        now: u64,
        actions: &mut Actions,
    ) -> Result<(), DatagramError> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        self.restored.clear();
        let restored = if self.config.space {
            &mut self.restored
        } else {
            &mut actions.packets
        };
        let before = restored.bytes();
        let decoded = session.codecs.decoder.decode(number, plain, restored);
        let restored_bytes = (restored.bytes() - before) as u64;
        let decoded = decoded.inspect_err(|_| self.counters.undecodable += 1)?;
        if let Some(feedback) = decoded.feedback {
            session.codecs.encoder.acknowledge(&feedback);
            if Some(id) == self.session {
                let pmtu = &mut self.pmtu;
                self.rtt.feedback(&feedback, now, &mut |fate| match fate {
                    Fate::Arrived(number, len) => pmtu.arrived(number, len),
                    Fate::Lost(number, len) => pmtu.lost(number, len),
                });
            }
        }
        if decoded.asks && Some(id) != self.session {
            // The sides are about to change to another session, or have crossed over.
            self.answer_in(id, now, actions);
        } else if decoded.asks {
            // A question is answered at once, a bundle with the next one of this side.
            let wait = if decoded.packets == 0 {
                0
            } else {
                self.period() / 2
            };
            let due = now + wait;
            self.owe = Some(self.owe.map_or(due, |before| before.min(due)));
        }
        self.counters.packets_out += decoded.packets as u64;
        self.counters.bundles_in += u64::from(decoded.packets > 0);
        self.counters.restored_bytes += restored_bytes;
        self.space_out(now, actions);
        Ok(())
    }

    /// Packets that are spaced leave evenly until the next bundle is expected.
    fn space_out(&mut self, now: u64, actions: &mut Actions) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.arrived, now));
        let count = self.restored.len() as u64;
        let span = gap.min(self.config.period);
        let start = self.spaced.back().map_or(now, |last| last.0.max(now));
        // What is still waiting from the last bundle is not overtaken, nor put off again.
        let late = start.saturating_sub(now);
        for (i, packet) in (0..).zip(self.restored.iter()) {
            if self.spaced.len() >= MAX_SPACED || late > span {
                while let Some((_, before)) = self.spaced.pop_front() {
                    actions.packets.push(&before);
                }
                actions.packets.push(packet);
            } else {
                let at = start + span.saturating_sub(late) * i / count;
                self.spaced.push_back((at, packet.into()));
            }
        }
        self.put_out_spaced(now, actions);
    }

    fn put_out_spaced(&mut self, now: u64, actions: &mut Actions) {
        let due = self.spaced.partition_point(|(at, _)| *at <= now);
        for (_, packet) in self.spaced.drain(..due) {
            actions.packets.push(&packet);
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64, actions: &mut Actions) {
        self.sessions.expire(now);
        if self.config.begins && self.sessions.handshake_due(now) {
            self.shake(now, actions);
        }
        self.watch_peer(now, actions);
        if self.due.is_some_and(|due| due <= now) {
            self.release(now, actions);
        }
        if self.owe.is_some_and(|due| due <= now) {
            self.send_empty(false, now, actions);
        }
        if self.alive {
            if now >= self.sent_at + self.config.keepalive {
                self.send_empty(true, now, actions);
            }
            self.probe_path(now, actions);
        }
        self.put_out_spaced(now, actions);
    }

    fn shake(&mut self, now: u64, actions: &mut Actions) {
        // Without random numbers there is no tunnel, and packets go outside.
        if let Ok(first) = self.sessions.begin(now) {
            self.dispatch(first, now, actions);
        }
    }

    fn patience(&self) -> u64 {
        let answer = self.rtt.patience().unwrap_or(*PATIENCE.end());
        let waits = 2 * self.config.period;
        (2 * answer + waits).clamp(*PATIENCE.start(), *PATIENCE.end())
    }

    fn watch_peer(&mut self, now: u64, actions: &mut Actions) {
        let patience = self.patience();
        if self.sessions.current().is_none() {
            self.die(actions);
        } else if !self.alive {
            if now >= self.ask_at {
                self.ask_at = now + ASK_DEAD;
                self.send_empty(true, now, actions);
                if self.config.begins && self.sessions.may_begin(now) {
                    // It may have been restarted, and know nothing of the session.
                    self.shake(now, actions);
                }
            }
        } else if let Some((since, asked)) = self.unanswered {
            if now >= since + patience {
                self.die(actions);
                self.ask_at = now;
            } else if !asked && now >= since + patience / 2 {
                self.unanswered = Some((since, true));
                self.send_empty(true, now, actions);
            }
        }
    }

    /// This side ends: what waits takes the ordinary path. The other side will notice.
    pub fn end(&mut self, actions: &mut Actions) {
        self.die(actions);
        for (_, packet) in self.spaced.drain(..) {
            actions.packets.push(&packet);
        }
    }

    /// The other side does not answer: what waits takes the ordinary path, and what comes.
    fn die(&mut self, actions: &mut Actions) {
        if !std::mem::take(&mut self.alive) {
            return;
        }
        self.counters.deaths += 1;
        self.sessions.give_up_current();
        self.unanswered = None;
        self.due = None;
        self.pause = false;
        if let Some(session) = self.session.and_then(|id| self.sessions.get(id)) {
            let before = (actions.outside.len(), actions.outside.bytes());
            session.codecs.encoder.take_back(&mut actions.outside);
            let back = (actions.outside.len() - before.0) as u64;
            self.counters.outside += back;
            self.counters.packets_in -= back;
            self.counters.bytes_in -= (actions.outside.bytes() - before.1) as u64;
        }
    }

    fn probe_path(&mut self, now: u64, actions: &mut Actions) {
        let Some(size) = self.pmtu.due(now) else {
            return;
        };
        let Some(session) = self.sessions.current() else {
            return;
        };
        self.plain.clear();
        bundle::empty(session.codecs.decoder.feedback(), true, &mut self.plain);
        self.plain.resize(size - self.config.security.overhead(), 0);
        let patience = self.patience();
        let awaited = self.unanswered;
        if let Some(number) = self.send(true, now, actions) {
            self.pmtu.sent(size, number, now, patience);
        }
        // One that is too long says nothing of the peer when it gets lost.
        self.unanswered = awaited;
    }

    /// When [`Tunnel::tick`] is to be called, at the latest.
    pub fn wake(&self, now: u64) -> u64 {
        let patience = self.patience();
        let watch = match self.unanswered {
            _ if !self.alive => self.ask_at,
            Some((since, false)) => since + patience / 2,
            Some((since, true)) => since + patience,
            None => u64::MAX,
        };
        let idle = if self.alive {
            (self.sent_at + self.config.keepalive).min(self.pmtu.wake(now))
        } else {
            u64::MAX
        };
        let spaced = self.spaced.front().map_or(u64::MAX, |first| first.0);
        let due = self.due.unwrap_or(u64::MAX);
        let owe = self.owe.unwrap_or(u64::MAX);
        let handshake = if self.config.begins {
            self.sessions.handshake_at(now)
        } else {
            u64::MAX
        };
        let watch = if self.session.is_none() {
            u64::MAX
        } else {
            watch
        };
        [watch, idle, spaced, due, owe, handshake]
            .into_iter()
            .fold(u64::MAX, u64::min)
    }
}

/// Why nothing has come of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// It was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It was authentic, but what it carried was not understood.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}
