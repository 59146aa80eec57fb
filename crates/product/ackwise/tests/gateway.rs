//! `ackwise gateway` on a veth between two namespaces.

mod common;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ackwise_testbed::Netns;
use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Detached, Net};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// What is said of a gateway and an attachment on one interface.
const BESIDE: &str = "has a gateway and an attachment";

fn up(net: &Net, more: &[&str]) -> Child {
    let child = Command::new("ip")
        .args(["netns", "exec", &net.receiver])
        .arg(ACKWISE.path())
        .args(["--format", "json", "gateway", "up"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the gateway", || {
        let code = net.run(&["gateway", "status", &net.iface]).code;
        (code == 0).then_some(())
    });
    child
}

fn stats(net: &Net) -> Value {
    let Ended { code, out, err } = net.run(&["--format", "json", "gateway", "status", &net.iface]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["gateways"].as_array().unwrap().len(), 1, "{out}");
    shown["gateways"][0].clone()
}

fn gateway_device(net: &Net) -> bool {
    let shown = must(&format!("ip -n {} link show", net.receiver));
    shown.contains("awgate")
}

#[test]
fn it_tells_and_ends_on_sigterm_and_on_down() {
    root();
    let net = Net::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "interface = \"{}\"\nrate = \"20 Mbit/s\"\n\
         queue = {{ limit = \"50 packets\", ack_filter = \"rfc3449\" }}\n",
        net.iface
    );
    std::fs::write(file.path(), text).unwrap();
    // As in the systemd unit: the file must be for the interface that is named.
    let path = file.path().to_str().unwrap();
    let Ended { code, err, .. } = net.run(&["gateway", "up", "lo", "--config", path]);
    assert_eq!(code, 2, "{err}");
    let says = format!("INTERFACE is lo, but {path} is for {}", net.iface);
    assert!(err.contains(&says), "{err}");
    assert!(!gateway_device(&net) && net.programs() == 0);
    let child = up(&net, &[&net.iface, "--config", path]);
    assert!(net.download(1) > 100_000);
    let shown = stats(&net);
    assert_eq!(shown["rate_bps"], 20_000_000);
    assert_eq!(shown["pid"], child.id());
    assert!(shown["read"].as_u64().unwrap() > 50, "{shown}");
    assert!(shown["reasons"].as_object().unwrap().len() > 1, "{shown}");
    let Ended { code, out, err } = net.run(&["gateway", "status"]);
    assert_eq!(code, 0, "{err}");
    for word in [net.iface.as_str(), "ACK filter rfc3449", "20.000 Mbit/s"] {
        assert!(out.contains(word), "no {word} in {out}");
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let output = String::from_utf8(out.stdout).unwrap();
    let last: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["why"]),
        (&"down".into(), &"SIGTERM".into())
    );
    assert!(!gateway_device(&net) && net.programs() == 0);

    let child = up(&net, &[&net.iface, "--rate", "1 Mbit/s"]);
    let Ended { code, err, .. } = net.run(&["gateway", "up", &net.iface, "--rate", "1 Mbit/s"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains(&child.id().to_string()), "{err}");
    let Ended { code, err, .. } = net.run(&["gateway", "down", &net.iface]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    let Ended { code, err, .. } = net.run(&["gateway", "down", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("ackwise gateway status"), "{err}");
    assert!(!gateway_device(&net) && net.programs() == 0);
}

#[test]
fn a_renamed_interface_is_shown_by_the_name_that_commands_take() {
    root();
    let net = Net::new();
    let mut child = up(&net, &[&net.iface, "--rate", "20 Mbit/s"]);
    must(&format!(
        "ip -n {} link set {} down",
        net.receiver, net.iface
    ));
    must(&format!(
        "ip -n {} link set {} name hv9",
        net.receiver, net.iface
    ));
    let Ended { code, out, err } = net.run(&["gateway", "status"]);
    assert_eq!(code, 0, "{err}");
    let name = format!("hv9 (was {})", net.iface);
    assert!(out.starts_with(&name), "{out}");
    let Ended { out, .. } = net.run(&["--format", "json", "gateway", "status", "hv9"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let shown = &shown["gateways"][0];
    assert_eq!(shown["interface"], net.iface.as_str());
    assert_eq!(shown["interface_now"], "hv9");
    let Ended { code, out, err } = net.run(&["gateway", "down", "hv9"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with(&name), "{out}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn after_down_another_one_may_begin_at_once() {
    root();
    let net = Net::new();
    for _ in 0..8 {
        let child = up(&net, &[&net.iface, "--rate", "1 Mbit/s"]);
        let Ended { code, err, .. } = net.run(&["gateway", "down", &net.iface]);
        assert_eq!(code, 0, "{err}");
        let next = up(&net, &[&net.iface, "--rate", "1 Mbit/s"]);
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
        let Ended { code, err, .. } = net.run(&["gateway", "down", &net.iface]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(next.wait_with_output().unwrap().status.code(), Some(0));
    }
}

/// Whichever starts first, the thinning program sees what leaves the queue, and sees it once.
#[test]
fn attach_on_the_same_interface_sees_each_packet_once() {
    root();
    for gateway_first in [true, false] {
        let net = Net::new();
        // Without a filter, since what a filter removes is never seen.
        let gateway = || {
            let args = [&net.iface, "--rate", "50mbit", "--ack-filter", "none"];
            up(&net, &args)
        };
        let thinning = || net.attach(&["--dry-run"]);
        let (child, attached) = if gateway_first {
            let child = gateway();
            (child, thinning())
        } else {
            let attached = thinning();
            (gateway(), attached)
        };
        assert!(net.download(3) > 100_000);
        std::thread::sleep(Duration::from_millis(100));
        let counted = stats(&net);
        // A gateway that gets no CPU for a while lets packets bypass its queue.
        let sent = counted["sent"]["packets"].as_u64().unwrap()
            + counted["passed"]["unattended"].as_u64().unwrap();
        let Ended { code, out, err } = net.run(&["--format", "json", "status", &net.iface]);
        assert_eq!(code, 0, "{err}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        let acks = shown["attachments"][0]["stats"]["acks"].as_u64().unwrap();
        assert!(sent > 200, "{sent} packets");
        // Besides ACKs there are handshakes and iperf3's control messages.
        assert!(
            (sent - 60..=sent).contains(&acks),
            "{acks} ACKs, {sent} sent"
        );
        attached.signal(Signal::SIGTERM);
        let Detached { status, err, .. } = attached.end();
        assert_eq!(status.code(), Some(0), "{err}");
        // A dry run withholds nothing.
        assert!(!err.contains(BESIDE), "{err}");
        let hint = format!("ackwise gateway status {}", net.iface);
        let listed = net.run(&["status"]).out;
        assert!(listed.contains(&hint), "{listed}");
        assert!(!listed.contains("Nothing is attached"), "{listed}");
        let Ended { code, err, .. } = net.run(&["status", &net.iface]);
        assert!(code == 1 && err.contains(&hint), "{err}");
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let told = child.wait_with_output().unwrap().stderr;
        let told = String::from_utf8_lossy(&told);
        assert!(!told.contains(BESIDE), "{told}");
        assert_eq!(net.programs(), 0);
    }
}

/// Whichever starts last says so, also as another user, who cannot read the registry.
#[test]
fn a_gateway_and_an_attachment_that_withholds_are_warned_of() {
    root();
    for user in [&[][..], &["--user", "nobody"]] {
        for gateway_first in [true, false] {
            let net = Net::new();
            let gateway = || {
                let args = [&[net.iface.as_str(), "--rate", "50mbit"], user].concat();
                up(&net, &args)
            };
            let (child, attached) = if gateway_first {
                let child = gateway();
                (child, net.attach(user))
            } else {
                let attached = net.attach(user);
                (gateway(), attached)
            };
            attached.signal(Signal::SIGTERM);
            let Detached { status, err, .. } = attached.end();
            assert_eq!(status.code(), Some(0), "{err}");
            assert_eq!(err.contains(BESIDE), gateway_first, "{user:?}: {err}");
            kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
            let told = child.wait_with_output().unwrap().stderr;
            let told = String::from_utf8_lossy(&told);
            assert_eq!(told.contains(BESIDE), !gateway_first, "{user:?}: {told}");
            assert_eq!(net.programs(), 0);
        }
    }
}

/// Opens a socket in each namespace, connected from the receiver's to the sender's.
fn datagrams(net: &Net) -> (UdpSocket, UdpSocket) {
    let open = |namespace: &str, address: &str| {
        Netns::named(namespace).run(|| UdpSocket::bind(address).unwrap())
    };
    let to = open(&net.sender, "10.9.0.1:7000");
    let from = open(&net.receiver, "10.9.0.2:0");
    from.connect("10.9.0.1:7000").unwrap();
    (from, to)
}

/// After a kill while packets pass, waiting packets are lost, nothing else of the gateway is left,
/// and later packets pass.
#[test]
fn killed_it_leaves_nothing_and_packets_pass() {
    root();
    let net = Net::new();
    let mut child = up(&net, &[&net.iface, "--rate", "100 Mbit/s"]);
    let (from, to) = datagrams(&net);
    to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let send = |number: u32| from.send(&number.to_be_bytes()).unwrap();
    let receive = || {
        let mut number = [0; 4];
        let read = to.recv(&mut number);
        assert_eq!(read.expect("a datagram"), 4);
        u32::from_be_bytes(number)
    };
    for number in 0..500 {
        send(number);
        assert_eq!(receive(), number);
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    // Send packets while its device and its hook are removed.
    let mut number = 500;
    while child.try_wait().unwrap().is_none() {
        send(number);
        number += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
    until("the end of its programs", || {
        (!gateway_device(&net) && net.programs() == 0).then_some(())
    });
    // Read what waits, so that there is room; every packet arrives from now on.
    to.set_nonblocking(true).unwrap();
    while to.recv(&mut [0; 4]).is_ok() {}
    to.set_nonblocking(false).unwrap();
    let later = number;
    for number in later..later + 500 {
        send(number);
        while receive() < number {}
    }
    assert!(!gateway_device(&net) && net.programs() == 0);
    let Ended { code, out, err } = net.run(&["gateway", "status"]);
    assert_eq!(
        (code, out.contains("No interface")),
        (0, true),
        "{out}{err}"
    );
}

/// A file is enough for a service: it contains the address of the metrics.
#[test]
fn a_file_says_where_metrics_are_served() {
    root();
    let net = Net::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let write = |address: &str| {
        let text = format!(
            "interface = \"{}\"\nrate = \"50 Mbit/s\"\nmetrics = \"{address}\"\n",
            net.iface
        );
        std::fs::write(&file, text).unwrap();
    };
    let path = file.to_str().unwrap();
    write("127.0.0.1:0");
    let mut child = up(&net, &["--config", path]);
    let mut first = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut first).unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    let address: SocketAddr = first["metrics"].as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);

    // An address in use is reported with its file, and nothing is attached.
    write(&address.to_string());
    let Ended { code, err, .. } = net.run(&["gateway", "up", "--config", path]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains(&format!("{path}: 'metrics' {address}")),
        "{err}"
    );
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!gateway_device(&net), "its device is still there");
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.toml");
    let text = "interface = \"wan0\"\nrate = 5\nqueue = { limit = \"50 packets\", \
                discipline = \"cake\", ack_fliter = \"rfc3449\" }\nburst = 1\n\
                metrics = \"9478\"\n";
    std::fs::write(&bad, text).unwrap();
    let Ended { code, out, err } = ACKWISE.run(&["gateway", "check", bad.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    for mistake in [
        "bad.toml:2:8: 'rate' is a rate and needs a unit",
        "bad.toml:3:46: this discipline is the kernel's own",
        "bad.toml:3:54: unknown key 'ack_fliter'",
        "bad.toml:4:1: unknown key 'burst' in a gateway",
        "bad.toml:5:11: 'metrics': '9478' is not an address and a port",
    ] {
        assert!(err.contains(mistake), "no {mistake} in\n{err}");
    }
    let Ended { code, err, .. } =
        ACKWISE.run(&["gateway", "up", "--config", bad.to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    let Ended { code, err, .. } = ACKWISE.run(&["gateway", "up", "nosuch0", "--rate", "1 Mbit/s"]);
    assert_eq!(code, 2, "{err}");
}
