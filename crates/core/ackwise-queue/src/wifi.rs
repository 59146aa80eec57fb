//! The airtime of IEEE 802.11n: EDCA, A-MPDU and block ACK.
//!
//! The times are those of OFDM at 5 GHz and of the access category best effort (IEEE 802.11-2020
//! §10.23.2, table 9-155). Two stations, the ends of a link, contend for one medium: each waits for
//! AIFS and a random number of free slots, and keeps the remainder while the other sends. The first
//! station sends all waiting frames that fit into an aggregate, and gets a block ACK. If both are
//! first at the same time, nothing arrives, and both draw from twice the window.
//!
//! There is no RTS, no other station and no noise: packets dropped by a link's `loss` are lost
//! behind the MAC. A collision is always followed by a retry; frames are never given up.

use ackwise_rng::Rng;

use crate::Nanos;
use crate::link::Link;
use crate::queue::QueueDiscipline;

/// SIFS, nanoseconds.
pub const SIFS_NS: Nanos = 16_000;
/// A slot.
pub const SLOT_NS: Nanos = 9_000;
/// AIFS of best effort: SIFS and three slots.
pub const AIFS_NS: Nanos = SIFS_NS + 3 * SLOT_NS;
/// The minimum and maximum contention window, in slots.
pub const CW: [u32; 2] = [15, 1023];
/// The preamble of HT-mixed format with one stream.
pub const PREAMBLE_NS: Nanos = 36_000;
/// A block ACK of 32 bytes at 24 Mbit/s.
pub const BLOCK_ACK_NS: Nanos = 32_000;
/// An ACK of 14 bytes at 24 Mbit/s, for a frame that is not aggregated.
pub const ACK_NS: Nanos = 28_000;
/// A symbol, with its long guard interval.
pub const SYMBOL_NS: Nanos = 4_000;
/// Bits of the service field and of the tail.
pub const SERVICE_BITS: u64 = 16 + 6;
/// Header of a QoS data frame, LLC with SNAP, FCS and the delimiter of an A-MPDU, bytes.
pub const FRAME_BYTES: u64 = 26 + 8 + 4 + 4;
/// The maximum number of frames in an aggregate: those that a block ACK can report.
pub const MAX_FRAMES: u32 = 64;
/// The maximum number of bytes in an aggregate.
pub const MAX_BYTES: u64 = 65_535;

/// The longest transmission that its own preamble can announce (IEEE 802.11-2020 §19.3.9.3.5,
/// L-SIG), in nanoseconds.
pub const MAX_PPDU_NS: Nanos = 5_484_000;

/// The parameters of the stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WifiConfig {
    /// Data rates of the two directions, bits per second.
    pub rates_bps: [u64; 2],
    /// The bytes of each offered length that are not part of the IP packet.
    pub header: u32,
    /// The maximum number of frames in an aggregate, at most [`MAX_FRAMES`]; 1 disables
    /// aggregation.
    pub max_frames: u32,
    /// The maximum number of bytes in an aggregate.
    pub max_bytes: u64,
    /// The longest time that frames and their ACK may take together; `None` for no limit.
    pub txop_ns: Option<Nanos>,
    /// The seed of the back-offs.
    pub seed: u64,
}

/// The statistics of the medium.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WifiStats {
    /// Aggregates or single frames that arrived, by station.
    pub exchanges: [u64; 2],
    /// Frames in them.
    pub frames: [u64; 2],
    /// Number of times that both sent at once.
    pub collisions: u64,
}

/// Bytes that an IP packet takes in an A-MPDU: with all headers, padded to a multiple of 4.
#[must_use]
pub fn frame_bytes(ip_len: u64) -> u64 {
    (ip_len + FRAME_BYTES).next_multiple_of(4)
}

/// The time of one transmission of this many bytes, including its preamble.
#[must_use]
pub fn ppdu_ns(bytes: u64, rate_bps: u64) -> Nanos {
    let bits = u128::from(bytes * 8 + SERVICE_BITS);
    let per_symbol = u128::from(rate_bps.max(1)) * u128::from(SYMBOL_NS);
    let symbols = (bits * 1_000_000_000).div_ceil(per_symbol.max(1));
    PREAMBLE_NS
        + u64::try_from(symbols)
            .unwrap_or(u64::MAX)
            .saturating_mul(SYMBOL_NS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Station {
    /// The contention window, in slots.
    window: u32,
    /// Number of free slots left to count.
    backoff: u32,
    /// The time since which its queue holds something.
    ready: Nanos,
}

/// The medium of two stations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wifi {
    config: WifiConfig,
    stations: [Station; 2],
    /// The time since which nobody sends.
    idle: Nanos,
    draws: Rng,
    stats: WifiStats,
}

/// What a station will send next.
#[derive(Debug, Clone, Copy)]
struct Aggregate {
    frames: usize,
    duration: Nanos,
}

impl Wifi {
    pub(crate) fn new(config: WifiConfig) -> Self {
        let mut draws = Rng::stream(config.seed, 5);
        let stations = [0, 1].map(|_| Station {
            window: CW[0],
            backoff: draws.below(u64::from(CW[0]) + 1) as u32,
            ready: 0,
        });
        Self {
            config: WifiConfig {
                max_frames: config.max_frames.clamp(1, MAX_FRAMES),
                ..config
            },
            stations,
            idle: 0,
            draws,
            stats: WifiStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> WifiStats {
        self.stats
    }

    /// Notes that a queue holds something since `now`.
    pub(crate) fn ready(&mut self, station: usize, now: Nanos) {
        self.stations[station].ready = now;
    }

    /// Handles everything that is due by `now`, and tells the links when the next event is due.
    pub(crate) fn advance<P, Q: QueueDiscipline<P>>(
        &mut self,
        links: &mut [&mut Link<P, Q>; 2],
        now: Nanos,
    ) {
        loop {
            let times = [0, 1].map(|it| links[it].is_waiting().then(|| self.access(it)));
            let Some(at) = times.into_iter().flatten().min() else {
                return;
            };
            if at > now {
                for link in links.iter_mut().filter(|link| link.is_waiting()) {
                    link.occupy(at);
                }
                return;
            }
            match times {
                [Some(a), Some(b)] if a == b => self.collide(links, at),
                [Some(first), _] if first == at => self.send(0, links, at),
                _ => self.send(1, links, at),
            }
        }
    }

    /// The time at which a waiting station sends, unless the other sends before.
    fn access(&self, station: usize) -> Nanos {
        let it = &self.stations[station];
        let slots = u64::from(it.backoff) * SLOT_NS;
        it.ready.max(self.idle.saturating_add(AIFS_NS + slots))
    }

    /// The part of a station's queue that goes into its next transmission.
    fn aggregate<P, Q: QueueDiscipline<P>>(
        &self,
        station: usize,
        link: &mut Link<P, Q>,
        now: Nanos,
    ) -> Aggregate {
        let WifiConfig {
            rates_bps,
            header,
            max_frames,
            max_bytes,
            txop_ns,
            ..
        } = self.config;
        let rate = rates_bps[station];
        let (mut frames, mut bytes, mut duration) = (0, 0, 0);
        while frames < max_frames as usize {
            let Some(len) = link.staged_len(frames, now) else {
                break;
            };
            let more = bytes + frame_bytes(u64::from(len.saturating_sub(header)));
            let longer = ppdu_ns(more, rate);
            let response = SIFS_NS + self.response_ns();
            let fits = more <= max_bytes
                && longer <= MAX_PPDU_NS
                && txop_ns.is_none_or(|txop| longer + response <= txop);
            if frames > 0 && !fits {
                break;
            }
            (frames, bytes, duration) = (frames + 1, more, longer);
        }
        Aggregate { frames, duration }
    }

    fn response_ns(&self) -> Nanos {
        match self.config.max_frames {
            1 => ACK_NS,
            _ => BLOCK_ACK_NS,
        }
    }

    fn send<P, Q: QueueDiscipline<P>>(
        &mut self,
        station: usize,
        links: &mut [&mut Link<P, Q>; 2],
        at: Nanos,
    ) {
        let aggregate = self.aggregate(station, links[station], at);
        if aggregate.frames == 0 {
            // The discipline dropped or kept what waited; asking again at once would loop forever.
            self.stations[station].ready = at + 1;
            return;
        }
        let end = at.saturating_add(aggregate.duration);
        links[station].launch_staged(aggregate.frames, at, end);
        self.stats.exchanges[station] += 1;
        self.stats.frames[station] += aggregate.frames as u64;
        self.freeze(1 - station, at);
        self.stations[station].window = CW[0];
        self.draw(station);
        self.idle = end.saturating_add(SIFS_NS + self.response_ns());
    }

    fn collide<P, Q: QueueDiscipline<P>>(&mut self, links: &mut [&mut Link<P, Q>; 2], at: Nanos) {
        let mut duration = 0;
        for station in [0, 1] {
            let aggregate = self.aggregate(station, links[station], at);
            if aggregate.frames == 0 {
                self.stations[station].ready = at + 1;
                return;
            }
            duration = duration.max(aggregate.duration);
        }
        self.stats.collisions += 1;
        for station in [0, 1] {
            let it = &mut self.stations[station];
            it.window = (2 * it.window + 1).min(CW[1]);
            self.draw(station);
        }
        // EIFS: the time that the ACK would have taken, before AIFS.
        self.idle = at.saturating_add(duration + SIFS_NS + self.response_ns());
    }

    /// Makes a station keep the slots that it has not yet counted when the other sends at `at`.
    fn freeze(&mut self, station: usize, at: Nanos) {
        let passed = at.saturating_sub(self.idle.saturating_add(AIFS_NS)) / SLOT_NS;
        let it = &mut self.stations[station];
        it.backoff = it
            .backoff
            .saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
    }

    fn draw(&mut self, station: usize) {
        let window = u64::from(self.stations[station].window);
        self.stations[station].backoff = self.draws.below(window + 1) as u32;
    }
}
