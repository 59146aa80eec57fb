//! 1 Mbit/s down, 10 kbit/s up, two gateways: how many segments come down per ACK that goes up,
//! when ACKs wait in a plain queue and when a filter handles them. The amount is judged in virtual
//! time; otherwise everything is only counted, and a run ends at a count. Goodput itself is judged
//! in ackwise-engines (`virtual_gateway`).

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ackwise_gateway::{AttachMode, Config, Gateway, Stats};
use ackwise_testbed::{here_and_in_virtual_time, time_is_virtual};
use common::{AccessNetwork, alone};

/// The number of ACKs that go up before the segments that came down are counted.
const ACKS: u64 = 80;
/// The payload of a full segment with timestamps.
const SEGMENT: f64 = 1448.0;

fn config(interface: &str, rate: &str, queue: &str) -> Config {
    let text =
        format!("interface = \"{interface}\"\nrate = \"{rate}\"\noverhead = 14\nqueue = {queue}");
    Config::parse("test", &text).unwrap()
}

/// Returns the segments that came down per packet that went up, and the counters of the ACKs'
/// gateway.
fn segments_an_ack(queue: &str) -> (f64, Stats) {
    let network = AccessNetwork::new();
    let down = config("wan1", "1 Mbit/s", "\"60 packets\"");
    let down = network
        .server
        .run(|| Gateway::start(down, AttachMode::Auto));
    let up = config("wan0", "10 kbit/s", queue);
    let up = network.router.run(|| Gateway::start(up, AttachMode::Auto));
    let (down, up) = (down.unwrap(), up.unwrap());

    let listener = network
        .server
        .run(|| TcpListener::bind("10.9.2.2:80").unwrap());
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[7; 1 << 16]).is_ok() {}
    });
    let mut stream = network
        .host
        .run(|| TcpStream::connect("10.9.2.2:80").unwrap());
    let timeout = Some(Duration::from_millis(50));
    stream.set_read_timeout(timeout).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    let sent = loop {
        match stream.read(&mut buffer) {
            Ok(read) => bytes += read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => panic!("{e}"),
        }
        let sent = up.stats().unwrap().sent.packets;
        if sent >= ACKS {
            break sent;
        }
    };
    drop(stream);
    serving.join().unwrap();
    down.stop().unwrap();
    (bytes as f64 / SEGMENT / sent as f64, up.stop().unwrap())
}

#[test]
fn a_download_is_not_held_back_by_its_acks() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        let (plain, before) = segments_an_ack("\"60 packets\"");
        let filter = "{ limit = \"60 packets\", ack_filter = \"rfc3449\" }";
        let (filtered, after) = segments_an_ack(filter);
        println!("segments for an ACK that went up: plain {plain:.2}, filtered {filtered:.2}");
        assert_eq!(before.filtered.packets, 0);
        assert!(after.filtered.packets > 0, "{after:#?}");
        // A busy machine reads late, so the window shrinks, which is news.
        if time_is_virtual() {
            assert!(filtered > 1.4 * plain, "{filtered} against {plain}");
        }
    });
}
