//! The initial windows: the sender's own, and the one that the receiver offers.

mod tcp_support;

use std::sync::Arc;

use ackwise_scenario::tcp_model::{RECEIVE_BUFFER, Stack};
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::FlowId;
use ackwise_sim::tcp::{Receiver, Sender, configure};
use tcp_support::{MS, Net, Pipe, SECOND};

/// Linux allows ten segments of any size; RFC 6928 §2 bounds them in bytes.
#[test]
fn the_initial_window_of_large_segments_is_bounded_by_the_rfc() {
    let initial = |stack, segment| {
        let model = TcpModel {
            stack: Some(stack),
            segment: Some(segment),
            ..TcpModel::default()
        };
        let (sender, _) = configure("reno", &model, &SocketOptions::default(), 9000).unwrap();
        sender.initial_window
    };
    let sizes = [536, 1448, 1460, 4000, 8948];
    assert_eq!(
        sizes.map(|segment| initial(Stack::Rfc, segment)),
        [5360, 14_480, 14_600, 14_600, 17_896]
    );
    assert_eq!(
        sizes.map(|segment| initial(Stack::Linux, segment)),
        sizes.map(|segment| 10 * u64::from(segment))
    );
    assert_eq!(initial(Stack::Ns2, 1000), 2000);
}

/// Ten segments of 8948 bytes exceed the first window. Its limit rises after a round
/// trip in which more was read than that window.
#[test]
fn the_offered_window_opens_for_large_segments() {
    let (sender, receiver) = configure(
        "reno",
        &TcpModel::default(),
        &SocketOptions::default(),
        9000,
    )
    .unwrap();
    let ends = (
        Sender::new(FlowId(0), Arc::new(sender)),
        Receiver::new(FlowId(0), Arc::new(receiver)),
    );
    let mut net = Net::new(ends, Pipe::new(50 * MS), Pipe::new(50 * MS));
    net.start(u64::MAX);
    net.run_until(4 * SECOND);
    let widest = net.acks().iter().map(|ack| ack.packet.window).max();
    assert_eq!(widest, Some(RECEIVE_BUFFER / 8 * 5));
}
