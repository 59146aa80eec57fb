//! Two routers with a tunnel between real stacks: what passes, how it arrives, and what is left at
//! the end.

mod common;

use std::collections::HashSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_config::tunnel::Prefix;
use ackwise_netdev::{Role, TunDevice};
use ackwise_policy::LinkKind;
use ackwise_tunnel::key_to_base64;
use ackwise_tunneld::{AttachMode, Config, Daemon, Failures, PeerStats};
use common::{
    Capture, Netns, Sites, ack_from, alone, ip, is_up, once, peer, run_command, send_strange_acks,
    transfer, transfer_and, until,
};
use nix::sys::socket::{setsockopt, sockopt};

const BYTES: usize = 4_000_000;
const DOWNLOADS: [&str; 2] = ["10.9.1.1:5001", "[fd09:1::1]:5001"];
const UPLOADS: [&str; 2] = ["10.9.3.2:5001", "[fd09:3::2]:5001"];

/// Transfers until enough ACKs have passed; on a busy machine many bypass the tunnel.
fn acks_of(from: &Netns, to: &Netns, at: &[&str], end: &Daemon) -> PeerStats {
    for _ in 0..5 {
        for address in at {
            transfer(from, to, address, BYTES);
        }
        // The counters are updated several times per second.
        thread::sleep(Duration::from_millis(120));
        let stats = peer(end);
        if stats.packets_in.packets > 300 {
            return stats;
        }
    }
    panic!("five transfers, and no ACKs: {:#?}", end.stats());
}

/// Asserts that nothing was lost on the way, and nothing failed.
fn all_came(from: &Daemon, to: &Daemon) {
    let end = Instant::now() + Duration::from_secs(30);
    while peer(from).packets_in != peer(to).packets_out {
        assert!(
            Instant::now() < end,
            "{:#?}\n{:#?}",
            from.stats(),
            to.stats()
        );
        thread::sleep(Duration::from_millis(10));
    }
    for end in [from, to] {
        let stats = end.stats();
        assert_eq!(stats.bypass_failed, 0);
        // A handshake without a timely answer is repeated, and the answer to the first then belongs
        // to no session.
        let late_answers = peer(end).failures.unknown_session;
        assert!(late_answers <= 5, "{stats:#?}");
        assert!(stats.unknown_sources <= late_answers, "{stats:#?}");
        // The kernel itself may send something through a device that has no carrier yet, and ACKs
        // may be in flight to it when it loses the carrier.
        let fell_silent = peer(end).failures.peer_timeouts > 0;
        assert!(stats.overrun <= 2 || fell_silent, "{stats:#?}");
        let failures = Failures {
            // These happen on a busy machine.
            peer_timeouts: 0,
            unknown_session: 0,
            ..peer(end).failures
        };
        assert_eq!(failures, Failures::default());
    }
}

#[test]
fn both_directions_of_both_families_arrive_byte_by_byte() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    let sent = acks_of(&sites.server, &sites.host, &DOWNLOADS, &near);
    assert!(sent.bytes_per_ack < Some(40.0), "{sent:#?}");
    assert_eq!(
        sites.near.leftovers(),
        (
            ["awtun0", "awtunput0", "awtunin0"]
                .map(String::from)
                .to_vec(),
            2
        )
    );
    acks_of(&sites.host, &sites.server, &UPLOADS, &far);
    all_came(&near, &far);
    all_came(&far, &near);
    for end in [far, near] {
        let before = once(&end, "an answer", |stats| stats.up);
        let last = end.stop().unwrap();
        assert!(last.taken > 300);
        // Its own end is not a timeout of the other side.
        let peer = &last.peers[0];
        assert!(peer.up && peer.session_age_s >= before.session_age_s);
        assert_eq!(peer.failures.peer_timeouts, before.failures.peer_timeouts);
    }
    sites.nothing_left();
    transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
}

/// The route would choose the far side's first address for its answers.
#[test]
fn l11_the_far_side_answers_from_the_address_that_was_asked() {
    let _alone = alone();
    let sites = Sites::new();
    sites.far.run(|| {
        ip("addr add 10.9.2.7/24 dev wan1");
        ip("addr add fd09:2::7/64 dev wan1 nodad");
    });
    for endpoint in ["10.9.2.7:51830", "[fd09:2::7]:51830"] {
        let mut config = sites.near_config("");
        config.peers[0].endpoint = Some(endpoint.to_owned());
        let far = sites.start(&sites.far, sites.far_config(""));
        let near = sites.start(&sites.near, config);
        until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
        transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
        let answers_from = peer(&near).endpoint.map(|endpoint| endpoint.to_string());
        assert_eq!(answers_from.as_deref(), Some(endpoint));
    }
    sites.nothing_left();
}

#[test]
fn by_a_filter_where_the_kernel_is_older() {
    let _alone = alone();
    let sites = Sites::new();
    let far = sites.start(&sites.far, sites.far_config(""));
    let config = sites.near_config("");
    let near = sites
        .near
        .run(|| Daemon::start(config, AttachMode::Clsact))
        .unwrap();
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
    once(&near, "ACKs", |stats| stats.packets_in.packets > 100);
    assert_eq!(near.stats().attach, Some(AttachMode::Clsact));
    drop((near, far));
    sites.nothing_left();
}

/// What arrives is what was sent, in every bit except those that each hop changes.
#[test]
fn restored_packets_are_the_originals() {
    let _alone = alone();
    let sites = Sites::new();
    // Checksums must be complete when the packet is captured.
    sites.host.run(|| run_command("ethtool", "-K lan0 tx off"));
    for encoding in ["aligned", "entropy"] {
        let ends = sites.tunnel(&format!("encoding = \"{encoding}\""));
        for to in DOWNLOADS {
            let sent = Capture::start(&sites.host, "lan0");
            let arrived = Capture::start(&sites.server, "net1");
            transfer(&sites.server, &sites.host, to, BYTES);
            let all = |capture: Capture| -> Vec<_> {
                let frames = capture.end();
                frames
                    .iter()
                    .filter_map(|frame| ack_from(5001, frame))
                    .collect()
            };
            let (sent, arrived) = (all(sent), all(arrived));
            let known: HashSet<&Vec<u8>> = sent.iter().collect();
            assert!(arrived.len() > 100, "{encoding}: {} ACKs", arrived.len());
            for ack in &arrived {
                assert!(known.contains(ack), "{encoding}: {ack:02x?} was never sent");
            }
        }
        assert!(peer(&ends[1]).packets_in.packets > 300);
    }
}

#[test]
fn the_tunnel_itself_over_ipv6_and_the_other_way_of_everything() {
    let _alone = alone();
    let sites = Sites::new();
    let more = "encoding = \"aligned\"\nrespace = true\nperiod = \"5 ms\"\nfollow_rtt = false";
    let mut config = sites.near_config(more);
    config.peers[0].endpoint = Some("[fd09:2::2]:51830".into());
    let far = sites.start(&sites.far, sites.far_config(more));
    let near = sites.start(&sites.near, config);
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    let stats = acks_of(&sites.server, &sites.host, &DOWNLOADS, &near);
    assert!(stats.endpoint.is_some_and(|at| at.is_ipv6()));
    assert_eq!(stats.period_ms, 5.0);
    // The headers of a bundle are 48 bytes here.
    assert!(stats.bundles_out.bytes > 48 * stats.bundles_out.packets);
    all_came(&near, &far);
}

#[test]
fn without_encryption_a_peer_is_known_by_its_address() {
    let _alone = alone();
    let sites = Sites::new();
    let config = |interface: &str, endpoint: &str, allowed_ips: &str| {
        sites.config(
            &format!("interface = \"{interface}\"\nencryption = false"),
            &format!("endpoint = \"{endpoint}:51830\"\nallowed_ips = [\"{allowed_ips}\"]"),
        )
    };
    let far = sites.start(&sites.far, config("wan1", "10.9.2.1", "10.9.1.0/24"));
    let near = sites.start(&sites.near, config("wan0", "10.9.2.2", "10.9.3.0/24"));
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    let stats = acks_of(&sites.server, &sites.host, &DOWNLOADS[..1], &near);
    assert_eq!(near.stats().public_key, None);
    assert!(stats.bytes_per_ack < Some(40.0), "{stats:#?}");
    all_came(&near, &far);
    // Another sender that speaks the protocol.
    let before = far.stats().unknown_sources;
    let stranger = sites
        .host
        .run(|| UdpSocket::bind("10.9.1.1:51830").unwrap());
    let first = [&[0x40, 0, 0, 0][..], b"ackwise tunnel 1", &[7; 12], &[0; 8]].concat();
    stranger.send_to(&first, "10.9.2.2:51830").unwrap();
    until("the stranger", || {
        (far.stats().unknown_sources == before + 1).then_some(())
    });
}

#[test]
fn other_packets_are_carried_if_that_is_wanted() {
    let _alone = alone();
    for (others, carried) in [("bypass", 0), ("carry", 20)] {
        let sites = Sites::new();
        let [_far, near] = sites.tunnel(&format!("other_packets = \"{others}\""));
        let from = sites.host.run(|| UdpSocket::bind("10.9.1.1:7000").unwrap());
        let to = sites
            .server
            .run(|| UdpSocket::bind("10.9.3.2:7000").unwrap());
        for size in 0..20_u8 {
            from.send_to(&vec![size; usize::from(size) * 10], "10.9.3.2:7000")
                .unwrap();
        }
        from.send_to(&[9; 1000], "10.9.3.2:7000").unwrap();
        let mut room = [0; 2000];
        let mut sizes: Vec<usize> = (0..21).map(|_| to.recv(&mut room).unwrap()).collect();
        sizes.sort_unstable();
        let expected: Vec<usize> = (0..20).map(|n| 10 * n).chain([1000]).collect();
        assert_eq!(sizes, expected);
        once(&near, others, |stats| stats.packets_in.packets >= carried);
        assert_eq!(peer(&near).packets_in.packets, carried);
    }
}

/// Two peers of one end, whose sessions have the same index, and whose addresses it learns from
/// their datagrams. Datagrams of the second are not taken for replays of the first.
#[test]
fn h1_a_second_peer_is_heard_and_may_roam() {
    let _alone = alone();
    let sites = Sites::new();
    let second_key = common::write_key(sites.keys.path(), "second");
    let mut config = sites.far_config("");
    let mut second = config.peers[0].clone();
    second.name = "second".into();
    second.public_key = Some(second_key.public);
    second.allowed_ips = vec![Prefix {
        address: "10.9.99.0".parse().unwrap(),
        len: 24,
    }];
    config.peers.push(second);
    let far = sites.start(&sites.far, config);
    let near = sites.start(&sites.near, sites.near_config(""));
    until("the first peer", || {
        (is_up(&near) && is_up(&far)).then_some(())
    });
    acks_of(&sites.server, &sites.host, &DOWNLOADS[..1], &near);
    let state = |n: usize| far.stats().peers[n].clone();
    // From one port, and after a restart from another.
    for port in [51_831, 51_832] {
        let mut config = sites.near_config("");
        config.device = "awtun1".into();
        config.interface = None;
        config.private_key = Some(sites.keys.path().join("second"));
        config.listen = vec![format!("10.9.2.1:{port}").parse().unwrap()];
        let second = sites.start(&sites.near, config);
        until("the second peer", || {
            let at = state(1).endpoint.map(|at| at.port());
            (is_up(&second) && state(1).up && at == Some(port)).then_some(())
        });
        assert_eq!(state(0).failures.replayed, 0);
        assert_eq!(state(1).failures.replayed, 0);
    }
    assert!(is_up(&near) && state(0).up);
    transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
}

/// A tunnel whose near end takes short packets to any address.
fn carrying_everything(sites: &Sites) -> (Daemon, Daemon) {
    let mut near = sites.near_config("other_packets = \"carry\"");
    near.listen = ["10.9.2.1:51840", "[fd09:2::1]:51841"]
        .map(|at| at.parse().unwrap())
        .to_vec();
    near.peers[0].endpoint = Some("[fd09:2::2]:51830".into());
    near.peers[0].allowed_ips = ["::", "0.0.0.0"]
        .map(|any| Prefix {
            address: any.parse().unwrap(),
            len: 0,
        })
        .to_vec();
    let far = sites.start(&sites.far, sites.far_config("other_packets = \"carry\""));
    let near = sites.start(&sites.near, near);
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    (near, far)
}

/// DHCP, mDNS, MLD and the like concern the link through which they leave.
#[test]
fn what_is_for_the_link_is_not_carried() {
    const PAYLOAD: &[u8] = b"for the link";
    const LINK: [&str; 4] = ["255.255.255.255", "224.0.0.251", "169.254.7.7", "ff02::1"];
    let _alone = alone();
    let sites = Sites::new();
    let ends = carrying_everything(&sites);
    let arrived = Capture::start(&sites.far, "wan1");
    sites.near.run(|| {
        // Nobody there answers for an address on the link.
        run_command(
            "ip",
            "neigh add 169.254.7.7 lladdr 02:00:00:00:00:07 dev wan0",
        );
        for to in LINK {
            let any = if to.contains(':') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_broadcast(true).unwrap();
            setsockopt(&socket, sockopt::BindToDevice, &"wan0".into()).unwrap();
            socket.send_to(PAYLOAD, (to, 9999)).unwrap();
        }
    });
    until("those of the link", || {
        (arrived.count_with(PAYLOAD) == LINK.len()).then_some(())
    });
    arrived.end();
    // The kernel's packets on the tunnel's device do not leave through another one either.
    for end in [&ends.0, &ends.1] {
        assert_eq!(end.stats().bypassed, 0, "{:#?}", end.stats());
    }
}

/// Each family has its own port, and the tunnel carries short packets to everywhere, but never its
/// own datagrams.
#[test]
fn m8_the_tunnel_does_not_take_its_own_datagrams() {
    let _alone = alone();
    let sites = Sites::new();
    let (near, far) = carrying_everything(&sites);
    let stats = acks_of(&sites.server, &sites.host, &DOWNLOADS[..1], &near);
    until("all that was sent", || {
        (peer(&near).packets_in == peer(&far).packets_out).then_some(())
    });
    // Otherwise bundles would be carried in bundles endlessly.
    let datagrams = peer(&near).datagrams_out.packets;
    assert!(datagrams < stats.packets_in.packets, "{stats:#?}");
}

#[test]
fn a_flood_of_new_flows_passes_and_is_bounded() {
    let _alone = alone();
    let sites = Sites::new();
    let ends = sites.tunnel("flows = 16");
    // Few packets are queued for an unresolved neighbour.
    transfer(&sites.server, &sites.host, DOWNLOADS[0], 1000);
    let arrived = Capture::start(&sites.server, "net1");
    // No more at a time than a busy machine queues between two namespaces.
    for end in (500..=5000).step_by(500) {
        send_strange_acks(&sites, end - 500..end);
        until("they come", || {
            (arrived.count() >= usize::from(end)).then_some(())
        });
    }
    // ACKs that are not read in time bypass the tunnel.
    once(&ends[1], "most of them", |stats| {
        stats.packets_in.packets >= 500
    });
    all_came(&ends[1], &ends[0]);
    let arrived = arrived.end();
    let ports: HashSet<u16> = (0..5000)
        .map(|n| 10_000 + n)
        .filter(|port| arrived.iter().any(|frame| ack_from(*port, frame).is_some()))
        .collect();
    assert_eq!(ports.len(), 5000);
}

/// A device whose destinations come from routes stores them beside a packet, and drops one that is
/// sent again without them. Such packets are not taken.
#[test]
fn what_a_route_sends_through_a_tunnel_device_passes() {
    let _alone = alone();
    let sites = Sites::new();
    for (at, host, other, network, to) in [
        (&sites.near, 1, 2, "10.9.3.0/24", "10.9.3.2"),
        (&sites.far, 2, 1, "10.9.1.0/24", "10.9.1.1"),
    ] {
        at.run(|| {
            ip("link add awx type vxlan external dstport 4789");
            ip(&format!("link set awx address 02:00:00:00:00:0{host} up"));
            ip(&format!(
                "route replace {network} encap ip id 5 dst 10.9.2.{other} dev awx"
            ));
            ip(&format!(
                "neigh add {to} lladdr 02:00:00:00:00:0{other} dev awx"
            ));
        });
    }
    let _far = sites.start(&sites.far, sites.far_config("flows = 16"));
    let mut config = sites.near_config("flows = 16");
    config.interface = Some("awx".into());
    let near = sites.start(&sites.near, config);
    until("the tunnel", || is_up(&near).then_some(()));
    transfer(&sites.server, &sites.host, DOWNLOADS[0], 1000);
    let arrived = Capture::start(&sites.server, "net1");
    send_strange_acks(&sites, 0..500);
    until("they come", || (arrived.count() >= 500).then_some(()));
    assert_eq!(near.stop().unwrap().taken, 0);
}

/// The setup without a program: a mark, a rule and a route, as in docs/tunnel.md.
#[test]
fn acks_that_are_routed_here_by_marks() {
    let _alone = alone();
    let sites = Sites::new();
    let mut config = sites.near_config("");
    config.interface = None;
    let far = sites.start(&sites.far, sites.far_config(""));
    let near = sites.start(&sites.near, config);
    sites.near.run(route_by_marks);
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    acks_of(&sites.server, &sites.host, &DOWNLOADS, &near);
    all_came(&near, &far);
    // Without a peer the device has no carrier, and the rule has no effect.
    transfer_and(&sites.server, &sites.host, DOWNLOADS[0], 4 * BYTES, || {
        drop(far)
    });
    until("silence", || (!is_up(&near)).then_some(()));
    let before = peer(&near).packets_in;
    for to in DOWNLOADS {
        transfer(&sites.server, &sites.host, to, BYTES);
    }
    assert_eq!(peer(&near).packets_in, before);
    drop(near);
    transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
    sites.nothing_left();
}

/// The commands of docs/tunnel.md, verbatim.
fn route_by_marks() {
    let page = include_str!("../../../../docs/tunnel.md");
    let (_, example) = page.split_once("<!-- by marks -->\n```sh\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let shell = std::process::Command::new("sh")
        .args(["-euc", example])
        .output();
    let shell = shell.unwrap();
    assert!(
        shell.status.success(),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
}

/// Two devices without link headers, and a thread that carries packets between them.
fn bare_link(sites: &Sites) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let ends = [(&sites.near, 1), (&sites.far, 2)].map(|(at, own)| {
        at.run(|| {
            let end = TunDevice::open("bare0", LinkKind::Ip, 1500, Role::Routed).unwrap();
            ip("addr flush dev bare0");
            ip(&format!("addr add 10.9.4.{own}/24 dev bare0"));
            let other_side = if own == 1 {
                "10.9.3.0/24"
            } else {
                "10.9.1.0/24"
            };
            ip(&format!("route replace {other_side} dev bare0"));
            end
        })
    });
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let carrier = thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        while !seen.load(Ordering::Acquire) {
            for (from, to) in [(0, 1), (1, 0)] {
                while let Some(len) = ends[from].recv(&mut room).unwrap() {
                    to_end(&ends[to], &room[..len]);
                }
            }
            thread::sleep(Duration::from_micros(200));
        }
    });
    (stop, carrier)
}

/// Packets that a device does not accept are lost.
fn to_end(end: &TunDevice, packet: &[u8]) {
    let _ = end.inject(packet);
}

#[test]
fn links_without_headers() {
    let _alone = alone();
    let sites = Sites::new();
    let (stop, carrier) = bare_link(&sites);
    let bare = |mut config: Config, endpoint: Option<&str>| {
        config.interface = Some("bare0".into());
        config.peers[0].endpoint = endpoint.map(str::to_owned);
        config
    };
    let far = sites.start(&sites.far, bare(sites.far_config(""), None));
    let near_config = || bare(sites.near_config(""), Some("10.9.4.2:51830"));
    let near = sites.start(&sites.near, near_config());
    until("the tunnel", || (is_up(&near) && is_up(&far)).then_some(()));
    acks_of(&sites.server, &sites.host, &DOWNLOADS[..1], &near);
    // What bypasses the tunnel was routed and translated before it was taken, and must not be
    // again.
    let table = "table ip awt { chain out { type filter hook output priority 0; \
                 meta mark 0x6177 meta l4proto tcp counter ; } ; }";
    sites.near.run(|| run_command("nft", table));
    let mut near = Some(near);
    until("some bypass it", || {
        let end = near.take();
        let end = end.unwrap_or_else(|| sites.start(&sites.near, near_config()));
        until("the tunnel", || is_up(&end).then_some(()));
        let mut bypassed = 0;
        transfer_and(&sites.server, &sites.host, DOWNLOADS[0], 4 * BYTES, || {
            bypassed = end.stop().map_or(0, |stats| stats.bypassed)
        });
        (bypassed > 0).then_some(())
    });
    let counted = sites.near.run(|| run_command("nft", "list table ip awt"));
    assert!(counted.contains("packets 0 "), "{counted}");
    sites.near.run(|| run_command("nft", "delete table ip awt"));
    drop(far);
    stop.store(true, Ordering::Release);
    carrier.join().unwrap();
    sites.nothing_left();
}

#[test]
fn a_peer_among_others_is_found_by_its_key_and_followed_when_it_moves() {
    let _alone = alone();
    let sites = Sites::new();
    let ghost = common::write_key(sites.keys.path(), "ghost");
    let mut config = sites.far_config("");
    let mut other = config.peers[0].clone();
    other.name = "ghost".into();
    other.public_key = Some(ghost.public);
    other.allowed_ips = vec![Prefix {
        address: [10, 9, 77, 0].into(),
        len: 24,
    }];
    config.peers.insert(0, other);
    let far = sites.start(&sites.far, config);
    let near = sites.start(&sites.near, sites.near_config(""));
    let real = |far: &Daemon| far.stats().peers.get(1).cloned().unwrap_or_default();
    until("the tunnel", || {
        (is_up(&near) && real(&far).up).then_some(())
    });
    drop(near);
    // The same key from another port: a router on the path has lost the old mapping.
    let mut moved = sites.near_config("");
    for listen in &mut moved.listen {
        listen.set_port(40_000);
    }
    let near = sites.start(&sites.near, moved);
    until("the new port", || {
        let at = real(&far).endpoint?;
        (at.port() == 40_000 && is_up(&near)).then_some(())
    });
    transfer(&sites.server, &sites.host, DOWNLOADS[0], BYTES);
    let ghost_stats = &far.stats().peers[0];
    assert!(
        !ghost_stats.up && ghost_stats.endpoint.is_none(),
        "{ghost_stats:#?}"
    );
    assert_eq!(
        far.stats().public_key,
        Some(key_to_base64(&sites.far_key.public))
    );
}

/// The far end moves, and the near one follows. Then it returns and waits to be contacted: the near
/// end also tries the configured address.
#[test]
fn a_peer_that_moved_is_found_where_it_was_before() {
    let _alone = alone();
    let sites = Sites::new();
    let mut moved = sites.far_config("");
    moved.peers[0].endpoint = Some("10.9.2.1:51830".into());
    for listen in &mut moved.listen {
        listen.set_port(40_000);
    }
    let near = sites.start(&sites.near, sites.near_config(""));
    let far = sites.start(&sites.far, moved);
    until("the new port", || {
        let at = peer(&near).endpoint?;
        (at.port() == 40_000 && is_up(&near)).then_some(())
    });
    drop(far);
    once(&near, "silence", |stats| !stats.up);
    let _far = sites.start(&sites.far, sites.far_config(""));
    until("the old port", || {
        let at = peer(&near).endpoint?;
        (at.port() == 51_830 && is_up(&near)).then_some(())
    });
}

/// A restarted peer answers only initiations, so these must go to both addresses.
#[test]
fn a_peer_that_moved_and_was_restarted_is_found_where_it_is() {
    let _alone = alone();
    let sites = Sites::new();
    let at_the_new_port = |endpoint: Option<&str>| {
        let mut moved = sites.far_config("");
        moved.peers[0].endpoint = endpoint.map(Into::into);
        for listen in &mut moved.listen {
            listen.set_port(40_000);
        }
        sites.start(&sites.far, moved)
    };
    let near = sites.start(&sites.near, sites.near_config(""));
    let far = at_the_new_port(Some("10.9.2.1:51830"));
    until("the new port", || {
        let at = peer(&near).endpoint?;
        (at.port() == 40_000 && is_up(&near)).then_some(())
    });
    drop(far);
    once(&near, "silence", |stats| !stats.up);
    let _far = at_the_new_port(None);
    until("the new port again", || is_up(&near).then_some(()));
}
