//! A plain policer on an emulated link: it drops what exceeds the rate, whatever it carries
//! (Pavilanskas 2010). It deliberately ignores the contract.

use ackwise_config::queues::{Length, Police, PoliceHow};
use ackwise_queue::{LengthMode, Nanos, TokenBucket};
use ackwise_rng::{Probability, Rng};

use crate::frame::Segment;

/// Random number stream of the policer, separate from those of the link.
const STREAM: u64 = 17;
const ETHERNET: u32 = 14;
const UNIT: u64 = 1 << 32;

#[derive(Debug)]
enum How {
    Bucket(TokenBucket, LengthMode),
    Random(Probability, Rng),
    /// The share, and the accumulated fraction of a packet, in units of 2⁻³².
    Even(u64, u64),
}

/// One direction's policer.
#[derive(Debug)]
pub struct Policer {
    how: How,
    pure_acks: bool,
    /// Listening ports of the flows that are policed; all flows if empty.
    ports: Vec<u16>,
    /// Packets dropped.
    pub dropped: u64,
}

impl Policer {
    /// A policer as the scenario describes it; `port_of` returns a flow's listening port.
    #[must_use]
    pub fn new(police: &Police, port_of: impl Fn(&str) -> Option<u16>, seed: u64) -> Self {
        Self {
            how: match police.how {
                PoliceHow::Bucket(bucket) => How::Bucket(
                    TokenBucket::new(bucket.rate_bps, bucket.burst),
                    match bucket.length {
                        Length::Ip => LengthMode::Ip,
                        Length::EthernetPayload => LengthMode::EthernetPayload,
                        Length::EthernetFrame => LengthMode::EthernetFrame,
                    },
                ),
                PoliceHow::Random(share) => {
                    How::Random(Probability::from_fraction(share), Rng::stream(seed, STREAM))
                }
                PoliceHow::Even(share) => How::Even((share * UNIT as f64).round() as u64, 0),
            },
            pure_acks: police.what.pure_acks,
            ports: police
                .what
                .flows
                .iter()
                .filter_map(|name| port_of(name))
                .collect(),
            dropped: 0,
        }
    }

    /// Whether a frame of `len` bytes may pass at `now`.
    pub fn passes(&mut self, segment: Option<&Segment>, len: u32, now: Nanos) -> bool {
        let is_one = |segment: &Segment| {
            self.ports.is_empty()
                || self.ports.contains(&segment.source)
                || self.ports.contains(&segment.destination)
        };
        let taken = match segment {
            Some(segment) => (!self.pure_acks || segment.is_ack_only()) && is_one(segment),
            None => !self.pure_acks && self.ports.is_empty(),
        };
        if !taken {
            return true;
        }
        let passes = match &mut self.how {
            How::Bucket(bucket, length) => {
                bucket.take(length.charge(len.saturating_sub(ETHERNET)), now)
            }
            How::Random(share, rng) => !rng.happens(*share),
            How::Even(share, owed) => {
                *owed += *share;
                let drop = *owed >= UNIT;
                *owed -= if drop { UNIT } else { 0 };
                !drop
            }
        };
        self.dropped += u64::from(!passes);
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{flag, parse, tests::frame_v4};
    use ackwise_config::queues::{Bucket, What};

    fn policer(how: PoliceHow, flows: &[&str]) -> Policer {
        let police = Police {
            how,
            what: What {
                pure_acks: true,
                flows: flows.iter().map(|&name| name.to_owned()).collect(),
            },
        };
        Policer::new(&police, |name| (name == "first").then_some(5001), 1)
    }

    fn offered(policer: &mut Policer, port: u16, payload: usize, now: Nanos) -> bool {
        let frame = frame_v4((port, 9), 0, 0, flag::ACK, 1, &[], payload);
        let segment = parse(&frame, frame.len()).unwrap();
        policer.passes(Some(&segment), frame.len() as u32, now)
    }

    #[test]
    fn a_bucket_of_minimal_frames() {
        // A bucket two 64-byte frames deep that refills by one frame per millisecond.
        let bucket = PoliceHow::Bucket(Bucket {
            rate_bps: 512_000,
            burst: 128,
            length: Length::EthernetFrame,
        });
        let mut policer = policer(bucket, &[]);
        let seen = [0, 0, 0, 999_999, 1_000_000, 1_000_000, 3_000_000, 3_000_000];
        let passed = seen.map(|now| offered(&mut policer, 1, 0, now));
        let expected = [true, true, false, false, true, false, true, true];
        assert_eq!(passed, expected);
        assert_eq!(policer.dropped, 3);
        assert!(offered(&mut policer, 1, 1, 3_000_000), "data pass");
        assert!(policer.passes(None, 60, 3_000_000), "no TCP passes");
    }

    #[test]
    fn a_share_of_one_flow() {
        let mut policer = policer(PoliceHow::Even(0.8), &["first"]);
        let passed = (0..100).filter(|_| offered(&mut policer, 5001, 0, 0));
        assert_eq!(passed.count(), 20);
        assert!((0..100).all(|_| offered(&mut policer, 5002, 0, 0)));
        let mut random = super::tests::policer(PoliceHow::Random(0.5), &[]);
        let passed = (0..1000)
            .filter(|_| offered(&mut random, 5002, 0, 0))
            .count();
        assert!((400..600).contains(&passed), "{passed}");
    }
}
