//! The programs that echo marks on ACKs to the data receiver (see `bpf/echo.bpf.c`).

use ackwise_bpf::echo as sys;
use ackwise_netdev::Interface;
use aya::maps::PerCpuArray;
use serde::{Deserialize, Serialize};

use crate::observer::{Observer, Source};
use crate::{AttachMode, Error};

const SOURCE: Source = Source {
    object: sys::OBJECT,
    l3_off: "echo_options",
    egress: "ackwise_echo_acks",
    ingress: "ackwise_echo_data",
};

/// The counters of ACK congestion control (ACC, RFC 3449 §4.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acc {
    /// Connections that began without ECN.
    pub connections: u64,
    /// Connections with ECN or AccECN, which are left alone.
    pub with_ecn: u64,
    /// ACKs that left and could carry a mark.
    pub capable: u64,
    /// Those of `capable` that the queue marked.
    pub marks: u64,
    /// Data segments that told the receiver of marks.
    pub echoes: u64,
    /// Marked ACKs of connections older than this gateway, whose receivers are not told.
    pub unknown: u64,
}

/// The programs, attached until this is dropped.
#[derive(Debug)]
pub(crate) struct Echo(Observer);

impl Echo {
    /// Attaches the programs. `mode` is how the gateway's own program is attached.
    pub fn install(interface: &Interface, mode: AttachMode) -> Result<Self, Error> {
        Observer::install(&SOURCE, interface, mode).map(Self)
    }

    /// Returns the counters, summed over all CPUs.
    pub fn counters(&self) -> Result<Acc, Error> {
        const MAP: &str = "echo_counters";
        let failed = ackwise_netdev::Error::map(MAP);
        let map = self.0.bpf.map(MAP);
        let map = map.ok_or_else(|| ackwise_netdev::Error::no_map(MAP))?;
        let map: PerCpuArray<_, sys::aw_echo_counters> =
            PerCpuArray::try_from(map).map_err(&failed)?;
        let values = map.get(&0, 0).map_err(&failed)?;
        Ok(values.iter().fold(Acc::default(), |sum, one| Acc {
            connections: sum.connections + one.plain,
            with_ecn: sum.with_ecn + one.other,
            capable: sum.capable + one.capable,
            marks: sum.marks + one.marks,
            echoes: sum.echoes + one.echoes,
            unknown: sum.unknown + one.unknown,
        }))
    }

    /// Detaches the programs. The counters can still be read.
    pub fn detach(&mut self) {
        self.0.detach();
    }
}

#[cfg(test)]
mod tests {
    use ackwise_headers::{checksum, protocol};
    use aya::programs::{SchedClassifier, TestRun, TestRunOptions};

    use super::*;
    use crate::testing::{tcp_v4, tcp_v6};

    const NOT_ECT: u8 = 0;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    const ECE: u16 = 0x40;
    const CWR: u16 = 0x80;
    const AE: u16 = 0x100;
    const SYN: u16 = 2;
    const ACK: u16 = 0x10;

    /// Programs that are not attached.
    fn echo() -> Echo {
        // SAFETY: no arguments, cannot fail.
        let user = unsafe { libc::geteuid() };
        assert_eq!(user, 0, "this test loads BPF programs: run it as root");
        Echo(Observer::load(&SOURCE, &Interface::find("lo").unwrap()).unwrap())
    }

    /// A segment of the connection between the ports 1000 and 80, outgoing or incoming.
    #[derive(Clone, Copy)]
    struct Seg {
        version: u8,
        out: bool,
        flags: u16,
        ecn: u8,
        data: &'static [u8],
        /// The VLAN of the tag inside the frame.
        vlan: Option<u16>,
    }

    fn out(flags: u16, ecn: u8) -> Seg {
        Seg {
            version: 4,
            out: true,
            flags,
            ecn,
            data: b"",
            vlan: None,
        }
    }

    fn data(flags: u16) -> Seg {
        let (out, data, ecn): (_, &[u8], _) = (false, b"some data", NOT_ECT);
        Seg {
            version: 4,
            out,
            flags,
            ecn,
            data,
            vlan: None,
        }
    }

    fn tcp_checksum(packet: &[u8]) -> [u8; 2] {
        let (addresses, tcp) = if packet[0] >> 4 == 4 {
            (&packet[12..20], &packet[20..])
        } else {
            (&packet[8..40], &packet[40..])
        };
        checksum::of_segment(addresses, protocol::TCP, tcp)
    }

    impl Seg {
        fn frame(self) -> Vec<u8> {
            let (from, to) = if self.out { (1000, 80) } else { (80, 1000) };
            let mut packet = if self.version == 4 {
                let mut packet = tcp_v4(from, to, self.data);
                if !self.out {
                    let (near, far) = packet[12..20].split_at_mut(4);
                    near.swap_with_slice(far);
                }
                packet[1] = 0xb8 | self.ecn;
                packet[10..12].fill(0);
                let sum = checksum::of(&packet[..20]);
                packet[10..12].copy_from_slice(&sum);
                packet
            } else {
                let mut packet = tcp_v6(from, to, self.data);
                if !self.out {
                    let (near, far) = packet[8..40].split_at_mut(16);
                    near.swap_with_slice(far);
                }
                packet[1] = self.ecn << 4 | 5;
                packet
            };
            let tcp = if self.version == 4 { 20 } else { 40 };
            let word = 0x5000 | self.flags;
            packet[tcp + 12..tcp + 14].copy_from_slice(&word.to_be_bytes());
            let sum = tcp_checksum(&packet);
            packet[tcp + 16..tcp + 18].copy_from_slice(&sum);
            let kind: [u8; 2] = if self.version == 4 {
                [8, 0]
            } else {
                [0x86, 0xdd]
            };
            let tag = self
                .vlan
                .map_or(vec![], |vlan| [[0x81, 0], vlan.to_be_bytes()].concat());
            [&[0; 12], &tag[..], &kind[..], &packet].concat()
        }

        /// Runs the program, and returns the packet's ECN bits and its flags. The checksums must be
        /// right.
        fn through(self, echo: &Echo) -> (u8, u16) {
            let name = if self.out {
                SOURCE.egress
            } else {
                SOURCE.ingress
            };
            let before = self.frame();
            let mut after = vec![0; before.len()];
            let mut options = TestRunOptions::new();
            options.data_in = Some(&before);
            options.data_out = Some(&mut after);
            let program: &SchedClassifier = echo.0.bpf.program(name).unwrap().try_into().unwrap();
            let verdict = program.test_run(options).unwrap().return_value;
            assert_eq!(verdict as i32, -1, "TC_ACT_UNSPEC");
            let ip = &after[if self.vlan.is_some() { 18 } else { 14 }..];
            let (class, tcp) = if self.version == 4 {
                assert_eq!(checksum::of(&ip[..20]), [0, 0], "IPv4 header");
                assert_eq!(ip[1] & !CE, 0xb8, "DSCP");
                (ip[1] & CE, &ip[20..])
            } else {
                assert_eq!(ip[1] & 0xf, 5, "flow label");
                (ip[1] >> 4 & CE, &ip[40..])
            };
            assert_eq!(tcp_checksum(ip), [0, 0], "TCP");
            assert_eq!(tcp[20..], *self.data);
            (class, u16::from_be_bytes([tcp[12], tcp[13]]) & 0xfff)
        }
    }

    #[test]
    fn a_mark_is_told_once_and_leaves_unmarked() {
        for version in [4, 6] {
            let echo = echo();
            let v = |seg: Seg| Seg { version, ..seg };
            v(out(SYN, NOT_ECT)).through(&echo);
            v(Seg {
                data: b"",
                ..data(SYN | ACK)
            })
            .through(&echo);
            assert_eq!(v(data(ACK)).through(&echo), (NOT_ECT, ACK));
            assert_eq!(v(out(ACK, ECT0)).through(&echo), (NOT_ECT, ACK));
            assert_eq!(v(data(ACK)).through(&echo), (NOT_ECT, ACK));
            assert_eq!(v(out(ACK, CE)).through(&echo), (NOT_ECT, ACK));
            assert_eq!(v(out(ACK, CE)).through(&echo), (NOT_ECT, ACK));
            // A segment without data does not echo; one with data does, once.
            let nothing = Seg {
                data: b"",
                ..data(ACK)
            };
            assert_eq!(v(nothing).through(&echo), (NOT_ECT, ACK));
            assert_eq!(v(data(ACK)).through(&echo), (NOT_ECT, ACK | ECE));
            assert_eq!(v(data(ACK)).through(&echo), (NOT_ECT, ACK));
            // Outgoing data keep their mark: the far end answers it.
            let upload = Seg {
                data: b"x",
                ..out(ACK, CE)
            };
            assert_eq!(v(upload).through(&echo), (CE, ACK));
            let counted = echo.counters().unwrap();
            let expected = Acc {
                connections: 1,
                with_ecn: 0,
                capable: 3,
                marks: 2,
                echoes: 1,
                unknown: 0,
            };
            assert_eq!(counted, expected);
        }
    }

    #[test]
    fn nothing_of_a_connection_with_ecn_is_touched() {
        // RFC 3168, and AccECN with each of its answers (RFC 9768 table 2).
        for answer in [ECE, AE, AE | CWR, CWR, AE | ECE, AE | CWR | ECE] {
            let echo = echo();
            out(SYN | AE | CWR | ECE, NOT_ECT).through(&echo);
            let synack = |flags| Seg {
                data: b"",
                ..data(SYN | ACK | flags)
            };
            synack(answer).through(&echo);
            // The SYN-ACK is repeated without ECN, in case ECN caused the loss.
            synack(0).through(&echo);
            for flags in [ACK, ACK | AE | ECE, ACK | CWR] {
                assert_eq!(out(flags, CE).through(&echo), (CE, flags));
                assert_eq!(out(flags, ECT0).through(&echo), (ECT0, flags));
                assert_eq!(data(flags).through(&echo), (NOT_ECT, flags));
            }
            let counted = echo.counters().unwrap();
            assert_eq!((counted.with_ecn, counted.marks, counted.echoes), (1, 0, 0));
            // The same ports again, this time without ECN.
            out(SYN, NOT_ECT).through(&echo);
            synack(0).through(&echo);
            assert_eq!(out(ACK, CE).through(&echo), (NOT_ECT, ACK));
            assert_eq!(data(ACK).through(&echo), (NOT_ECT, ACK | ECE));
        }
    }

    #[test]
    fn nor_of_one_that_is_older() {
        let echo = echo();
        assert_eq!(out(ACK, CE).through(&echo), (CE, ACK));
        assert_eq!(data(ACK).through(&echo), (NOT_ECT, ACK));
        assert_eq!(echo.counters().unwrap().unknown, 1);
    }

    #[test]
    fn equal_connections_in_two_vlans_are_two() {
        let echo = echo();
        let synack = Seg {
            data: b"",
            ..data(SYN | ACK)
        };
        // One without ECN and one with it.
        let [first, second] = [5, 7].map(|vlan| {
            move |seg| Seg {
                vlan: Some(vlan),
                ..seg
            }
        });
        first(synack).through(&echo);
        second(Seg {
            flags: SYN | ACK | ECE,
            ..synack
        })
        .through(&echo);
        assert_eq!(second(out(ACK, CE)).through(&echo), (CE, ACK));
        assert_eq!(first(out(ACK, CE)).through(&echo), (NOT_ECT, ACK));
        assert_eq!(second(data(ACK)).through(&echo), (NOT_ECT, ACK));
        assert_eq!(first(data(ACK)).through(&echo), (NOT_ECT, ACK | ECE));
    }
}
