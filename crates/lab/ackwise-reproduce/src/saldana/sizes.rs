//! Size of a bundle of compressed ACKs: §I and §II of the paper, by calculation.

use ackwise_report::Experiment;

use crate::Reproduced;

/// Bytes of IPv4, L2TPv3 and PPP before a bundle (RFC 4170).
const TUNNEL_BYTES: f64 = 20.0 + 4.0 + 1.0;
/// Bytes of a PPP multiplexing header before each packet (RFC 3153).
const SUBFRAME_BYTES: f64 = 2.0;
/// Bytes of a compressed ACK with its subframe header; the paper quotes 7 to 8.
const COMPRESSED_BYTES: f64 = 8.0;
const ACK_BYTES: f64 = 40.0;

/// Bytes of a bundle of `acks` compressed ACKs.
fn bundle_bytes(acks: f64) -> f64 {
    TUNNEL_BYTES + acks * COMPRESSED_BYTES
}

pub(super) fn run(all: &mut Reproduced) {
    let part = "Sizes (§I, §II)";
    let setup = format!(
        "{TUNNEL_BYTES} B of tunnel a bundle, {COMPRESSED_BYTES} B an ACK, \
         {SUBFRAME_BYTES} of them its subframe header"
    );
    // 100 flows with 100 ACKs per second each, released every 5 ms.
    let acks = 100.0 * 100.0 * 0.005;
    let saved = |acks: f64| 100.0 * (1.0 - bundle_bytes(acks) / (acks * ACK_BYTES));
    all.experiments.extend([
        Experiment::new("saldana/sizes/acks-per-bundle", "ACKs in a bundle", acks)
            .part(part)
            .published(50.0)
            .calculated()
            .setup("100 flows × 100 ACKs/s × 5 ms"),
        Experiment::new(
            "saldana/sizes/saved-50",
            "bytes saved, 50 ACKs",
            saved(acks),
        )
        .part(part)
        .published(80.0)
        .calculated()
        .unit("%")
        .setup(setup.as_str())
        .note("The paper's 80 % are the ACK alone, 40 → 7 or 8 B; the tunnel takes its share."),
        Experiment::new("saldana/sizes/saved-1", "bytes saved, one ACK", saved(1.0))
            .part(part)
            .calculated()
            .unit("%")
            .setup(setup)
            .note("A bundle of one still saves, but little: the tunnel's header is most of it."),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_weigh_what_the_headers_say() {
        assert_eq!(bundle_bytes(1.0), 33.0);
        assert_eq!(bundle_bytes(50.0), 425.0);
    }
}
