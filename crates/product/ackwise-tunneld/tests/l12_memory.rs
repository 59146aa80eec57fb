//! L12: the minimum memory that a configuration may grant is enough for an honest peer.

use ackwise_tunnel::{TunnelConfig, Variant};
use ackwise_tunneld::Config;

#[test]
fn l12_the_least_configured_memory_is_enough_for_an_honest_peer() {
    for variant in [Variant::Aligned, Variant::Entropy] {
        for flows in [1, 16, 1024, u16::MAX] {
            let needed = TunnelConfig::min_memory(variant, flows) as u64;
            let least = Config::least_memory(flows, 1);
            assert!(least >= needed, "{flows} flows: {least} of {needed} bytes");
        }
    }
}
