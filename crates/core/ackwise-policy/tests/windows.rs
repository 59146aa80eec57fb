//! Windows of connections whose two sides do not offer the same scale. In the vectors' handshakes
//! they always do.

use ackwise_policy::{Flow, FlowConfig, Handshake, Segment, TcpFlags, sys};

const MSS: u32 = 1000;

fn segment(flags: TcpFlags) -> sys::aw_seg {
    sys::aw_seg {
        ip_version: 4,
        ttl: 64,
        flags: flags.bits(),
        window: 50_000,
        ce_bytes: u32::MAX,
        e0_bytes: u32::MAX,
        e1_bytes: u32::MAX,
        ..Default::default()
    }
}

/// A flow past its start. The receiver's SYN offers a scale; the sender's answer accepts it or not.
fn flow(config: &FlowConfig, taken: bool) -> Flow {
    let mut handshake = Handshake::default();
    let mut syn = segment(TcpFlags::SYN);
    syn.opts = (sys::AW_OPT_MSS | sys::AW_OPT_WSCALE) as u16;
    syn.mss = MSS as u16;
    syn.wscale = 7;
    handshake.on_segment(&Segment::from_raw(syn), true, 1);
    syn.flags |= TcpFlags::ACK.bits();
    if !taken {
        syn.opts = sys::AW_OPT_MSS as u16;
    }
    handshake.on_segment(&Segment::from_raw(syn), false, 2);
    let mut flow = Flow::new(Some(&handshake), 3);
    for n in 1..=20 {
        let mut data = segment(TcpFlags::ACK);
        data.seq = (n - 1) * MSS;
        data.payload = MSS;
        flow.on_data(config, &Segment::from_raw(data), 1, u64::from(n) * 10);
        if n <= 14 {
            let ack = ack(n * MSS, 50_000);
            flow.on_ack(config, &ack, u64::from(n) * 10 + 5);
        }
    }
    flow
}

fn ack(number: u32, window: u16) -> Segment {
    let mut ack = segment(TcpFlags::ACK);
    ack.ack = number;
    ack.window = window;
    Segment::from_raw(ack)
}

/// A scale that was refused is not the unit of the window (RFC 7323 §2.2), so rounding is no
/// explanation: the right edge moves back by two bytes.
#[test]
fn a_refused_scale_excuses_no_window_that_shrinks() {
    let config = FlowConfig::new(&"every-n:n=256,warm=0".parse().expect("a policy"));
    let reason = |taken: bool, window: u16| {
        let mut flow = flow(&config, taken);
        let held = flow.on_ack(&config, &ack(15 * MSS, 50_000), 1000);
        assert_eq!(held.reason.name(), "held");
        flow.on_ack(&config, &ack(16 * MSS, window), 1010)
            .reason
            .name()
    };
    assert_eq!(reason(false, 49_000), "held", "the edge stays");
    assert_eq!(reason(false, 48_998), "window-shrinks");
    // In units of 128 bytes, 7 units less are 896 bytes: the edge moved forward.
    assert_eq!(reason(true, 49_993), "held");
    // 8 units are 1024 bytes; the edge moved back by 24, less than a unit: rounding.
    assert_eq!(reason(true, 49_992), "held");
    assert_eq!(reason(true, 49_991), "window-shrinks");
}
