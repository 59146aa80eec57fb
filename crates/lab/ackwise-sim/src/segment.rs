//! A simulated packet as the policies of `policy/` see it.

use ackwise_policy::{Options, Segment, TcpFlags, sys};

use crate::packet::{Direction, Flags, Packet};

/// A timestamp clock ticks once per µs, as in Linux with `tcp_usec_ts`. Half of its number space
/// lasts 36 minutes. In ns it would last 2.1 s, and echoes that waited in a deep queue would look
/// new.
const NANOS_PER_TICK: u64 = 1_000;

/// The window scale that a real stack negotiates for a window of this many bytes:
/// Linux's default receive buffers need 7, larger windows more.
pub fn window_shift(window: u64, scaling: bool) -> u8 {
    if !scaling {
        return 0;
    }
    let needed = 48u32.saturating_sub(window.leading_zeros().min(48)) as u8;
    needed.clamp(7, 14)
}

/// A packet's headers in the form of the C code: the low 32 bits of every counter, with the
/// window scaled down by `shift`.
pub fn segment(packet: &Packet, shift: u8) -> Segment {
    let flags = packet.flags;
    let syn = flags.contains(Flags::SYN);
    let mut raw = sys::aw_seg {
        ip_version: 4,
        ttl: 64,
        seq: packet.seq as u32,
        ack: packet.ack as u32,
        payload: packet.payload,
        len: packet.wire_len,
        ce_bytes: u32::MAX,
        e0_bytes: u32::MAX,
        e1_bytes: u32::MAX,
        ..Default::default()
    };
    raw.ip_ecn = match (flags.contains(Flags::CE), flags.contains(Flags::ECT)) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 0,
    };
    let mut tcp = TcpFlags::empty();
    for (ours, theirs) in [
        (Flags::SYN, TcpFlags::SYN),
        (Flags::FIN, TcpFlags::FIN),
        (Flags::ACK, TcpFlags::ACK),
        (Flags::PSH, TcpFlags::PSH),
        (Flags::ECE, TcpFlags::ECE),
        (Flags::CWR, TcpFlags::CWR),
    ] {
        tcp.set(theirs, flags.contains(ours));
    }
    // In flow.h this flag means that an ACK of this flow arrived marked (RFC 3449 §4.3).
    if packet.direction == Direction::Data && flags.contains(Flags::ACK_CE_ECHO) {
        tcp |= TcpFlags::ECE;
    }
    if packet.direction == Direction::Data && flags.contains(Flags::ACK_REQUEST) {
        tcp |= TcpFlags::ACK_REQUEST;
    }
    let mut options = Options::empty();
    if flags.contains(Flags::TIMESTAMPS) {
        options |= Options::TS;
        raw.tsval = (packet.tsval / NANOS_PER_TICK) as u32;
        raw.tsecr = (packet.tsecr / NANOS_PER_TICK) as u32;
    }
    for (i, block) in packet.sack.blocks().iter().enumerate() {
        raw.sack[2 * i] = block.start as u32;
        raw.sack[2 * i + 1] = block.end as u32;
        raw.n_sack += 1;
    }
    if raw.n_sack > 0 {
        options |= Options::SACK;
    }
    if !packet.ack_rate.is_none() {
        options |= Options::UNKNOWN;
    }
    if syn {
        options |= Options::WSCALE | Options::SACK_OK;
        raw.wscale = shift;
    }
    // The window of a SYN is not scaled (RFC 7323 §2.2).
    let scaled = packet.window >> if syn { 0 } else { shift };
    raw.window = u16::try_from(scaled).unwrap_or(u16::MAX);
    raw.flags = tcp.bits();
    raw.opts = options.bits();
    Segment::from_raw(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{AckRateOption, FlowId, Sack};

    /// An echo that waited behind seconds of queue is older than what was sent meanwhile, as on
    /// Linux, whose clocks tick at most once per µs.
    #[test]
    fn a_late_echo_is_old() {
        let at = |tsval| {
            let packet = Packet {
                flow: FlowId(0),
                direction: Direction::Ack,
                ack_rate: AckRateOption::NONE,
                flags: Flags::ACK | Flags::TIMESTAMPS,
                wire_len: 52,
                payload: 0,
                seq: 0,
                ack: 1,
                window: 1 << 16,
                tsval,
                tsecr: 0,
                sack: Sack::default(),
            };
            segment(&packet, 7).raw().tsval
        };
        for seconds in [1, 3, 10, 1000] {
            let later = at(seconds * 1_000_000_000)
                .wrapping_sub(at(0))
                .cast_signed();
            assert!(later > 0, "{seconds} s");
        }
    }
}
