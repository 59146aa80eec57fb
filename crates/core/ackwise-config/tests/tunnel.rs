//! The configuration of a tunnel: its meaning, and the mistakes in one.
//!
//! `tunnel/*.toml` hold mistakes; the file of the same name with `.txt` holds the report.
//! `ACKWISE_BLESS=1 cargo test` regenerates the reports, to be reviewed in the diff.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ackwise_config::tunnel::{Encoding, OtherPackets, Tunnel};

#[test]
fn mistakes_are_reported_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tunnel");
    let bless = std::env::var_os("ACKWISE_BLESS").is_some();
    for name in ["mistakes", "bare", "empty"] {
        let path = folder.join(name).with_extension("toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let error = Tunnel::parse(format!("{name}.toml"), &text).expect_err(name);
        let found = format!("{error}\n");
        let written = path.with_extension("txt");
        if bless {
            std::fs::write(&written, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&written).unwrap(), "{name}");
    }
}

const MINIMAL: &str = "listen_port = 51830\nprivate_key = \"k\"\n[[peer]]\nname = \"a\"\npublic_key = \
                     \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=\"\n\
                     allowed_ips = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n";

#[test]
fn what_is_not_said_has_a_default() {
    let tunnel = Tunnel::parse("x", MINIMAL).unwrap();
    assert_eq!(tunnel.device, "awtun0");
    assert_eq!(tunnel.listen.len(), 2, "both families");
    assert_eq!(tunnel.interface, None);
    assert_eq!(tunnel.period, Duration::from_millis(10));
    assert!(tunnel.follow_rtt && !tunnel.respace);
    assert_eq!(
        (tunnel.encoding, tunnel.other_packets),
        (Encoding::Entropy, OtherPackets::Bypass)
    );
    assert_eq!((tunnel.max_datagram, tunnel.flows), (1452, 1024));
    assert_eq!(
        (tunnel.memory, tunnel.memory_of_peer()),
        (64 << 20, 64 << 20)
    );
    let peer = &tunnel.peers[0];
    assert_eq!(peer.endpoint, None);
    assert_eq!(peer.public_key.map(|key| key[31]), Some(0xff));
}

#[test]
fn l12_memory_is_enough_for_the_flows_of_all_peers() {
    let with = |keys: &str| Tunnel::parse("x", &format!("{keys}\n{MINIMAL}"));
    let tunnel = with("memory = \"16 MiB\"").unwrap();
    assert_eq!(tunnel.memory, Tunnel::least_memory(1024, 1));
    assert_eq!(
        with("flows = 65535").unwrap().memory,
        Tunnel::least_memory(65535, 1)
    );
    let error = with("memory = \"16 MB\"").unwrap_err().to_string();
    assert!(error.contains("memory = \"16384 KiB\""), "{error}");
    let error = with("memory = 64").unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn the_longest_prefix_says_who_is_behind_whom() {
    let second = "[[peer]]\nname = \"b\"\npublic_key = \
                  \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA4=\"\n\
                  allowed_ips = [\"10.1.0.0/16\", \"0.0.0.0/0\"]\n";
    let tunnel = Tunnel::parse("x", &format!("{MINIMAL}{second}")).unwrap();
    let of = |address: &str| tunnel.peer_of(address.parse::<IpAddr>().unwrap());
    assert_eq!(of("10.2.0.1"), Some(0));
    assert_eq!(of("10.1.0.1"), Some(1));
    assert_eq!(of("192.0.2.1"), Some(1));
    assert_eq!(of("2001:db8::1"), Some(0));
    // 0.0.0.0/0 is all of IPv4, and nothing else.
    assert_eq!(of("2001:db9::1"), None);
}

#[test]
fn the_key_is_beside_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.toml");
    std::fs::write(&path, MINIMAL).unwrap();
    let tunnel = Tunnel::load(&path).unwrap();
    assert_eq!(tunnel.private_key, Some(folder.path().join("k")));
    // An absolute path stays as it is; its backslashes, if any, are not escapes.
    let whole = folder.path().join("other").join("k");
    let quoted = format!("'{}'", whole.display());
    std::fs::write(&path, MINIMAL.replace("\"k\"", &quoted)).unwrap();
    assert_eq!(Tunnel::load(&path).unwrap().private_key, Some(whole));
}
