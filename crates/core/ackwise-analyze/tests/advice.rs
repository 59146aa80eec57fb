//! The advice depends on whether ACKs are scarce on the link, not on how many they are.

mod common;

use ackwise_analyze::{Analysis, Analyzer, Options, Pays, read};
use common::{analyze, capture, packets, pcap};

const ETHERNET: u32 = 1;

fn on_link(up_bps: u64, down_bps: u64) -> Analysis {
    let mut analyzer = Analyzer::new(Options {
        up_bps: Some(up_bps),
        down_bps: Some(down_bps),
        ..Options::default()
    });
    read(&capture("loss.pcap")[..], &mut |packet| {
        analyzer.packet(packet)
    })
    .unwrap();
    analyzer.finish()
}

#[test]
fn thinning_pays_on_a_thin_uplink_and_saves_packets_on_a_wide_one() {
    let thin = on_link(50_000, 50_000_000);
    assert_eq!(thin.advice.pays, Pays::Yes, "{:?}", thin.advice);
    let wide = on_link(1_000_000_000, 1_000_000_000);
    assert!(wide.tcp.ack_share_of_packets > 0.2, "{:?}", wide.tcp);
    assert_eq!(wide.advice.pays, Pays::Little, "{:?}", wide.advice);
    let text = &wide.advice.text[0];
    assert!(text.contains("nothing here shows"), "{text}");
}

/// Policies wait for what the data tell: that they withhold few ACKs without the data says nothing.
#[test]
fn of_acks_without_the_data_it_is_not_known_whether_thinning_pays() {
    let (mut all, _) = packets(&capture("loss.pcap")[..]).unwrap();
    // Keep what the receiver of the data sends; that includes requests.
    all.retain(|p| p.bytes[26..30] == [10, 77, 0, 2]);
    let acks = analyze(&pcap(&all, ETHERNET, false, true)[..]);
    assert!(acks.policies[0].saved_share < 0.2, "{:?}", acks.policies[0]);
    assert_eq!(acks.advice.pays, Pays::Unknown, "{:?}", acks.advice);
    assert_eq!(acks.advice.command, None);
    for (text, part) in acks.advice.text.iter().zip([
        "takes a capture of both directions",
        "Capture both directions",
        "has one direction only",
    ]) {
        assert!(text.contains(part), "{text}");
    }
}
