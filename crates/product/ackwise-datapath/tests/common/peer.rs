//! A data receiver that the test plays.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::ops::Range;

use super::transfer::pattern;
use super::{Frame, Read, SYN, Seg, Wire, ip, no_checksum_offload};

/// A receiver that the test plays: it makes each ACK, so that what the kernel's TCP sends is
/// determined.
pub struct Peer<'a> {
    far: &'a Wire,
    from: TcpStream,
    /// The sequence number of the first byte.
    first: u32,
    /// The sender's SYN-ACK.
    pub syn_ack: Read,
}

/// Payload bytes of a full segment without timestamps.
pub const FULL: usize = 560;

impl<'a> Peer<'a> {
    /// Connects to the near namespace, whose route has these attributes. The SYN has these
    /// additional options, a multiple of four bytes.
    pub fn connect(far: &'a Wire, route: &str, syn_options: &[u8]) -> Peer<'a> {
        no_checksum_offload("aw0");
        ip("link set aw0 address 02:00:00:00:00:12 mtu 600 gso_max_segs 1");
        ip("addr add 198.18.0.2/24 dev aw0");
        ip("neigh add 198.18.0.1 lladdr 02:00:00:00:00:11 dev aw0");
        ip(&format!("route replace 198.18.0.0/24 dev aw0 {route}"));
        // Tail loss probes would exceed the congestion window.
        let set = |name: &str, value: &str| {
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("sysctl");
        };
        set("tcp_early_retrans", "0");
        // Independent of the host's default.
        set("tcp_congestion_control", "reno");
        // All data are written at once.
        set("tcp_wmem", "4096 262144 262144");
        let server = TcpListener::bind("198.18.0.2:80").expect("bind");
        let syn = Seg {
            flags: SYN,
            seq: 0,
            ack: 0,
            window: 60_000,
            // The MSS, and SACK permitted.
            options: [&[2, 4, 2, 48, 1, 1, 4, 2], syn_options].concat(),
            ..Seg::ack(0)
        };
        far.send(&syn.frame());
        let answer = far.expect(1).remove(0);
        let syn_ack = Seg::read(&answer.bytes).expect("a SYN-ACK");
        let first = syn_ack.seq.wrapping_add(1);
        let done = Seg {
            window: 60_000,
            ..Seg::ack(first)
        };
        far.send(&done.frame());
        let (from, _) = server.accept().expect("accept");
        from.set_nodelay(true).expect("nodelay");
        Peer {
            far,
            from,
            first,
            syn_ack,
        }
    }

    pub fn write(&mut self, segments: usize) {
        let bytes = pattern(0, segments * FULL);
        self.from.write_all(&bytes).expect("write");
    }

    /// Acknowledges this many segments, with a window of this many bytes.
    pub fn ack(&self, segments: u32, window: u16) {
        let ack = self.first.wrapping_add(segments * FULL as u32);
        let seg = Seg {
            window,
            ..Seg::ack(ack)
        };
        self.far.send(&seg.frame());
    }

    /// The same, with a SACK block for some segments beyond a gap.
    pub fn ack_and_sack(&self, segments: u32, sacked: Range<u32>) {
        let at = |segments: u32| self.first.wrapping_add(segments * FULL as u32);
        let mut options = vec![1, 1, 5, 10];
        options.extend(at(sacked.start).to_be_bytes());
        options.extend(at(sacked.end).to_be_bytes());
        let seg = Seg {
            window: 60_000,
            options,
            ..Seg::ack(at(segments))
        };
        self.far.send(&seg.frame());
    }

    /// An acknowledgment of the stream's first bytes, to be changed and sent.
    pub fn ack_of(&self, bytes: u32) -> Seg {
        Seg {
            window: 60_000,
            ..Seg::ack(self.first.wrapping_add(bytes))
        }
    }

    /// Sends a frame.
    pub fn send(&self, frame: &[u8]) {
        self.far.send(frame);
    }

    /// The next segments that arrive.
    pub fn expect(&self, segments: usize) -> Vec<Frame> {
        self.far.expect(segments)
    }

    /// The offset of a sequence number in the stream.
    pub fn offset(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.first)
    }
}
