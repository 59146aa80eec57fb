//! What may happen to an interface while the datapath is attached, and what may be above it:
//! renaming, a link that goes down, VLAN devices, tunnels.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use ackwise_datapath::{AttachMode, Datapath, Ended, Error, Options, control};
use common::{
    Flow, Pair, Seg, Wire, alone, eventually, in_virtual_time, ip, ms, output, run_command,
};

const VLAN: u16 = 5;
const BYTES: usize = 1_000_000;
/// More segments than pass after a pause. The last ACK of each burst leaves by itself.
const BURST: usize = 40_000;

/// 8 segments per ACK from the first on; D is 4 ms.
fn options(ifname: &str, attach: AttachMode) -> Options {
    let mut options = Options::new(ifname, "every-n:n=8,warm=0".parse().expect("a policy"));
    options.attach = attach;
    options.hold_rtt_shift = 0;
    options
}

fn attach(options: Options) -> Datapath {
    Datapath::attach(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Steps until ACKs are withheld again, and the last one has left.
fn thins(a: &Datapath, flow: &mut Flow, near: &Wire, far: &Wire) {
    let withheld = || a.stats().expect("counters").withheld;
    let before = withheld();
    eventually("ACKs are withheld", || {
        flow.step(near, far);
        withheld() > before
    });
    far.expect_up_to(&flow.ack().frame());
}

/// The link goes down with an ACK held, is renamed, and comes up. The datapath is still attached,
/// is found by the interface's current name, and leaves nothing behind. An interface that takes
/// over the old name is not affected.
#[test]
fn a_renamed_interface_stays_attached() {
    for by in [AttachMode::Tcx, AttachMode::Clsact] {
        let _alone = alone();
        Pair::new().run(|near, far| {
            let a = attach(options("aw0", by));
            let mut flow = Flow::start(near, far, Seg::ack(0));
            thins(&a, &mut flow, near, far);
            flow.step(near, far);
            ip("link set aw0 down");
            ip("link set aw0 name aw9");
            ip("link set aw9 up");
            // Sockets on the link report once that it was down.
            for wire in [near, far] {
                wire.drain(ms(20));
            }
            thins(&a, &mut flow, near, far);
            assert!(a.interface_alive(), "{by:?}");

            for name in ["aw9", "aw0"] {
                let status = control::status(name, 0).unwrap_or_else(|error| panic!("{error}"));
                assert!(status.stats.withheld > 0, "{by:?}: {name}");
            }
            ip("link add aw0 type veth peer name aw8");
            for found in [
                control::status("aw0", 0).map(|_| ()),
                control::detach("aw0").map(|_| ()),
            ] {
                assert!(matches!(found, Err(Error::NotAttached(_))), "{found:?}");
            }
            let other = attach(options("aw0", by));
            other.detach().expect("detach");

            let last = control::detach("aw9").expect("detaches").expect("counters");
            assert_eq!(last.release.lost, 0, "{by:?}: {last:#?}");
            assert_eq!(a.ended(), Some(Ended::Requested));
            assert_eq!(output("tc", "filter show dev aw9 egress").trim(), "");
            assert!(!output("tc", "qdisc show dev aw9").contains("clsact"));
            let passes = flow.step(near, far);
            far.expect_up_to(&passes);
        });
    }
}

/// Transfers bytes over TCP from the far side to the near one, and compares each.
fn transfer(pair: &Pair) {
    transfer_to("198.19.0.1", pair);
}

fn transfer_to(near: &str, pair: &Pair) {
    let listener = pair
        .near
        .run(|| TcpListener::bind((near, 0)).expect("listen"));
    let to = listener.local_addr().expect("an address");
    // No period of the pattern divides a segment.
    let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = pair.far.run(|| TcpStream::connect(to).expect("connect"));
            for burst in bytes.chunks(BURST) {
                stream.write_all(burst).expect("write");
                std::thread::sleep(ms(50));
            }
        });
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("read");
        assert!(received == bytes, "wrong bytes");
    });
}

/// Software VLANs: a VLAN device above the link, whose tag is beside the frame on the link (which
/// takes it as hardware would) or inside. The datapath is attached to the VLAN device or to the
/// link.
#[test]
fn vlan_devices_of_real_stacks() {
    in_virtual_time(|| {
        for (ifname, offload) in [("awv", "on"), ("awv", "off"), ("aw0", "on"), ("aw0", "off")] {
            let _alone = alone();
            let what = format!("{ifname}, tag offload {offload}");
            let pair = Pair::new();
            for (at, link, host) in [(&pair.near, "aw0", 1), (&pair.far, "aw1", 2)] {
                at.run(|| {
                    run_command(
                        "ethtool",
                        &format!("-K {link} gro off txvlan {offload} rxvlan {offload}"),
                    );
                    ip(&format!("link set {link} gso_max_segs 1 gso_max_size 2000"));
                    ip(&format!(
                        "link add link {link} name awv type vlan id {VLAN}"
                    ));
                    ip("link set awv gso_max_segs 1 gso_max_size 2000");
                    ip(&format!("addr add 198.19.0.{host}/24 dev awv"));
                    ip("link set awv up");
                });
            }
            pair.run(|_, far| {
                let a = attach(options(ifname, AttachMode::Tcx));
                transfer(&pair);
                let stats = a.detach().expect("detach");
                assert!(stats.withheld > 100, "{what}: {stats:#?}");
                assert!(stats.reemitted > 10, "{what}: {stats:#?}");
                assert_eq!(stats.release.lost, 0, "{what}: {stats:#?}");
                let arrived = far.tcp(ms(100));
                assert!(arrived.len() > 10, "{what}");
                for frame in arrived {
                    assert_eq!(frame.tag, Some(VLAN), "{what}: without its tag");
                }
            });
        }
    });
}

/// A tunnel device whose destinations come from routes stores them beside the frame, and drops a
/// frame that is re-sent without one. Such ACKs pass. The same device with one fixed far end thins.
#[test]
fn what_a_route_sends_through_a_tunnel_passes() {
    for by_routes in [true, false] {
        let _alone = alone();
        let pair = Pair::new();
        for (at, link, host, other) in [(&pair.near, "aw0", 1, 2), (&pair.far, "aw1", 2, 1)] {
            let far_end = format!("198.18.0.{other}");
            at.run(|| {
                ip(&format!("addr add 198.18.0.{host}/24 dev {link}"));
                let how = match by_routes {
                    true => "external".to_owned(),
                    false => format!("id 5 remote {far_end}"),
                };
                ip(&format!("link add awx type vxlan {how} dstport 4789"));
                ip(&format!(
                    "link set awx address 02:00:00:00:00:0{host} gso_max_segs 1 up"
                ));
                ip(&format!("addr add 198.19.1.{host}/32 dev awx"));
                let route = match by_routes {
                    true => format!("encap ip id 5 dst {far_end}"),
                    false => String::new(),
                };
                ip(&format!("route add 198.19.1.{other}/32 {route} dev awx"));
                ip(&format!(
                    "neigh add 198.19.1.{other} lladdr 02:00:00:00:00:0{other} dev awx"
                ));
            });
        }
        pair.run(|_, _| {
            let a = attach(options("awx", AttachMode::Tcx));
            transfer_to("198.19.1.1", &pair);
            let stats = a.detach().expect("detach");
            let no_frame = stats.fail_open["frame"];
            match by_routes {
                true => assert!(stats.withheld == 0 && no_frame > 10, "{stats:#?}"),
                false => assert!(stats.withheld > 10 && no_frame == 0, "{stats:#?}"),
            }
            assert_eq!(stats.release.lost, 0, "{stats:#?}");
        });
    }
}
