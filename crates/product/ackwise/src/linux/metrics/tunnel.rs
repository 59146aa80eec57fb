//! The counters of a tunnel, and of each peer.

use ackwise_tunneld::{PeerStats, Stats};

use super::Exported;
use super::family::Family;

/// A counter of each peer: name, value, help.
type OfPeer = (&'static str, fn(&PeerStats) -> u64, &'static str);

const COUNTERS: &[OfPeer] = &[
    (
        "tunnel_packets_in",
        |p| p.packets_in.packets,
        "Packets taken into bundles",
    ),
    (
        "tunnel_packets_restored",
        |p| p.packets_out.packets,
        "Packets restored from bundles",
    ),
    (
        "tunnel_packets_expedited",
        |p| p.expedited,
        "ACKs sent at once because their sender acts on them",
    ),
    (
        "tunnel_packets_bypassed",
        |p| p.bypassed,
        "Packets for this peer that took the ordinary path",
    ),
    (
        "tunnel_bundles_out",
        |p| p.bundles_out.packets,
        "Bundles sent",
    ),
    ("tunnel_bundles_in", |p| p.bundles_in, "Bundles received"),
    (
        "tunnel_datagrams_out",
        |p| p.datagrams_out.packets,
        "Datagrams sent",
    ),
    (
        "tunnel_datagrams_in",
        |p| p.datagrams_in.packets,
        "Datagrams received and opened",
    ),
];

const BYTE_COUNTERS: &[OfPeer] = &[
    (
        "tunnel_in",
        |p| p.packets_in.bytes,
        "Size of the packets taken into bundles",
    ),
    (
        "tunnel_bundles_out",
        |p| p.bundles_out.bytes,
        "Size of the bundles sent, with IP and UDP headers",
    ),
    (
        "tunnel_datagrams_out",
        |p| p.datagrams_out.bytes,
        "Size of the datagrams sent, with IP and UDP headers",
    ),
    (
        "tunnel_datagrams_in",
        |p| p.datagrams_in.bytes,
        "Size of the datagrams received, with IP and UDP headers",
    ),
];

fn failures(peer: &PeerStats) -> [(&'static str, u64); 11] {
    let f = &peer.failures;
    [
        ("auth", f.auth_failures),
        ("replayed", f.replayed),
        ("unknown-session", f.unknown_session),
        ("handshakes-limited", f.handshakes_limited),
        ("undecodable", f.undecodable),
        ("refused", f.refused),
        ("not-allowed", f.not_allowed),
        ("not-delivered", f.not_delivered),
        ("not-sent", f.not_sent),
        ("fragmented", f.fragmented),
        ("peer-timeout", f.peer_timeouts),
    ]
}

impl Exported for Stats {
    fn families(&self) -> Vec<Family> {
        let s = self;
        let here = &[("device", s.device.as_str())][..];
        let interface = s.interface.as_deref().unwrap_or("");
        let tunnel = [here, &[("interface", interface)]].concat();
        let counter = Family::counter;
        let mut all = vec![
            Family::gauge("tunnel", "One end of a tunnel, by its labels: always 1")
                .is(&tunnel, 1.0),
            counter(
                "tunnel_packets_taken",
                "Packets that the hook sent to the tunnel",
            )
            .count(here, s.taken),
            counter(
                "tunnel_packets_not_read",
                "Packets that were not read in time",
            )
            .counts(
                here,
                "fate",
                [("passed", s.unattended), ("dropped", s.overrun)],
            ),
            counter(
                "tunnel_bypass_failures",
                "Packets that could take neither path",
            )
            .count(here, s.bypass_failed),
            counter("tunnel_unknown_sources", "Datagrams that came from no peer")
                .count(here, s.unknown_sources),
            counter(
                "tunnel_handshakes_limited",
                "Handshakes dropped because there were too many",
            )
            .count(here, s.handshakes_limited),
            counter(
                "tunnel_cookies_sent",
                "Cookies sent while there were many handshakes",
            )
            .count(here, s.cookies_sent),
            Family::gauge("uptime", "Time since the start")
                .in_seconds()
                .is(here, s.uptime_s),
            counter("cpu", "CPU time of the thread that moves packets")
                .in_seconds()
                .spent(here, s.cpu_s),
        ];
        let mut up = Family::gauge("tunnel_peer_up", "1 while the peer answers");
        let mut rtt =
            Family::gauge("tunnel_peer_rtt", "Smoothed round-trip time of the tunnel").in_seconds();
        let mut memory =
            Family::gauge("tunnel_peer_memory", "Memory of the states of its flows").in_bytes();
        let mut failed = counter("tunnel_failures", "Failures at a peer, by cause");
        let new = |(name, _, help): &OfPeer| counter(name, help);
        let mut counted: Vec<_> = COUNTERS.iter().map(new).collect();
        counted.extend(BYTE_COUNTERS.iter().map(|it| new(it).in_bytes()));
        for peer in &s.peers {
            let labels = &[here, &[("peer", peer.name.as_str())]].concat()[..];
            up = up.is(labels, f64::from(u8::from(peer.up)));
            rtt = rtt.if_known(labels, peer.rtt_ms.map(|ms| ms / 1e3));
            memory = memory.is(labels, peer.memory as f64);
            failed = failed.counts(labels, "cause", failures(peer));
            let values = COUNTERS
                .iter()
                .chain(BYTE_COUNTERS)
                .map(|(_, value, _)| value(peer));
            let more = counted.into_iter().zip(values);
            counted = more
                .map(|(family, value)| family.count(labels, value))
                .collect();
        }
        all.extend([up, rtt, memory, failed]);
        all.extend(counted);
        all
    }
}
