//! The bit that requests an immediate ACK, between two ends: which segments have it.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::{Direction, Flags};
use tcp_support::{MS, Net, Pipe, SECOND, Sent, ends, lose};

const MSS: u64 = 1448;
const DELAY: u64 = 50 * MS;

/// A transfer of 400 segments that requests ACKs, with at most `window` segments outstanding.
fn asking(socket: &SocketOptions, window: u32, lost: &[u64]) -> Net {
    let model = TcpModel {
        handshake: Some(false),
        ack_every: Some(1),
        window_limit: Some(QueueLimit::Packets(window)),
        ask_ack: Some(true),
        ask_ack_once: Some(true),
        ..TcpModel::default()
    };
    let forward = Pipe::new(DELAY).judge(lose(MSS, lost));
    let mut net = Net::new(ends("sack", &model, socket), forward, Pipe::new(DELAY));
    net.start(400 * MSS);
    net.run_until(20 * SECOND);
    assert_eq!(net.receiver.delivered(), 400 * MSS);
    net
}

/// Checks which segments request an ACK; returns how many new ones and how many retransmissions do.
fn check(net: &Net) -> (usize, usize) {
    let (mut new, mut again) = (0, 0);
    // The end of the outstanding request.
    let mut end = 0;
    for sent in &net.log {
        let packet = &sent.packet;
        if packet.direction == Direction::Ack || packet.payload == 0 {
            continue;
        }
        let asks = packet.flags.contains(Flags::ACK_REQUEST);
        if packet.flags.contains(Flags::RETRANSMIT) {
            assert!(asks, "what is sent again asks: {packet:?}");
            again += 1;
        } else if asks {
            let acks = net.acks();
            let come = acks.iter().filter(|ack| ack.at + DELAY <= sent.at);
            let acked = come.map(|ack| ack.packet.ack).max().unwrap_or(0);
            assert!(acked >= end, "{end} is asked for, {acked} acknowledged");
            new += 1;
        }
        if asks {
            end = end.max(packet.seq + u64::from(packet.payload));
        }
    }
    (new, again)
}

#[test]
fn a_window_asks_once() {
    let (new, again) = check(&asking(&SocketOptions::default(), 10, &[]));
    assert_eq!(again, 0);
    assert!((39..=45).contains(&new), "{new} of 40 windows");
}

/// Segment 49 makes a request and is lost, and 40 is retransmitted: 49's request is still outstanding.
#[test]
fn a_retransmission_asks_and_takes_no_request_back() {
    let net = asking(&SocketOptions::default(), 10, &[40, 49, 110, 201]);
    let is = |s: &Sent, flag| s.packet.flags.contains(flag);
    let asks = |s: &Sent| {
        let new = is(s, Flags::ACK_REQUEST) && !is(s, Flags::RETRANSMIT);
        new && s.packet.seq == 49 * MSS
    };
    assert!(net.log.iter().any(asks), "49 asks");
    let (new, again) = check(&net);
    assert!(again >= 4, "{again}");
    assert!((30..=60).contains(&new), "{new}");
}

/// Segment 49 makes a request. Once it is acknowledged, 52, 54 and 56 beyond it are retransmitted: their
/// request is outstanding until the last of them is acknowledged, and new data make none meanwhile.
#[test]
fn a_request_is_outstanding_to_the_farthest_end_that_asked() {
    let net = asking(&SocketOptions::default(), 10, &[49, 52, 54, 56]);
    let is = |s: &Sent, flag| s.packet.flags.contains(flag);
    let data: Vec<&Sent> = net.log.iter().filter(|s| s.packet.payload > 0).collect();
    let sent = |number: u64, again: bool| {
        let this = |s: &&&Sent| s.packet.seq == number * MSS && is(s, Flags::RETRANSMIT) == again;
        data.iter().find(this).expect("a segment")
    };
    let acks = net.acks();
    let acked = |number: u64| {
        let ack = acks.iter().find(|ack| ack.packet.ack > number * MSS);
        ack.expect("an ACK").at + DELAY
    };
    assert!(is(sent(49, false), Flags::ACK_REQUEST), "49 asks");
    let last = sent(56, true);
    assert!(acked(49) <= last.at);
    let meanwhile = |s: &&&Sent| {
        !is(s, Flags::RETRANSMIT) && s.packet.seq > last.packet.seq && s.at < acked(56)
    };
    let meanwhile = data.iter().filter(|s| s.at >= last.at).filter(meanwhile);
    let asks: Vec<bool> = meanwhile.map(|s| is(s, Flags::ACK_REQUEST)).collect();
    assert_eq!(asks, [false]);
    check(&net);
}

/// Four segments fit into the receiver's buffer, and the fifth does not.
#[test]
fn the_last_segment_of_the_receiver_s_window_asks() {
    let socket = SocketOptions {
        receive_buffer: Some(4 * MSS + 100),
        ..SocketOptions::default()
    };
    let net = asking(&socket, 100, &[]);
    let (new, again) = check(&net);
    assert_eq!(again, 0);
    assert!((95..=105).contains(&new), "{new} of 100 windows");
}
