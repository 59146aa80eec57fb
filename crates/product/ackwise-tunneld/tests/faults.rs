//! Missing, wrong or slow parts: ACKs take the ordinary path, and return when the fault is over. No
//! transfer suffers.

mod common;

use std::collections::HashSet;
use std::fs::Permissions;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use ackwise_config::tunnel::Prefix;
use ackwise_tunneld::{AttachMode, Config, Daemon, Ended, Error, control};
use common::{
    Capture, Sites, ack_from, alone, ip, is_up, once, peer, run_command, send_strange_acks,
    transfer, transfer_and, until,
};

const BYTES: usize = 4_000_000;
const DOWN: &str = "10.9.1.1:5001";

/// Transfers until ACKs have passed the tunnel; a busy machine makes few.
fn used(sites: &Sites, near: &Daemon) {
    until("the tunnel", || is_up(near).then_some(()));
    let before = peer(near).packets_in.packets;
    for _ in 0..10 {
        transfer(&sites.server, &sites.host, DOWN, BYTES);
        // The counters are updated several times per second.
        std::thread::sleep(Duration::from_millis(120));
        if peer(near).packets_in.packets > before + 100 {
            return;
        }
    }
    panic!("ten transfers, and no ACKs: {:#?}", near.stats());
}

#[test]
fn a_peer_that_goes_and_comes_back() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    transfer_and(&sites.server, &sites.host, DOWN, 4 * BYTES, || drop(far));
    once(&near, "silence", |stats| {
        !stats.up && stats.failures.peer_timeouts > 0
    });
    // The counters are updated several times per second.
    std::thread::sleep(Duration::from_millis(500));
    let before = near.stats().taken;
    transfer(&sites.server, &sites.host, DOWN, BYTES);
    std::thread::sleep(Duration::from_millis(500));
    let after = near.stats().taken;
    assert_eq!(after, before, "taken for a peer that is gone");
    let _far = sites.start(&sites.far, sites.far_config(""));
    used(&sites, &near);
}

#[test]
fn a_peer_that_hangs() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    transfer_and(&sites.server, &sites.host, DOWN, 4 * BYTES, || {
        far.freeze(true)
    });
    once(&near, "silence", |stats| !stats.up);
    far.freeze(false);
    used(&sites, &near);
}

/// The unread packets are the only sign to the program that the process hangs.
#[test]
fn a_process_that_hangs() {
    let _alone = alone();
    let sites = Sites::new();
    let [_far, near] = sites.tunnel("");
    transfer_and(&sites.server, &sites.host, DOWN, 4 * BYTES, || {
        near.freeze(true)
    });
    // More transfers while it still hangs.
    for _ in 0..3 {
        transfer(&sites.server, &sites.host, DOWN, BYTES);
    }
    near.freeze(false);
    // Their number depends on how many ACKs a busy machine makes.
    until("the counters", || {
        (near.stats().unattended > 0).then_some(())
    });
    used(&sites, &near);
}

/// Longer than it takes to fill the memory into which the program copies ACKs.
#[test]
fn a_process_that_hangs_for_more_acks_than_have_room() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("period = \"1 s\"");
    let arrived = Capture::start(&sites.server, "net1");
    near.freeze(true);
    send_strange_acks(&sites, 0..9000);
    near.freeze(false);
    let stats = until("the counters", || {
        let stats = near.stats();
        (stats.taken + stats.unattended == 9000).then_some(stats)
    });
    assert!((1000..=7281).contains(&stats.taken), "{stats:#?}");
    let delivered = || peer(&far).packets_out.packets + near.stats().bypassed + stats.unattended;
    until("all of them", || (delivered() >= 9000).then_some(()));
    std::thread::sleep(Duration::from_millis(200));
    let arrived = arrived.end();
    let ports: HashSet<u16> = arrived
        .iter()
        .filter_map(|frame| Some((u16::from_be_bytes(*frame.get(34..)?.first_chunk()?), frame)))
        .filter(|(port, frame)| ack_from(*port, frame).is_some())
        .map(|(port, _)| port)
        .collect();
    let missing = (10_000..19_000)
        .filter(|port| !ports.contains(port))
        .count();
    assert_eq!(missing, 0);
    // The next ones wrap around its end.
    used(&sites, &near);
}

#[test]
fn keys_that_are_not_each_other_s() {
    let _alone = alone();
    let sites = Sites::new();
    let stranger = common::write_key(sites.keys.path(), "stranger");
    // First the near side has a wrong key for the far one, then the far one for the near one.
    for wrong in ["near", "far"] {
        let (mut near, mut far) = (sites.near_config(""), sites.far_config(""));
        let misled = if wrong == "near" { &mut near } else { &mut far };
        misled.peers[0].public_key = Some(stranger.public);
        let far = sites.start(&sites.far, far);
        let near = sites.start(&sites.near, near);
        until("a handshake in vain", || {
            (far.stats().unknown_sources >= 2).then_some(())
        });
        assert!(!is_up(&near) && !is_up(&far), "{wrong}");
        transfer(&sites.server, &sites.host, DOWN, BYTES);
        assert_eq!(peer(&near).packets_in.packets, 0);
    }
}

/// A peer may send for the addresses behind it, and for no others.
#[test]
fn what_comes_from_elsewhere_is_dropped() {
    let _alone = alone();
    let sites = Sites::new();
    let mut config = sites.far_config("");
    for prefix in &mut config.peers[0].allowed_ips {
        if prefix.address.is_ipv4() {
            prefix.len = 32;
        }
    }
    all_are_dropped(&sites, config);
}

/// The peer with the longest prefix may send for an address.
#[test]
fn what_another_peer_speaks_for_is_dropped() {
    let _alone = alone();
    let sites = Sites::new();
    let mut config = sites.far_config("");
    let mut other = config.peers[0].clone();
    other.name = "other".into();
    other.public_key = Some(common::write_key(sites.keys.path(), "other").public);
    other.endpoint = None;
    other.allowed_ips = vec![Prefix {
        address: "10.9.1.1".parse().unwrap(),
        len: 32,
    }];
    config.peers.push(other);
    all_are_dropped(&sites, config);
}

/// No ACK of the host behind the near end arrives through this far one.
fn all_are_dropped(sites: &Sites, config: Config) {
    let far = sites.start(&sites.far, config);
    let near = sites.start(&sites.near, sites.near_config(""));
    until("the tunnel", || {
        (is_up(&near) && far.stats().peers[0].up).then_some(())
    });
    let arrived = Capture::start(&sites.server, "net1");
    send_strange_acks(sites, 0..200);
    // Wait until both have published later counters.
    std::thread::sleep(Duration::from_millis(500));
    let stats = until("all of them", || {
        let stats = far.stats().peers[0].clone();
        let carried = peer(&near).packets_in;
        (stats.packets_out == carried && carried.packets > 50).then_some(stats)
    });
    assert_eq!(stats.failures.not_allowed, stats.packets_out.packets);
    let arrived = arrived.end();
    let delivered =
        (10_000..10_200).filter(|port| arrived.iter().any(|f| ack_from(*port, f).is_some()));
    // The others bypassed the tunnel.
    assert_eq!(delivered.count() as u64 + stats.packets_out.packets, 200);
}

#[test]
fn datagrams_that_nobody_sent() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    let forger = sites.near.run(|| UdpSocket::bind("10.9.2.1:0").unwrap());
    for len in 0..200_usize {
        for kind in [0x00, 0x40, 0x80, 0xc0, 0xc1] {
            let mut datagram = vec![0x5a; len];
            if let Some(first) = datagram.first_mut() {
                *first = kind;
            }
            forger.send_to(&datagram, "10.9.2.2:51830").unwrap();
        }
    }
    until("all of them", || {
        (far.stats().unknown_sources >= 900).then_some(())
    });
    assert!(is_up(&far) && is_up(&near));
    used(&sites, &near);
}

/// A path of 4000 bytes between the routers, and a tunnel that has discovered it.
fn wide(sites: &Sites) -> [Daemon; 2] {
    sites.near.run(|| ip("link set wan0 mtu 4000"));
    sites.far.run(|| ip("link set wan1 mtu 4000"));
    let more = "period = \"50 ms\"\nfollow_rtt = false\nflows = 8\nmax_datagram = \"3900 B\"";
    let ends = sites.tunnel(more);
    once(&ends[1], "the path", |stats| stats.datagram_size == 3900);
    ends
}

/// What is sent arrives, though perhaps not at once.
fn comes(sites: &Sites, far: &Daemon) {
    let before = peer(far).packets_out.packets;
    until("packets", || {
        send_strange_acks(sites, 0..100);
        (peer(far).packets_out.packets >= before + 300).then_some(())
    });
}

/// The interface's MTU shrinks: earlier datagrams leave in fragments, and the next ones are
/// shorter.
#[test]
fn an_interface_whose_mtu_shrinks() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = wide(&sites);
    sites.near.run(|| ip("link set wan0 mtu 1500"));
    until("a shorter size", || {
        send_strange_acks(&sites, 0..200);
        (peer(&near).datagram_size <= 1472).then_some(())
    });
    let stats = peer(&near);
    assert!(stats.failures.fragmented > 0, "{stats:#?}");
    assert_eq!(stats.failures.not_sent, 0);
    // None was lost because of it.
    once(&far, "all", |delivered| {
        delivered.packets_out == peer(&near).packets_in
    });
    // Shorter than any size that is probed.
    sites.near.run(|| ip("link set wan0 mtu 600"));
    comes(&sites, &far);
    assert_eq!(peer(&near).failures.not_sent, 0);
}

/// The MTU of a router on the path shrinks silently: long datagrams are lost until that is
/// detected.
#[test]
fn a_path_whose_mtu_shrinks() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = wide(&sites);
    sites.far.run(|| ip("link set wan1 mtu 1500"));
    until("a shorter size", || {
        send_strange_acks(&sites, 0..200);
        (peer(&near).datagram_size <= 1476).then_some(())
    });
    comes(&sites, &far);
}

#[test]
fn the_interface_is_deleted() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    sites.near.run(|| ip("link del wan0"));
    // The other end of the pair is deleted with it.
    for (end, name) in [(near, "wan0"), (far, "wan1")] {
        assert_eq!(until("the end", || end.ended()), Ended::InterfaceGone);
        let error = end.stop().unwrap_err();
        assert!(
            matches!(&error, Error::InterfaceGone(gone) if gone == name),
            "{error}"
        );
    }
    sites.nothing_left();
}

#[test]
fn a_device_is_deleted_or_taken_down() {
    let _alone = alone();
    for how in [
        "link del awtun0",
        "link set awtun0 down",
        "link del awtunin0",
    ] {
        let sites = Sites::new();
        let [_far, near] = sites.tunnel("");
        sites.near.run(|| ip(how));
        assert_eq!(
            until("the end", || near.ended()),
            Ended::DeviceGone,
            "{how}"
        );
        assert!(matches!(near.stop(), Err(Error::DeviceGone(_))));
        assert_eq!(
            sites.near.leftovers(),
            (Vec::new(), 1),
            "the far one's program is left"
        );
        transfer(&sites.server, &sites.host, DOWN, BYTES);
    }
}

#[test]
fn someone_removes_its_filter_from_clsact() {
    let _alone = alone();
    for how in ["qdisc del dev wan0 clsact", "filter del dev wan0 egress"] {
        let sites = Sites::new();
        let _far = sites.start(&sites.far, sites.far_config(""));
        let config = sites.near_config("");
        let start = || Daemon::start(config, AttachMode::Clsact).unwrap();
        let near = sites.near.run(start);
        until("the tunnel", || is_up(&near).then_some(()));
        sites.near.run(|| run_command("tc", how));
        let ended = until("the end", || near.ended());
        assert_eq!(ended, Ended::FilterGone, "{how}");
        let error = near.stop().unwrap_err();
        assert!(
            matches!(&error, Error::FilterGone(name) if name == "wan0"),
            "{error}"
        );
        transfer(&sites.server, &sites.host, DOWN, BYTES);
    }
}

#[test]
fn what_is_there_already() {
    let _alone = alone();
    let sites = Sites::new();
    let near = sites.start(&sites.near, sites.near_config(""));
    let start = |config| {
        sites
            .near
            .run(|| Daemon::start(config, AttachMode::Auto))
            .unwrap_err()
    };
    let error = start(sites.near_config(""));
    let me = std::process::id();
    assert!(
        matches!(&error, Error::Held { pid, .. } if *pid == me),
        "{error}"
    );
    let error = start(sites.near_config("device = \"awtun7\""));
    assert!(matches!(&error, Error::Listen { .. }), "{error}");
    let mut config = sites.near_config("device = \"lan1\"");
    config.listen[0].set_port(40_000);
    config.listen.truncate(1);
    let error = start(config).to_string();
    assert!(error.contains("make a TUN device"), "{error}");
    sites.near.run(|| {
        assert_eq!(control::list().unwrap(), ["awtun0"]);
        assert_eq!(control::status("awtun0").unwrap().pid, me);
        assert!(matches!(control::status("awtun1"), Err(Error::NotThere(_))));
        assert_eq!(control::down("awtun0").unwrap().device, "awtun0");
    });
    assert_eq!(until("the end", || near.ended()), Ended::Requested);
    near.stop().unwrap();
    sites.nothing_left();
}

#[test]
fn m5_a_squatter_of_another_user_has_no_effect() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let _alone = alone();
    let sites = Sites::new();
    // Anybody can bind abstract names.
    let squatter = sites.near.run_as_nobody(|| {
        let name = SocketAddr::from_abstract_name("ackwise-tunnel-awtun0").unwrap();
        UnixListener::bind_addr(&name).unwrap()
    });
    let list = || sites.near.run(|| control::list().unwrap());
    assert!(list().is_empty());
    let near = sites.start(&sites.near, sites.near_config(""));
    assert_eq!(list(), ["awtun0"]);
    sites.near.run_as_nobody(|| {
        assert!(control::list().is_err());
        let refused = control::down("awtun0").unwrap_err().to_string();
        assert!(refused.contains("run as root"), "{refused}");
    });
    let status = sites.near.run(|| control::status("awtun0").unwrap());
    assert_eq!(status.pid, std::process::id());
    squatter.set_nonblocking(true).unwrap();
    assert!(squatter.accept().is_err(), "it was asked");
    near.stop().unwrap();
}

#[test]
fn what_is_not_there() {
    let _alone = alone();
    let sites = Sites::new();
    let start = |config| {
        let started = sites.near.run(|| Daemon::start(config, AttachMode::Auto));
        started.map(|_| ()).unwrap_err().to_string()
    };
    let mut config = sites.near_config("");
    config.interface = Some("nosuch0".into());
    assert!(start(config.clone()).contains("no interface nosuch0"));
    config = sites.near_config("");
    config.private_key = Some("/nowhere/key".into());
    assert!(start(config.clone()).starts_with("/nowhere/key: "));
    let short = sites.keys.path().join("short");
    std::fs::write(&short, "abc").unwrap();
    std::fs::set_permissions(&short, Permissions::from_mode(0o600)).unwrap();
    config.private_key = Some(short);
    assert!(start(config.clone()).contains("44 characters of base64"));
    config = sites.near_config("");
    config.peers[0].public_key = Some(sites.near_key.public);
    assert!(start(config.clone()).contains("public key of this end"));
    config = sites.near_config("");
    config.peers[0].endpoint = Some("nosuch.invalid:51830".into());
    assert!(start(config).contains("cannot resolve nosuch.invalid:51830"));
    sites.nothing_left();
}

#[test]
fn l11_a_key_that_others_may_read_is_not_used() {
    let _alone = alone();
    let sites = Sites::new();
    let key = sites.keys.path().join("near");
    for mode in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let config = sites.near_config("");
        let started = sites.near.run(|| Daemon::start(config, AttachMode::Auto));
        let error = started.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::KeyPermissions(_)), "{error}");
        assert!(error.to_string().contains("`chmod 600 "), "{error}");
    }
    sites.nothing_left();
    std::fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    sites.start(&sites.near, sites.near_config(""));
}

/// Before the far side is started, and while it does not answer.
#[test]
fn nobody_there_yet() {
    let _alone = alone();
    let sites = Sites::new();
    let near = sites.start(&sites.near, sites.near_config(""));
    transfer(&sites.server, &sites.host, DOWN, BYTES);
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(near.stats().taken, 0);
    let _far = sites.start(&sites.far, sites.far_config(""));
    used(&sites, &near);
}
