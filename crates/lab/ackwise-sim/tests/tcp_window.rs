//! The window that the receiver offers.

mod tcp_support;

use std::sync::Arc;

use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::FlowId;
use ackwise_sim::tcp::{Receiver, Sender, configure};
use tcp_support::{MS, Net, Pipe, SECOND};

/// Ten segments of 8948 bytes are more than the first window: what raises its limit is a round
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
    net.run_until(3 * SECOND);
    let widest = net.acks().iter().map(|ack| ack.packet.window).max();
    assert_eq!(widest, Some(3_932_160));
}
