//! Partners that lie or stall. They cost a bounded time and bounded memory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_probe::protocol::{Answer, Frame, Request, VERSION, read, records_len, write_message};
use ackwise_probe::{Client, End, Server, Stage};
use ackwise_testbed::{Netns, Topology, host, in_virtual_time, link, run_command};

const PAIR: Topology = Topology {
    nodes: &[host("client"), host("server")],
    links: &[link("client.c0", "server.s0")],
};
const PARTNER: &str = "10.9.1.2:9479";

fn pair() -> [Netns; 2] {
    PAIR.build()
}

fn partner() -> SocketAddr {
    PARTNER.parse().expect("an address")
}

/// The client's error when it probes a failing partner, and after how long.
fn probed(client: &Netns) -> (String, Duration) {
    let began = Instant::now();
    let result = client.run(|| {
        let client = Client::connect("10.9.1.2", 9479)?;
        client.probe(1000, |_| ())
    });
    let message = result.expect_err("an error").to_string();
    (message, began.elapsed())
}

/// The client's error about a partner that does this on the control connection, and after how long.
fn error_in_time(partner_does: impl FnOnce(TcpStream) + Send) -> (String, Duration) {
    let [client, server] = &pair();
    let listener = server.run(|| TcpListener::bind(partner())).expect("a port");
    thread::scope(|scope| {
        scope.spawn(|| partner_does(listener.accept().expect("a client").0));
        probed(client)
    })
}

/// The client's error about a partner that does this on the control connection.
fn error_of(partner_does: impl FnOnce(TcpStream) + Send) -> String {
    error_in_time(partner_does).0
}

fn frame(text: &str) -> Vec<u8> {
    let length = (text.len() as u32 + 1).to_be_bytes();
    [&length[..], &[1], text.as_bytes()].concat()
}

#[test]
fn what_a_partner_says_does_not_act_on_a_terminal() {
    in_virtual_time(|| {
        // This clears the screen, sets the title, and reverses the direction of text.
        let evil = r"\u001b[2J\u001b]0;yours\u0007\u202e";
        for (text, part) in [
            (format!(r#"{{"failed":{{"why":"{evil}"}}}}"#), "failed"),
            (
                format!(r#"{{"failed":{{"why":"{}"}}}}"#, "é".repeat(2000)),
                "é",
            ),
            (format!(r#"{{"{evil}":1}}"#), "unknown variant"),
            (format!(r#"{{"failed":{{"{evil}":1}}}}"#), "unknown field"),
            (
                format!(r#"{{"failed":{{"why":"{}"}}}}"#, "e".repeat(5000)),
                "a frame of",
            ),
        ] {
            let message =
                error_of(|mut control| control.write_all(&frame(&text)).expect("to write"));
            let shown = |letter: char| !letter.is_control() && letter != '\u{202e}';
            assert!(message.chars().all(shown), "{message:?}");
            assert!(message.chars().count() < 600, "{message}");
            assert!(message.contains(part), "{message}");
        }
    });
}

#[test]
fn a_partner_that_says_a_byte_now_and_then_is_left() {
    in_virtual_time(|| {
        let message = error_of(|mut control| {
            let text = format!(r#"{{"welcome":{{"version":{VERSION},"port":9480}}}}"#);
            for byte in frame(&text) {
                thread::sleep(Duration::from_secs(5));
                if control.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        assert!(message.contains("takes too long"), "{message}");
    });
}

fn seconds(from: u64, to: u64) -> std::ops::Range<Duration> {
    Duration::from_secs(from)..Duration::from_secs(to)
}

/// It answers this many times and then stops. The connection stays, since its kernel still
/// acknowledges: a program that hangs.
#[test]
fn a_partner_that_stops_answering_is_left_in_time() {
    in_virtual_time(|| {
        let welcome = format!(r#"{{"welcome":{{"version":{VERSION},"port":9480}}}}"#);
        let answers = [welcome.as_str(), r#""ready""#];
        for (answered, words, time) in [
            // How long the client waits for each message.
            (0, "takes too long", seconds(30, 31)),
            (1, "takes too long", seconds(30, 31)),
            // It should play now, and its kernel refuses the flows, so there is nothing to wait
            // for.
            (2, "no connection", seconds(0, 5)),
        ] {
            let (message, after) = error_in_time(|mut control| {
                for answer in &answers[..answered] {
                    let request = read::<Request>(&mut control, 1000);
                    request.expect("a request");
                    control.write_all(&frame(answer)).expect("to write");
                }
                // Until the client closes.
                let _ = control.read_to_end(&mut Vec::new());
            });
            assert!(
                message.contains(words),
                "after {answered} answers: {message}"
            );
            assert!(time.contains(&after), "after {answered} answers: {after:?}");
        }
    });
}

/// Nothing comes back, not even an error.
#[test]
fn a_host_that_is_silent_is_left_in_time() {
    in_virtual_time(|| {
        let [client, server] = &pair();
        // The client's kernel learns the host's link address: otherwise it gives up after 3 s.
        let refused = client.run(|| TcpStream::connect(partner()));
        assert!(refused.is_err(), "nobody listens");
        cut(server);
        let (message, after) = probed(client);
        assert!(message.contains("ackwise probe --serve"), "{message}");
        assert!(seconds(10, 11).contains(&after), "{after:?}");
    });
}

/// From now on nothing arrives from the server's host.
fn cut(server: &Netns) {
    server.run(|| run_command("tc", "qdisc replace dev s0 root netem loss 100%"));
}

/// The path breaks for good in the middle of a session: it ends at both programs, and the server
/// accepts the next client.
#[test]
fn a_path_that_breaks_ends_the_session_at_both_ends() {
    in_virtual_time(|| {
        let [client, server] = &pair();
        let mut bound = server.run(|| Server::bind(partner())).expect("a server");
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_secs(12));
                cut(server);
            });
            let served = scope.spawn(|| server.run(|| bound.serve()));
            let (message, after) = probed(client);
            assert!(message.contains("takes too long"), "{message}");
            assert!(seconds(12, 181).contains(&after), "{after:?}");
            let served = served.join().expect("the server's thread");
            let message = served.expect_err("an error").to_string();
            assert!(message.contains("takes too long"), "{message}");
            let session = began.elapsed();
            assert!(seconds(12, 181).contains(&session), "{session:?}");
        });
        server.run(|| run_command("tc", "qdisc del dev s0 root"));
        thread::scope(|scope| {
            scope.spawn(|| server.run(|| bound.serve()));
            let client = client.run(|| Client::connect("10.9.1.2", 9479));
            drop(client.expect("the server takes another client"));
        });
    });
}

/// The server's error about a client that does this.
fn served(client_does: impl FnOnce(TcpStream) + Send) -> String {
    let [client, server] = &pair();
    for (node, device) in [(client, "c0"), (server, "s0")] {
        node.run(|| {
            run_command(
                "tc",
                &format!("qdisc add dev {device} root netem delay 10ms"),
            )
        });
    }
    let mut bound = server.run(|| Server::bind(partner())).expect("a server");
    thread::scope(|scope| {
        let asked = || client_does(TcpStream::connect(partner()).expect("a server"));
        scope.spawn(|| client.run(asked));
        let served = server.run(|| bound.serve());
        served.expect_err("an error").to_string()
    })
}

#[test]
fn a_client_that_says_a_byte_now_and_then_is_left() {
    in_virtual_time(|| {
        let message = served(|mut control| {
            for byte in frame(r#"{"hello":{"version":2}}"#) {
                thread::sleep(Duration::from_secs(5));
                if control.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        assert!(message.contains("takes too long"), "{message}");
    });
}

const LONG: Request = Request::Stage {
    stage: Stage::Long,
    acks: End::Client,
    interval_us: 20_000,
};

fn read_answer(control: &mut TcpStream) -> Option<Frame<Answer>> {
    read(control, records_len(15_000)).ok()
}

#[test]
fn a_client_that_goes_on_and_on_is_left() {
    in_virtual_time(|| {
        let message = served(|mut control| {
            let _ = write_message(&mut control, &Request::Hello { version: VERSION });
            read_answer(&mut control);
            loop {
                for request in [LONG, Request::Collect] {
                    let _ = write_message(&mut control, &request);
                    match read_answer(&mut control) {
                        Some(Frame::Message(Answer::Failed { .. })) | None => return,
                        Some(_) => {}
                    }
                }
                read_answer(&mut control);
                read_answer(&mut control);
            }
        });
        assert!(message.contains("takes too long"), "{message}");
    });
}

/// One end is stopped, for example by Ctrl-C, while a stage is played.
#[test]
fn a_client_or_a_partner_that_ends_is_told_as_that() {
    in_virtual_time(|| {
        let message = served(|mut control| {
            let _ = write_message(&mut control, &Request::Hello { version: VERSION });
            read_answer(&mut control);
            let _ = write_message(&mut control, &LONG);
            read_answer(&mut control);
        });
        assert!(
            message.contains("closed the control connection"),
            "{message}"
        );
        let message = error_of(|mut control| {
            let _ = read::<Request>(&mut control, 100);
        });
        assert!(
            message.contains("closed the control connection"),
            "{message}"
        );
    });
}

/// A client that neither sends nor collects occupies the server no longer than a session.
#[test]
fn a_client_that_plays_and_never_collects_is_left() {
    in_virtual_time(|| {
        let message = served(|mut control| {
            let _ = write_message(&mut control, &Request::Hello { version: VERSION });
            let _ = write_message(&mut control, &LONG);
            // Until the server closes.
            let _ = control.read_to_end(&mut Vec::new());
        });
        assert!(message.contains("takes too long"), "{message}");
    });
}
