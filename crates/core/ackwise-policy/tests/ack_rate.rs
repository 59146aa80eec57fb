//! TCP ACK Rate Request: its bytes as written down by hand from the draft, malformed options, and
//! the effect of a request on the ACKs of a flow.

use ackwise_policy::{
    AckRate, AskedAckRate, Config, Flow, FlowConfig, Handshake, Policy, Segment, TcpFlags, Verdict,
    sys,
};
use proptest::prelude::*;

const NOP: u8 = 1;
const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];

#[test]
fn the_bytes_are_those_of_the_draft() {
    assert_eq!(*AckRate::Capable.bytes(), [254, 4, 0x00, 0xac]);
    let exid = 5690_u16.to_be_bytes();
    assert_eq!(
        *AckRate::ControlPermitted.bytes(),
        [254, 4, exid[0], exid[1]]
    );
    assert_eq!(
        *AckRate::Every(1).bytes(),
        [254, 5, 0x00, 0xac, 0b0000_0010]
    );
    assert_eq!(
        *AckRate::Every(2).bytes(),
        [254, 5, 0x00, 0xac, 0b0000_0100]
    );
    assert_eq!(
        *AckRate::Every(127).bytes(),
        [254, 5, 0x00, 0xac, 0b1111_1110]
    );
    assert_eq!(*AckRate::Now.bytes(), [254, 5, 0x00, 0xac, 0b0000_0000]);
    // A number that does not fit into seven bits, and 0, which is another request.
    assert_eq!(AckRate::Every(200).bytes(), AckRate::Every(127).bytes());
    assert_eq!(AckRate::Every(0).bytes(), AckRate::Every(1).bytes());
}

#[test]
fn it_is_found_among_other_options() {
    let linux_syn = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 254, 4, 0, 0xac,
    ];
    assert_eq!(AckRate::find(&linux_syn), Some(AckRate::Capable));
    let mut data = TIMESTAMPS.to_vec();
    data.extend([254, 5, 0, 0xac, 8 << 1, NOP, NOP, NOP]);
    assert_eq!(AckRate::find(&data), Some(AckRate::Every(8)));
    // The end of the list as padding; and the reserved bit set, which has no meaning.
    data.truncate(17);
    data.extend([0, 0xff, 0xff]);
    data[16] |= 1;
    assert_eq!(AckRate::find(&data), Some(AckRate::Every(8)));
    assert_eq!(AckRate::find(&[254, 5, 0, 0xac, 1]), Some(AckRate::Now));
    // The option's last byte is the 40th.
    let mut full = vec![NOP; 35];
    full.extend(AckRate::Every(127).bytes().iter());
    assert_eq!(AckRate::find(&full), Some(AckRate::Every(127)));
}

#[test]
fn what_is_not_of_this_form_says_nothing() {
    let nothing: [&[u8]; 12] = [
        &[],
        &TIMESTAMPS,
        // Other experiments under RFC 6994: TCP Fast Open, and a long one.
        &[254, 4, 0xf9, 0x89],
        &[254, 8, 0, 0xad, 8, 0, 0, 0],
        // The other experimental kind, and the 32-bit ExID.
        &[253, 5, 0, 0xac, 8],
        // Lengths that are not in the draft.
        &[254, 6, 0, 0xac, 8, 8],
        &[254, 3, 0],
        &[254, 2],
        // Truncated.
        &[254, 5, 0, 0xac],
        &[254],
        // Present twice: which one counts?
        &[254, 5, 0, 0xac, 8, 254, 5, 0, 0xac, 16],
        // The list is malformed after it.
        &[254, 5, 0, 0xac, 8, 8, 0],
    ];
    for options in nothing {
        assert_eq!(AckRate::find(options), None, "{options:?}");
    }
    assert_eq!(AckRate::find(&[NOP; 41]), None, "longer than options are");
}

/// A second implementation of the option's parser, over a whole list.
fn expected(options: &[u8]) -> Option<AckRate> {
    let (mut rest, mut found) = (options, None);
    while let [kind, tail @ ..] = rest {
        match kind {
            0 => break,
            1 => rest = tail,
            _ => {
                let len = usize::from(*tail.first()?);
                if len < 2 || len > rest.len() {
                    return None;
                }
                let (option, behind) = rest.split_at(len);
                let said = match option {
                    [254, 4, 0, 0xac] => Some(AckRate::Capable),
                    [254, 4, 0x16, 0x3a] => Some(AckRate::ControlPermitted),
                    [254, 5, 0, 0xac, 0 | 1] => Some(AckRate::Now),
                    [254, 5, 0, 0xac, value] => Some(AckRate::Every(value / 2)),
                    _ => None,
                };
                if said.is_some() && found.is_some() {
                    return None;
                }
                found = found.or(said);
                rest = behind;
            }
        }
    }
    found
}

/// Options that occur in practice, and bytes that resemble them.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let near = (prop_oneof![Just(254_u8), any::<u8>()], 0..8_u8, any::<u8>());
    prop_oneof![
        3 => (0..128_u8).prop_map(|r| AckRate::Every(r).bytes().to_vec()),
        1 => Just(AckRate::Capable.bytes().to_vec()),
        1 => Just(AckRate::Now.bytes().to_vec()),
        1 => Just(AckRate::ControlPermitted.bytes().to_vec()),
        2 => Just(TIMESTAMPS.to_vec()),
        2 => (0..2_u8).prop_map(|kind| vec![kind]),
        2 => near.clone().prop_map(|(kind, len, value)| vec![kind, len, 0, 0xac, value]),
        1 => near.prop_map(|(kind, len, value)| vec![kind, len, 0x16, 0x3a, value]),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_options_are_read_alike(parts in prop::collection::vec(option(), 0..6)) {
        let mut options = parts.concat();
        options.truncate(40);
        prop_assert_eq!(AckRate::find(&options), expected(&options));
    }

    #[test]
    fn any_bytes_are_read_alike(options in prop::collection::vec(any::<u8>(), 0..=40)) {
        prop_assert_eq!(AckRate::find(&options), expected(&options));
    }
}

const MSS: u32 = 1000;
const WINDOW: u16 = 60_000;

fn segment(flags: TcpFlags, seq: u32, ack: u32, payload: u32) -> Segment {
    Segment::from_raw(sys::aw_seg {
        ip_version: 4,
        ttl: 64,
        seq,
        ack,
        payload,
        len: 40 + payload,
        flags: flags.bits(),
        window: WINDOW,
        ce_bytes: u32::MAX,
        e0_bytes: u32::MAX,
        e1_bytes: u32::MAX,
        ..Default::default()
    })
}

/// A flow under `every-n`, whose receiver acknowledges every second segment.
struct Thinned {
    config: FlowConfig,
    asked: AskedAckRate,
    flow: Flow,
    seq: u32,
}

impl Thinned {
    fn new(policy: &str) -> Thinned {
        let config: Config = policy.parse().expect("a policy");
        let mut handshake = Handshake::default();
        let scaled = |flags, acks: bool| {
            let mut raw = *segment(flags, 0, u32::from(acks), 0).raw();
            raw.opts = sys::AW_OPT_WSCALE as u16;
            Segment::from_raw(raw)
        };
        handshake.on_segment(&scaled(TcpFlags::SYN, false), false, 0);
        handshake.on_segment(&scaled(TcpFlags::SYN | TcpFlags::ACK, true), true, 0);
        Thinned {
            config: FlowConfig::new(&config),
            asked: AskedAckRate::default(),
            flow: Flow::new(Some(&handshake), 1),
            seq: 1,
        }
    }

    /// Sends one more segment with this request.
    fn data(&mut self, said: Option<AckRate>) -> bool {
        let data = segment(TcpFlags::ACK, self.seq, 1, MSS);
        self.flow.on_data(&self.config, &data, 1, 1);
        self.seq += MSS;
        said.is_some_and(|said| self.asked.on_data(&self.flow, &data, said))
    }

    /// Whether an ACK of everything that arrived leaves.
    fn ack(&mut self) -> bool {
        let ack = segment(TcpFlags::ACK, 1, self.seq, 0);
        let config = self.asked.config(&self.config, &self.flow, &ack);
        self.flow.on_ack(&config, &ack, 1).verdict == Verdict::Send
    }

    /// The number of segments that each departing ACK covers, with one ACK per two segments.
    fn covered(&mut self, segments: u32) -> Vec<u32> {
        let (mut covered, mut since) = (Vec::new(), 0);
        for _ in 0..segments / 2 {
            self.data(None);
            self.data(None);
            since += 2;
            if self.ack() {
                covered.push(std::mem::take(&mut since));
            }
        }
        covered
    }
}

#[test]
fn the_receiver_does_as_it_is_asked() {
    let mut flow = Thinned::new("every-n:n=1,warm=0");
    assert_eq!(flow.covered(40), [2; 20], "nobody has asked");
    assert!(flow.data(Some(AckRate::Every(8))));
    flow.data(None);
    flow.ack();
    flow.covered(6); // whatever was in progress
    assert_eq!(flow.asked.segments(), Some(8));
    assert_eq!(flow.covered(64), [8; 8]);
    assert!(flow.data(Some(AckRate::Every(20))));
    flow.data(None);
    flow.ack();
    flow.covered(18);
    assert_eq!(flow.covered(100), [20; 5]);
    assert!(flow.data(Some(AckRate::Every(1))));
    flow.data(None);
    assert!(flow.ack());
    assert_eq!(
        flow.covered(40),
        [2; 20],
        "no ACK that the host makes waits"
    );
}

#[test]
fn an_ack_at_once_is_one_ack() {
    let mut flow = Thinned::new("every-n:n=1,warm=0");
    flow.covered(40);
    flow.data(Some(AckRate::Every(16)));
    flow.data(None);
    flow.ack();
    flow.covered(14);
    assert!(flow.covered(4).is_empty(), "4 of 16 have arrived");
    assert!(flow.data(Some(AckRate::Now)));
    flow.data(None);
    assert!(flow.ack(), "the segment is covered");
    assert_eq!(flow.asked.segments(), Some(16), "the rate is as it was");
    assert_eq!(flow.covered(32), [16; 2]);
}

/// Ayadi's bit asks for the same as R = 0; nothing else in a header does.
#[test]
fn a_bit_of_the_header_asks_for_one_ack_at_once() {
    assert_eq!(TcpFlags::ACK_REQUEST.bits(), 0x800);
    let mut flow = Thinned::new("every-n:n=16,warm=0");
    flow.covered(64);
    let asks = |flow: &Thinned, flags, payload| {
        let data = segment(flags, flow.seq - MSS, 1, payload);
        flow.asked.clone().on_bit(&flow.flow, &data)
    };
    let others = TcpFlags::all() - TcpFlags::ACK_REQUEST - TcpFlags::SYN;
    assert!(!asks(&flow, others, MSS), "{others:?}");
    let bit = TcpFlags::ACK | TcpFlags::ACK_REQUEST;
    assert!(asks(&flow, bit, MSS));
    assert!(!asks(&flow, bit, 0), "a pure ACK asks for nothing");
    assert!(!asks(&flow, bit | TcpFlags::SYN, MSS));

    assert!(flow.covered(4).is_empty(), "4 of 16 have arrived");
    flow.data(None);
    flow.data(None);
    let data = segment(bit, flow.seq - MSS, 1, MSS);
    assert!(flow.asked.on_bit(&flow.flow, &data));
    let before = segment(TcpFlags::ACK, 1, flow.seq - MSS, 0);
    let config = flow.asked.config(&flow.config, &flow.flow, &before);
    let verdict = flow.flow.on_ack(&config, &before, 1).verdict;
    assert_ne!(verdict, Verdict::Send, "it does not cover the segment");
    assert!(flow.ack(), "this one does");
    assert_eq!(flow.asked.segments(), None, "no rate was asked for");
    assert_eq!(flow.covered(32), [16; 2], "and it was for once");
}

#[test]
fn two_segments_that_want_an_ack_at_once_get_one_each() {
    let mut flow = Thinned::new("every-n:n=1,warm=0");
    flow.covered(40);
    flow.data(Some(AckRate::Every(16)));
    flow.data(None);
    flow.ack();
    flow.covered(14);
    assert!(flow.data(Some(AckRate::Now)));
    let first = flow.seq;
    assert!(flow.data(Some(AckRate::Now)));
    // The ACK of the first arrives after the second.
    let ack = segment(TcpFlags::ACK, 1, first, 0);
    let config = flow.asked.config(&flow.config, &flow.flow, &ack);
    assert_eq!(flow.flow.on_ack(&config, &ack, 1).verdict, Verdict::Send);
    assert!(flow.ack(), "and the second's");
    assert_eq!(flow.covered(32), [16; 2], "then the rate is as it was");
}

#[test]
fn more_than_the_window_holds_is_not_obeyed() {
    let mut flow = Thinned::new("every-n:n=4,warm=0");
    flow.covered(40);
    assert!(flow.data(Some(AckRate::Every(61))));
    flow.data(None);
    flow.ack();
    flow.covered(2); // whatever was in progress
    assert_eq!(flow.covered(64), [4; 16], "60 segments are the window");
    assert!(flow.data(Some(AckRate::Every(60))));
    flow.data(None);
    flow.ack();
    flow.covered(58);
    assert_eq!(flow.covered(120), [60; 2]);
}

#[test]
fn news_pass_whatever_is_asked() {
    let mut flow = Thinned::new("every-n:n=1,warm=0");
    flow.covered(40);
    flow.data(Some(AckRate::Every(64)));
    flow.ack();
    // A segment is missing: each ACK that the receiver now makes is a duplicate.
    flow.seq += MSS;
    let hole = flow.seq - MSS;
    for _ in 0..4 {
        flow.data(None);
        let ack = segment(TcpFlags::ACK, 1, hole, 0);
        let config = flow.asked.config(&flow.config, &flow.flow, &ack);
        assert_eq!(flow.flow.on_ack(&config, &ack, 1).verdict, Verdict::Send);
    }
}

#[test]
fn only_every_n_is_told() {
    let asked = {
        let mut flow = Thinned::new("every-n:n=1,warm=0");
        flow.covered(40);
        flow.data(Some(AckRate::Every(9)));
        flow.asked
    };
    let ack = segment(TcpFlags::ACK, 1, 41_001, 0);
    for policy in Policy::all() {
        let config = FlowConfig::new(&Config::new(policy));
        let told = asked.config(&config, &Flow::new(None, 1), &ack);
        let same = config.raw().policy.param == told.raw().policy.param;
        assert_eq!(same, policy.name() != "every-n", "{}", policy.name());
    }
}
