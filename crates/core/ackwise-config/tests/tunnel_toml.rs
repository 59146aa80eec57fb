//! A configuration that is written as TOML and read again is the same.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackwise_config::ConfigError;
use ackwise_config::tunnel::{Encoding, OtherPackets, Peer, Prefix, Tunnel};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

/// Text with every character that TOML has to escape.
fn text() -> impl Strategy<Value = String> {
    "[ -~\t\r\n\"\\\\äß\u{1}\u{7f}]{0,20}"
}

fn interface_name() -> impl Strategy<Value = String> {
    "[a-z][-a-z0-9_.\"\\\\']{0,14}"
}

fn listen() -> impl Strategy<Value = Vec<SocketAddr>> {
    let port = 1..=65_535_u16;
    let both = port.clone().prop_map(|port| {
        ["0.0.0.0", "::"]
            .map(|any| SocketAddr::new(any.parse().unwrap(), port))
            .to_vec()
    });
    let v4 = (any::<[u8; 4]>(), port.clone()).prop_map(|(ip, port)| (ip, port).into());
    let v6 = (any::<[u8; 16]>(), port).prop_map(|(ip, port)| (ip, port).into());
    prop_oneof![
        both,
        (v4.clone(), v6.clone()).prop_map(|(v4, v6): (SocketAddr, SocketAddr)| vec![v6, v4]),
        v4.prop_map(|v4| vec![v4]),
        v6.prop_map(|v6| vec![v6]),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    let v4 = (any::<u32>(), 0..=32_u8).prop_map(|(address, len)| Prefix {
        address: IpAddr::V4(
            (address & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)).into(),
        ),
        len,
    });
    let v6 = (any::<u128>(), 0..=128_u8).prop_map(|(address, len)| Prefix {
        address: IpAddr::V6(
            (address & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)).into(),
        ),
        len,
    });
    prop_oneof![v4, v6]
}

/// Peers without keys, which depend on whether the tunnel is encrypted.
fn peers() -> impl Strategy<Value = Vec<Peer>> {
    let endpoint = prop_oneof![Just(None), Just(Some("gw.example:51830".to_owned()))];
    let peer = ("[a-z0-9][-_A-Za-z0-9]{0,39}", endpoint);
    let prefixes = vec(prefix(), 1..12).prop_map(|mut prefixes| {
        let mut seen = std::collections::HashSet::new();
        prefixes.retain(|prefix| seen.insert(*prefix));
        prefixes
    });
    let names = vec(peer, 1..5).prop_map(|mut peers| {
        let mut seen = std::collections::HashSet::new();
        peers.retain(|(name, _)| seen.insert(name.clone()));
        peers
    });
    (names, prefixes).prop_map(|(names, prefixes)| {
        let count = names.len();
        let peers = names.into_iter().enumerate();
        peers
            .map(|(at, (name, endpoint))| Peer {
                name,
                public_key: None,
                endpoint,
                allowed_ips: prefixes.iter().skip(at).step_by(count).copied().collect(),
            })
            .filter(|peer| !peer.allowed_ips.is_empty())
            .collect()
    })
}

prop_compose! {
    fn tunnel()(
        (device, interface) in (interface_name(), proptest::option::of(interface_name()))
            .prop_filter("two devices", |(device, interface)| Some(device) != interface.as_ref()),
        listen in listen(),
        key in proptest::option::of("[ -~\"\\\\]{1,30}"),
        (encoding, other_packets) in (
            prop_oneof![Just(Encoding::Aligned), Just(Encoding::Entropy)],
            prop_oneof![Just(OtherPackets::Bypass), Just(OtherPackets::Carry)],
        ),
        nanos in prop_oneof![
            500_000..=1_000_000_000_u64,
            (1..=1000_u64).prop_map(|ms| 1_000_000 * ms),
            (500..=1_000_000_u64).prop_map(|us| 1_000 * us),
        ],
        (follow_rtt, respace) in any::<(bool, bool)>(),
        (max_datagram, flows, fwmark) in (800..=8952_u32, 1..=u16::MAX, 1..=u32::MAX),
        user in proptest::option::of(text()),
        metrics in proptest::option::of(any::<([u8; 16], u16)>().prop_map(SocketAddr::from)),
        more_memory in 0..1_u64 << 38,
        keys in btree_set(any::<[u8; 32]>(), 5..6),
        mut peers in peers(),
    ) -> Tunnel {
        for (peer, key_bytes) in peers.iter_mut().zip(keys) {
            if key.is_some() {
                peer.public_key = Some(key_bytes);
            } else {
                peer.endpoint = Some("gw.example:51830".to_owned());
            }
        }
        Tunnel {
            device, listen, interface, follow_rtt, encoding, other_packets, respace,
            memory: Tunnel::least_memory(flows, peers.len()) + more_memory,
            max_datagram, flows, user, metrics, fwmark, peers,
            private_key: key.map(Into::into),
            period: Duration::from_nanos(nanos),
        }
    }
}

proptest! {
    #[test]
    fn a_configuration_survives_being_written_and_read(tunnel in tunnel()) {
        let text = tunnel.to_toml().unwrap();
        match Tunnel::parse("written.toml", &text) {
            Ok(read) => prop_assert_eq!(read, tunnel),
            Err(error) => prop_assert!(false, "{text}\n{error}"),
        }
    }
}

// On other systems, paths that are not UTF-8 are made differently.
#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf8_cannot_be_written() {
    use std::os::unix::ffi::OsStringExt;
    let text = "listen_port = 1\nprivate_key = \"k\"\n[[peer]]\nname = \"a\"\npublic_key = \
                \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=\"\nallowed_ips = \"::/0\"\n";
    let mut tunnel = Tunnel::parse("x", text).unwrap();
    let path: std::path::PathBuf = std::ffi::OsString::from_vec(vec![b'/', 0xff]).into();
    tunnel.private_key = Some(path.clone());
    assert!(matches!(tunnel.to_toml(), Err(ConfigError::NotUtf8(found)) if found == path));
}
