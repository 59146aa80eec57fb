//! A router with a gateway between real stacks: what passes, how fast, and what is left at the end.

mod common;

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_gateway::{AttachMode, Config, Ended, Error, Gateway, Stats, control};
use ackwise_netdev::{Interface, PacketSocket};
use ackwise_testbed::in_virtual_time;
use common::{AccessNetwork, BYTES, alone, assert_cleaned_up, ip, pattern, transfer, until};

/// Sockets at the host, and at the server on port 6000, whose reads time out after `timeout`.
fn datagrams(network: &AccessNetwork, timeout: Duration) -> (UdpSocket, UdpSocket) {
    let sender = network.host.run(|| UdpSocket::bind("10.9.1.1:0").unwrap());
    let receiver = network
        .server
        .run(|| UdpSocket::bind("10.9.2.2:6000").unwrap());
    receiver.set_read_timeout(Some(timeout)).unwrap();
    (sender, receiver)
}

/// Everything that was read has exactly one fate.
fn account(stats: &Stats) {
    let dropped = &stats.dropped;
    let fates = stats.sent.packets
        + stats.filtered.packets
        + stats.waiting.packets
        + dropped.full
        + dropped.early
        + dropped.forced
        + dropped.no_room
        + dropped.down
        + dropped.refused;
    // A packet may be in transmission at the time of the last counters.
    let difference = stats.read as i64 - fates as i64;
    assert!((0..=1).contains(&difference), "{difference}: {stats:#?}");
}

/// The counters once they satisfy `so`; they are published several times per second.
fn once(gateway: &Gateway, so: impl Fn(&Stats) -> bool) -> Stats {
    let timeout = Instant::now() + Duration::from_secs(30);
    loop {
        let stats = gateway.stats().unwrap();
        if so(&stats) {
            return stats;
        }
        assert!(Instant::now() < timeout, "{stats:#?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Repeats the transfer until the counters satisfy `so`: on a busy machine packets bypass the
/// gateway while its heartbeat is late.
fn again_until(gateway: &Gateway, so: impl Fn(&Stats) -> bool, transfer: impl Fn()) {
    for _ in 0..30 {
        transfer();
        if so(&gateway.stats().unwrap()) {
            return;
        }
    }
    panic!("{:#?}", gateway.stats().unwrap());
}

#[test]
fn uploads_and_downloads_arrive_byte_by_byte_over_both_families() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway(
        "40 Mbit/s",
        "{ limit = \"100 packets\", ack_filter = \"rfc3449\", acks_first = true }",
    );
    let up = |address| transfer(&network.host, &network.server, address);
    let down = |address| transfer(&network.server, &network.host, address);
    up("10.9.2.2:5001");
    up("[fd09:2::2]:5001");
    assert_eq!(network.router.leftovers().1, 1, "the test sees no programs");
    // Cut to the size of the wire: uploads arrive here as aggregated packets.
    once(&gateway, |stats| stats.taken.packets < stats.read);
    down("10.9.1.1:5002");
    down("[fd09:1::1]:5002");
    again_until(
        &gateway,
        |stats| stats.reasons.values().sum::<u64>() > 50,
        || down("10.9.1.1:5002"),
    );
    let stats = gateway.stop().unwrap();
    assert_eq!(stats.dropped.overrun + stats.dropped.refused, 0);
    account(&stats);
    assert_cleaned_up(&network);
    up("10.9.2.2:5003");
}

#[test]
fn marks_reach_real_stacks_and_slow_them() {
    let _alone = alone();
    for (address, family) in [("10.9.2.2:5001", 4), ("[fd09:2::2]:5001", 6)] {
        let network = AccessNetwork::new();
        for end in [&network.host, &network.server] {
            end.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap());
        }
        let queue = "{ limit = \"1000 packets\", discipline = \"red\", ecn = true, \
                     min = \"2 packets\", max = \"8 packets\", weight = 0.1 }";
        let gateway = network.gateway("20 Mbit/s", queue);
        transfer(&network.host, &network.server, address);
        let stats = gateway.stop().unwrap();
        assert!(stats.marked > 0, "IPv{family}: {stats:#?}");
        // A queue of 1000 would have held the whole slow start.
        assert!(stats.waiting.max_packets < 500, "IPv{family}: {stats:#?}");
        account(&stats);
    }
}

#[test]
fn the_rate_is_never_exceeded_and_the_queue_never_longer() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("4 Mbit/s", "\"20 packets\"");
    let (sender, receiver) = datagrams(&network, Duration::from_secs(1));
    let ended = Arc::new(AtomicBool::new(false));
    let no_more = Arc::clone(&ended);
    let receiving = thread::spawn(move || {
        // Not in order: a veth does not keep the order between CPUs.
        let mut arrived = HashSet::new();
        let mut buffer = [0; 2000];
        loop {
            let last = no_more.load(Ordering::Acquire);
            let len = match receiver.recv_from(&mut buffer) {
                Ok((len, _)) => len,
                // Silence means the end only if nothing can follow.
                Err(_) if last => break,
                Err(_) => continue,
            };
            assert_eq!(len, 972);
            let n = u32::from_be_bytes(buffer[..4].try_into().unwrap());
            assert!(arrived.insert(n), "{n} came twice");
        }
        arrived.len() as u64
    });
    for n in 0..2000_u32 {
        // At most 500 kB per second would pass.
        let mut data = vec![0; 972];
        data[..4].copy_from_slice(&n.to_be_bytes());
        sender.send_to(&data, "10.9.2.2:6000").unwrap();
        if n % 10 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    let stats = gateway.stop().unwrap();
    ended.store(true, Ordering::Release);
    let arrived: u64 = receiving.join().unwrap();
    account(&stats);
    // A busy machine may delay the gateway's heartbeat: then packets pass. The router itself
    // reports its multicast groups now and then.
    let passed = stats.passed.unattended;
    let others = (stats.sent.packets + passed) as i64 - arrived as i64;
    assert!((0..=8).contains(&others), "{others}: {stats:#?}");
    assert!(stats.dropped.full > 100, "{stats:#?}");
    assert!(stats.waiting.max_packets <= 20, "{stats:#?}");
    // 1000-byte IP packets; at the end the rest is sent at once.
    let allowed = 4e6 / 8.0 * stats.uptime_s + (21 + passed) as f64 * 1000.0;
    assert!(((arrived * 1000) as f64) <= allowed, "{stats:#?}");
    assert_cleaned_up(&network);
}

#[test]
fn datagrams_of_every_length_pass_unchanged() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let queue = "{ limit = \"2000 packets\", discipline = \"red\", min = \"900 packets\", \
                 max = \"1500 packets\" }";
    let gateway = network.gateway("1 Gbit/s", queue);
    let (sender, receiver) = datagrams(&network, Duration::from_secs(30));
    let all = pattern(4000);
    let mut buffer = [0; 5000];
    // Whole up to 1472, in fragments above.
    for len in (0..=200).chain((1460..=1480).chain([2960, 4000])) {
        sender.send_to(&all[..len], "10.9.2.2:6000").unwrap();
        let (got, _) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..got], all[..len], "{len}");
    }
    let stats = gateway.stop().unwrap();
    // The router itself reports its multicast groups now and then.
    let others = stats.read - (201 + 13 + 8 * 2 + 3 + 3);
    assert!(others <= 8, "{others}: {stats:#?}");
    account(&stats);
}

/// A modem with its own rate and much buffer is behind the interface.
#[test]
fn it_finds_the_rate_of_a_link_that_keeps_a_queue() {
    in_virtual_time(|| {
        finds_the_rate();
    });
}

/// Builds a gateway before a modem that is a token bucket, and a server behind it.
fn measuring(network: &AccessNetwork, modem: &str, keys: &str) -> (Gateway, TcpListener) {
    let text = format!("interface = \"wan0\"\nrate = \"50 Mbit/s\"\noverhead = 14\n{keys}");
    let config = Config::parse("test", &text).unwrap();
    let gateway = network.router.run(|| {
        common::run_command("tc", &format!("qdisc add dev wan0 root tbf {modem}"));
        Gateway::start(config, AttachMode::Auto).unwrap_or_else(|e| panic!("{e}"))
    });
    let listen = || TcpListener::bind("10.9.2.2:5001").unwrap();
    (gateway, network.server.run(listen))
}

fn finds_the_rate() {
    let network = AccessNetwork::new();
    let modem = "rate 3mbit burst 3000 limit 2000000";
    let keys = "min_rate = \"300 kbit/s\"\nqueue = \"40 packets\"";
    let (gateway, listener) = measuring(&network, modem, keys);
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).is_ok_and(|got| got > 0) {}
    });
    let stream = network
        .host
        .run(|| TcpStream::connect("10.9.2.2:5001").unwrap());
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let feed = |span: Duration| {
        let began = Instant::now();
        while began.elapsed() < span {
            // Keep it full for a while, which makes the link busy.
            let _ = (&stream).write(&[1; 1 << 14]);
        }
    };
    let rate = |stats: &Stats| stats.measured.unwrap().rate_bps;
    assert_eq!(rate(&gateway.stats().unwrap()), 50_000_000);
    // The last rate is a twentieth of the one before.
    for link_bps in [3_000_000, 10_000_000, 500_000] {
        network.router.run(|| {
            let modem = format!("rate {link_bps}bit burst 3000 limit 2000000");
            common::run_command("tc", &format!("qdisc change dev wan0 root tbf {modem}"));
        });
        feed(Duration::from_secs(5));
        let mut found = Vec::new();
        for _ in 0..20 {
            feed(Duration::from_millis(300));
            let stats = gateway.stats().unwrap();
            assert!(stats.measured.unwrap().link_bps.is_some(), "{stats:#?}");
            found.push(rate(&stats) as f64 / link_bps as f64);
        }
        found.sort_by(f64::total_cmp);
        println!("{link_bps}: {found:?}");
        assert!((0.85..1.15).contains(&found[10]), "{link_bps}: {found:?}");
    }
    drop(stream);
    account(&gateway.stop().unwrap());
    assert_cleaned_up(&network);
}

/// Only the ACKs of a download fill the modem.
#[test]
fn it_finds_the_rate_of_a_link_that_only_acks_fill() {
    in_virtual_time(|| {
        finds_the_rate_by_acks();
    });
}

fn finds_the_rate_by_acks() {
    let network = AccessNetwork::new();
    let modem = "rate 200kbit burst 1600 limit 25000";
    let (gateway, listener) = measuring(&network, modem, "min_rate = \"50 kbit/s\"");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[1; 1 << 14]).is_ok() {}
    });
    let mut stream = network
        .host
        .run(|| TcpStream::connect("10.9.2.2:5001").unwrap());
    let mut buffer = vec![0; 1 << 16];
    let mut download_for = |span: Duration| {
        let (began, mut bytes) = (Instant::now(), 0);
        while began.elapsed() < span {
            bytes += stream.read(&mut buffer).unwrap();
        }
        bytes
    };
    download_for(Duration::from_secs(5));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for _ in 0..20 {
        bytes += download_for(Duration::from_millis(300));
        let stats = gateway.stats().unwrap();
        found.push(stats.measured.unwrap().rate_bps as f64 / 2e5);
    }
    found.sort_by(f64::total_cmp);
    println!("{found:?}, {} Mbit/s", bytes as f64 * 8.0 / 6e6);
    assert!((0.85..1.15).contains(&found[10]), "{found:?}");
    drop(stream);
    account(&gateway.stop().unwrap());
    assert_cleaned_up(&network);
}

/// An uplink without link headers, such as PPP or a tunnel.
fn bare_uplink(name: &str) -> File {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .unwrap();
    // SAFETY: plain data; zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: a live ifreq.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    ip(&format!("link set {name} up"));
    device
}

#[test]
fn an_uplink_without_link_headers() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let mut uplink = network.router.run(|| {
        let uplink = bare_uplink("ppp0");
        ip("route add 192.0.2.0/24 dev ppp0");
        ip("-6 route add 2001:db8::/32 dev ppp0");
        uplink
    });
    let text = "interface = \"ppp0\"\nrate = \"40 Mbit/s\"\n\
                queue = { limit = \"900 packets\", ack_filter = \"rfc3449\" }";
    let config = Config::parse("test", text).unwrap();
    let gateway = network
        .router
        .run(|| Gateway::start(config, AttachMode::Auto));
    let gateway = gateway.unwrap_or_else(|e| panic!("{e}"));
    common::wait_for_heartbeat(&gateway);
    let all = pattern(1400);
    let mut packet = [0; 2000];
    for (from, to, header) in [
        ("10.9.1.1:0", "192.0.2.1:7", 28),
        ("[fd09:1::1]:0", "[2001:db8::1]:7", 48),
    ] {
        let sender = network.host.run(|| UdpSocket::bind(from).unwrap());
        for len in [0, 1, 2, 33, 500, 1399, 1400] {
            sender.send_to(&all[..len], to).unwrap();
            let whole = loop {
                let got = uplink.read(&mut packet).unwrap();
                // Skip the router's own multicast.
                let udp = if packet[0] >> 4 == 4 {
                    packet[9]
                } else {
                    packet[6]
                } == 17;
                if udp {
                    break &packet[..got];
                }
            };
            assert_eq!(whole[header..], all[..len]);
        }
    }
    let stats = gateway.stop().unwrap();
    assert!(stats.sent.packets >= 14, "{stats:#?}");
    account(&stats);
    assert_cleaned_up(&network);
}

#[test]
fn an_mtu_that_grows_is_noticed() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("40 Mbit/s", "\"100 packets\"");
    network.host.run(|| ip("link set lan0 mtu 4000"));
    network.server.run(|| ip("link set wan1 mtu 4000"));
    network.router.run(|| {
        ip("link set lan1 mtu 4000");
        ip("link set wan0 mtu 4000");
    });
    common::wait_for_heartbeat(&gateway);
    let (sender, receiver) = datagrams(&network, Duration::from_secs(2));
    let all = pattern(3972);
    for len in [1500, 1600, 3972] {
        sender.send_to(&all[..len], "10.9.2.2:6000").unwrap();
        let mut buffer = [0; 5000];
        let (got, _) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..got], all[..len]);
    }
    let stats = gateway.stop().unwrap();
    assert_eq!(stats.dropped.refused, 0, "{stats:#?}");
    account(&stats);
}

/// Some interfaces have a longer MTU than a TAP device can have.
#[test]
fn the_longest_packets_of_ip_pass() {
    let _alone = alone();
    let network = AccessNetwork::new();
    network.host.run(|| ip("link set lan0 mtu 65535"));
    network.server.run(|| ip("link set wan1 mtu 65535"));
    network.router.run(|| {
        ip("link set lan1 mtu 65535");
        ip("link set wan0 mtu 65535");
    });
    let gateway = network.gateway("400 Mbit/s", "\"100 packets\"");
    let (sender, receiver) = datagrams(&network, Duration::from_secs(2));
    let all = pattern(65_507);
    for len in [1500, 65_485, 65_507] {
        sender.send_to(&all[..len], "10.9.2.2:6000").unwrap();
        let mut buffer = vec![0; 65_536];
        let (got, _) = receiver.recv_from(&mut buffer).unwrap();
        assert!(buffer[..got] == all[..len], "{got} of {len}");
    }
    let stats = gateway.stop().unwrap();
    assert_eq!(stats.dropped.total(), 0, "{stats:#?}");
    assert!(stats.sent.packets >= 3, "{stats:#?}");
    account(&stats);
}

/// Its old name may be another interface's by then, whose MTU does not count.
#[test]
fn the_mtu_is_that_of_the_interface_after_it_got_another_name() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("40 Mbit/s", "\"100 packets\"");
    network.router.run(|| {
        ip("link set wan0 name ppp0");
        ip("link add wan0 mtu 600 type veth peer name other0");
    });
    common::wait_for_heartbeat(&gateway);
    let (sender, receiver) = datagrams(&network, Duration::from_secs(2));
    let sent = pattern(1472);
    sender.send_to(&sent, "10.9.2.2:6000").unwrap();
    let mut buffer = [0; 5000];
    let (got, _) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..got], sent);
    let stats = gateway.stop().unwrap();
    assert_eq!(stats.dropped.refused, 0, "{stats:#?}");
    account(&stats);
}

#[test]
fn on_clsact_as_well() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway_by("40 Mbit/s", "\"100 packets\"", AttachMode::Clsact);
    assert_eq!(gateway.stats().unwrap().attach, AttachMode::Clsact);
    again_until(
        &gateway,
        |stats| stats.sent.packets as usize > BYTES / 1448,
        || transfer(&network.host, &network.server, "10.9.2.2:5001"),
    );
    assert_eq!(network.router.leftovers().1, 1, "the test sees no programs");
    gateway.stop().unwrap();
    assert_cleaned_up(&network);
    transfer(&network.host, &network.server, "10.9.2.2:5002");
    let qdiscs = || {
        network
            .router
            .run(|| common::run_command("tc", "qdisc show dev wan0"))
    };
    assert!(!qdiscs().contains("clsact"), "{}", qdiscs());
    let text = "interface = \"wan0\"\nrate = \"40 Mbit/s\"\nmin_rate = \"1 Mbit/s\"";
    let config = Config::parse("test", text).unwrap();
    let start = || Gateway::start(config, AttachMode::Clsact);
    let gateway = network.router.run(start).unwrap();
    assert!(qdiscs().contains("clsact"), "{}", qdiscs());
    gateway.stop().unwrap();
    assert_cleaned_up(&network);
    assert!(!qdiscs().contains("clsact"), "{}", qdiscs());
}

#[test]
fn an_interface_has_one_gateway_that_answers_and_goes_when_asked() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let first = network.gateway("8 Mbit/s", "\"5 packets\"");
    let config = Config::parse(
        "test",
        "interface = \"wan0\"\nrate = \"1 Mbit/s\"\nqueue = \"5 packets\"",
    )
    .unwrap();
    let second = network
        .router
        .run(|| Gateway::start(config.clone(), AttachMode::Auto));
    let me = std::process::id();
    assert!(matches!(second, Err(Error::Held { pid, .. }) if pid == me));
    network.router.run(|| {
        assert_eq!(control::list().unwrap(), ["wan0"]);
        assert_eq!(control::status("wan0").unwrap().rate_bps, 8_000_000);
        assert!(matches!(control::status("lan1"), Err(Error::NotThere(_))));
        for (name, new) in [("wan0", "wan7"), ("wan7", "wan0")] {
            ip(&format!("link set {name} down"));
            ip(&format!("link set {name} name {new}"));
            ip(&format!("link set {new} up"));
            assert_eq!(control::list().unwrap(), [new]);
            assert_eq!(control::status(new).unwrap().rate_bps, 8_000_000);
        }
        assert_eq!(control::down("wan0").unwrap().interface, "wan0");
    });
    assert_eq!(until("the end", || first.ended()), Ended::Requested);
    first.stop().unwrap();
    assert_cleaned_up(&network);
    network
        .host
        .run(|| assert!(control::list().unwrap().is_empty()));
    let again = network
        .router
        .run(|| Gateway::start(config, AttachMode::Tcx));
    again.unwrap().stop().unwrap();
    assert_cleaned_up(&network);
}

#[test]
fn m5_a_squatter_of_another_user_has_no_effect() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let _alone = alone();
    let network = AccessNetwork::new();
    // Anybody can bind abstract names.
    let squatter = network.router.run_as_nobody(|| {
        let name = SocketAddr::from_abstract_name("ackwise-gateway-wan0").unwrap();
        UnixListener::bind_addr(&name).unwrap()
    });
    let list = || network.router.run(|| control::list().unwrap());
    assert!(list().is_empty());
    let gateway = network.gateway("8 Mbit/s", "\"5 packets\"");
    assert_eq!(list(), ["wan0"]);
    network.router.run_as_nobody(|| {
        assert!(control::list().is_err());
        let refused = control::down("wan0").unwrap_err().to_string();
        assert!(refused.contains("run as root"), "{refused}");
    });
    let status = network.router.run(|| control::status("wan0").unwrap());
    assert_eq!(status.pid, std::process::id());
    squatter.set_nonblocking(true).unwrap();
    assert!(squatter.accept().is_err(), "it was asked");
    gateway.stop().unwrap();
    assert_cleaned_up(&network);
}

#[test]
fn neighbours_are_found_past_a_full_queue() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("8 kbit/s", "\"100 packets\"");
    let sender = network.host.run(|| UdpSocket::bind("10.9.1.1:0").unwrap());
    for _ in 0..50 {
        sender.send_to(&[0; 1000], "10.9.2.2:6000").unwrap();
    }
    network.server.run(|| {
        ip("neigh flush dev wan1");
        ip("-6 neigh flush dev wan1");
        // These ask for the router's link address; the answers must not wait 50 s.
        let v6 = UdpSocket::bind("[fd09:2::2]:0").unwrap();
        v6.send_to(&[1], "[fd09:2::1]:7000").unwrap();
        let v4 = UdpSocket::bind("10.9.2.2:0").unwrap();
        v4.send_to(&[1], "10.9.2.1:7000").unwrap();
        for family in ["-4", "-6"] {
            until("the neighbour", || {
                let shown = common::run_command("ip", &format!("{family} neigh show dev wan1"));
                shown.contains("REACHABLE").then_some(())
            });
        }
    });
    let stats = gateway.stop().unwrap();
    assert!(
        stats.passed.other >= 1 && stats.passed.neighbour >= 1,
        "{stats:#?}"
    );
    assert!(stats.sent.packets > 30, "what waited is sent: {stats:#?}");
}

/// Sends frames of one kind through `wan0` of the router, past everything but the gateway's
/// program.
fn send_frames(network: &AccessNetwork, count: usize, ethertypes: &[u16], payload: &[u8]) {
    let mut frame = [[0xff; 6], [2; 6]].concat();
    for (n, ethertype) in ethertypes.iter().enumerate() {
        frame.extend(ethertype.to_be_bytes());
        if n + 1 < ethertypes.len() {
            frame.extend([0, 7]); // VLAN 7
        }
    }
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    network.router.run(|| {
        let wan = Interface::find("wan0").unwrap();
        let socket = PacketSocket::open(wan, 0x5eed).unwrap();
        for _ in 0..count {
            assert_eq!(socket.send(&[&frame]).packets, 1);
        }
    });
}

/// What the gateway's program does with a frame.
#[derive(Clone, Copy, PartialEq)]
enum Treatment {
    /// It passes, and is counted as not IP.
    Other,
    /// It passes, and is counted as neighbour discovery.
    Neighbour,
    /// It is redirected to the queue.
    Waits,
}

/// Frames to send, and what happens to them.
struct Kind {
    what: &'static str,
    ethertypes: Vec<u16>,
    payload: Vec<u8>,
    treatment: Treatment,
}

impl Kind {
    fn new(what: &'static str, ethertypes: &[u16], payload: &[u8], treatment: Treatment) -> Self {
        Self {
            what,
            ethertypes: ethertypes.to_vec(),
            payload: payload.to_vec(),
            treatment,
        }
    }
}

#[test]
fn l9_what_keeps_a_link_alive_passes_a_full_queue() {
    const MANY: u64 = 400;
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("8 kbit/s", "\"5 packets\"");
    // PPPoE session 1: version and type, code, session, length; then the PPP protocol.
    let session = |protocol: u16| [&[0x11, 0, 0, 1, 0, 10][..], &protocol.to_be_bytes()].concat();
    // An IPv6 header with no payload length, then ICMPv6 type and code.
    let discovery = |hop_limit: u8, code: u8| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, hop_limit];
        packet.extend([0xfe; 32]);
        packet.extend([135, code]);
        packet
    };
    let echo = session(0xc021);
    let in_ppp = [session(0x0057), discovery(255, 0)].concat();
    let tagged = [0x8100, 0x8864];
    let kinds = [
        Kind::new("LCP", &[0x8864], &echo, Treatment::Other),
        Kind::new("IPCP", &[0x8864], &session(0x8021), Treatment::Other),
        Kind::new("LCP in a VLAN", &tagged, &echo, Treatment::Other),
        Kind::new(
            "ARP in VLANs",
            &[0x88a8, 0x8100, 0x0806],
            &[],
            Treatment::Other,
        ),
        Kind::new(
            "IPv4 in PPPoE",
            &[0x8864],
            &session(0x0021),
            Treatment::Waits,
        ),
        Kind::new(
            "discovery in PPPoE",
            &[0x8864],
            &in_ppp,
            Treatment::Neighbour,
        ),
        Kind::new(
            "in a VLAN",
            &[0x8100, 0x86dd],
            &discovery(255, 0),
            Treatment::Neighbour,
        ),
        Kind::new("forwarded", &[0x86dd], &discovery(254, 0), Treatment::Waits),
        Kind::new(
            "with a code",
            &[0x86dd],
            &discovery(255, 1),
            Treatment::Waits,
        ),
    ];
    for kind in kinds {
        let before = gateway.stats().unwrap();
        send_frames(&network, MANY as usize, &kind.ethertypes, &kind.payload);
        let now = gateway.stats().unwrap();
        let grown = [
            now.passed.other - before.passed.other,
            now.passed.neighbour - before.passed.neighbour,
            now.taken.packets - before.taken.packets,
        ];
        // The hosts send few packets of their own.
        let expected = [Treatment::Other, Treatment::Neighbour, Treatment::Waits]
            .map(|one| one == kind.treatment);
        let what = kind.what;
        assert_eq!(grown.map(|n| n >= MANY), expected, "{what}: {grown:?}");
        assert_eq!(grown.map(|n| n >= MANY / 2), expected, "{what}: {grown:?}");
    }
    gateway.stop().unwrap();
    assert_cleaned_up(&network);
}

#[test]
fn an_interface_that_is_not_there() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let config = Config::parse(
        "test",
        "interface = \"nosuch0\"\nrate = \"1 Mbit/s\"\nqueue = \"5 packets\"",
    );
    let started = network
        .router
        .run(|| Gateway::start(config.unwrap(), AttachMode::Auto));
    let error = started.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("ip link"), "{error}");
    assert_cleaned_up(&network);
}
