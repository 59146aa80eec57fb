//! The size of a full segment in one direction: from the handshake, or else guessed from the
//! packets, several of which a host or its interface may have merged.

/// The segment size until one is known: Ethernet, IPv4, timestamps.
const DEFAULT_SEGMENT: u32 = 1448;
/// The largest segment on Ethernet.
const ETHERNET_MSS: u32 = 1460;
/// The largest segment in a jumbo frame.
const JUMBO: u32 = 9000;
/// The smallest full segment that today's hosts send (RFC 9293 §3.7.1).
const MIN_SEGMENT: u32 = 536;
/// Common segment sizes: Ethernet, PPPoE and tunnels, IPv4 and IPv6, with and without timestamps.
const COMMON_SIZES: [u32; 8] = [1460, 1448, 1440, 1428, 1452, 1412, 1400, 1388];

/// What is known about the size of a full segment.
#[derive(Debug, Clone, Copy, Default)]
pub struct SegmentSize {
    /// The MSS that the receiver announced, less the timestamp option.
    announced: u32,
    /// The largest payload.
    largest: u32,
    /// The largest payload that fits into an Ethernet frame, and how often it was seen.
    frame_payload: u32,
    frame_payloads: u32,
    /// The size of which most larger payloads are multiples, or 0 if there is none, and its lead
    /// over the others.
    divisor: u32,
    lead: u32,
}

impl SegmentSize {
    /// Sets the MSS that the receiver announced.
    pub fn set_mss(&mut self, mss: u32) {
        self.announced = mss;
    }

    /// Takes the payload length of a packet.
    pub fn on_payload(&mut self, payload: u32) {
        self.largest = self.largest.max(payload);
        if payload > ETHERNET_MSS {
            self.vote(self.divisor_of(payload));
        } else if payload > self.frame_payload {
            (self.frame_payload, self.frame_payloads) = (payload, 1);
        } else if payload == self.frame_payload {
            self.frame_payloads = self.frame_payloads.saturating_add(1);
        }
    }

    /// A segment size of which the payload is a multiple: the one that was seen, or a common one. 0
    /// if there is none.
    fn divisor_of(&self, payload: u32) -> u32 {
        let seen = (self.frame_payload >= MIN_SEGMENT && self.frame_payloads > 1)
            .then_some(self.frame_payload);
        let mut sizes = seen.into_iter().chain(COMMON_SIZES);
        sizes
            .find(|size| payload.is_multiple_of(*size))
            .unwrap_or(0)
    }

    /// Takes a vote for the majority: some packets end within a segment, and some jumbo frames are
    /// multiples by chance.
    fn vote(&mut self, divisor: u32) {
        if divisor == self.divisor {
            self.lead = self.lead.saturating_add(1);
        } else if self.lead > 0 {
            self.lead -= 1;
        } else {
            (self.divisor, self.lead) = (divisor, 1);
        }
    }

    /// The size of a full segment, as far as it is known.
    pub fn bytes(&self) -> u32 {
        match (self.announced, self.largest) {
            (0, largest) if largest > ETHERNET_MSS && self.divisor > 0 => self.divisor,
            (0, 1..=JUMBO) => self.largest,
            (0, _) => DEFAULT_SEGMENT,
            (announced, 0) => announced,
            (announced, largest) => announced.min(largest),
        }
    }

    /// Whether the size was neither announced nor seen on the wire.
    pub fn is_guess(&self) -> bool {
        self.announced == 0 && (self.largest == 0 || self.largest > ETHERNET_MSS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segment size after these payloads, each seen several times in turn.
    fn after(payloads: &[u32]) -> (u32, bool) {
        let mut size = SegmentSize::default();
        for payload in payloads.repeat(10) {
            size.on_payload(payload);
        }
        (size.bytes(), size.is_guess())
    }

    #[test]
    fn packets_that_were_put_together_are_several_segments() {
        for (payloads, bytes) in [
            (&[2896][..], 1448),
            (&[5792, 2920, 14_480, 14_480], 1448),
            (&[2920], 1460),
            (&[2880, 4320], 1440),
            // An unusual size, which is also seen alone; and the last segments of writes.
            (&[1358, 2716, 4074], 1358),
            (&[14_480, 14_480, 15_000], 1448),
            // Small requests do not show the size of a full segment.
            (&[2, 8948], 8948),
            (&[4, 2896], 1448),
        ] {
            assert_eq!(after(payloads), (bytes, true), "{payloads:?}");
        }
    }

    #[test]
    fn jumbo_frames_stay_whole() {
        for size in [8948, 8960, 8928, 8940, 3948] {
            assert_eq!(after(&[size]), (size, true));
            assert_eq!(after(&[size, size, 2896]), (size, true));
        }
    }

    #[test]
    fn what_was_announced_or_seen_is_no_guess() {
        assert_eq!(after(&[1448, 600]), (1448, false));
        assert_eq!(after(&[]), (DEFAULT_SEGMENT, true));
        let mut size = SegmentSize::default();
        size.set_mss(1448);
        assert_eq!((size.bytes(), size.is_guess()), (1448, false));
        size.on_payload(2896);
        assert_eq!((size.bytes(), size.is_guess()), (1448, false));
        size.set_mss(8948);
        assert_eq!((size.bytes(), size.is_guess()), (2896, false));
    }
}
