//! 10 Mbit/s down, 100 kbit/s up, two gateways: what a download gets of its capacity
//! when the ACKs wait in a plain queue, and when a filter looks after them.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_gateway::{Attach, Config, Gateway, Stats};
use common::{Home, alone};

/// Of Ethernet, which counts against both rates.
const HEADER: f64 = 14.0;
/// Payload of a full segment with timestamps, and its IP packet.
const SEGMENT: [f64; 2] = [1448.0, 1500.0];
const DOWN_BPS: f64 = 10e6;
const WARM: Duration = Duration::from_secs(1);
const SPAN: Duration = Duration::from_secs(3);

fn config(interface: &str, rate: &str, queue: &str) -> Config {
    let text =
        format!("interface = \"{interface}\"\nrate = \"{rate}\"\nheader = 14\nqueue = {queue}");
    Config::parse("test", &text).unwrap()
}

/// Share of what the forward direction could carry, once the flow has started, and
/// what the gateway of the ACKs did.
fn share(queue: &str) -> (f64, Stats) {
    let home = Home::new();
    let down = config("wan1", "10 Mbit/s", "\"60 packets\"");
    let down = home.server.run(|| Gateway::start(down, Attach::Auto));
    let up = config("wan0", "100 kbit/s", queue);
    let up = home.router.run(|| Gateway::start(up, Attach::Auto));
    let (down, up) = (down.unwrap(), up.unwrap());

    let listener = home
        .server
        .run(|| TcpListener::bind("10.9.2.2:80").unwrap());
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[7; 1 << 16]).is_ok() {}
    });
    let mut stream = home.host.run(|| TcpStream::connect("10.9.2.2:80").unwrap());
    let mut buffer = vec![0; 1 << 16];
    let mut receive = |span: Duration| {
        let began = Instant::now();
        let mut bytes = 0;
        while began.elapsed() < span {
            bytes += stream.read(&mut buffer).unwrap();
        }
        bytes as f64 / began.elapsed().as_secs_f64()
    };
    receive(WARM);
    let rate = receive(SPAN);
    drop(stream);
    serving.join().unwrap();
    down.stop().unwrap();
    let [payload, packet] = SEGMENT;
    let capacity = DOWN_BPS / 8.0 * payload / (packet + HEADER);
    (rate / capacity, up.stop().unwrap())
}

#[test]
fn a_download_is_not_held_back_by_its_acks() {
    let _alone = alone();
    let (plain, before) = share("\"60 packets\"");
    let filter = "{ limit = \"60 packets\", ack_filter = \"rfc3449\" }";
    let (filtered, after) = share(filter);
    println!("share of the forward capacity: plain {plain:.3}, filtered {filtered:.3}");
    assert_eq!(before.filtered.packets, 0);
    assert!(after.filtered.packets > after.read / 4, "{after:#?}");
    assert_eq!(after.dropped.full, 0, "{after:#?}");
    assert!(filtered > 1.5 * plain, "{filtered} against {plain}");
}
