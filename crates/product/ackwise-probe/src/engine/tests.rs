use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use super::*;
use crate::script::Stage;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 9480;

/// A wire of which the test says what arrives.
struct Told<F> {
    readable: File,
    arrives: F,
    /// So many packets leave, and then there is no route.
    leave: usize,
    sent: RefCell<Vec<Segment>>,
}

impl<F: FnMut() -> Next> Wire for Told<F> {
    fn send(&self, packet: &[u8], _: SocketAddr) -> io::Result<bool> {
        let mut sent = self.sent.borrow_mut();
        if sent.len() >= self.leave {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        sent.extend(Segment::read_v4(packet));
        Ok(true)
    }

    fn receive(&mut self) -> io::Result<Next> {
        Ok((self.arrives)())
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

fn place(end: End) -> Place {
    Place {
        end,
        acks: End::Client,
        here: HERE,
        there: THERE,
        scope_id: 0,
        port: PORT,
        ports: (1000..1052).collect(),
    }
}

/// Something arrives whenever it is looked for. The engine looks at its time in between.
#[test]
fn a_flood_does_not_keep_it_from_the_clock() {
    for readable in [true, false] {
        let flood = |port: u16| Segment {
            source: port,
            destination: PORT,
            flags: flag::SYN,
            ..Segment::default()
        };
        let mut port = 0_u16;
        let mut wire = Told {
            readable: File::open("/dev/zero").unwrap(),
            arrives: || {
                port = port.wrapping_add(1);
                if !readable {
                    return Next::Unreadable;
                }
                Next::Segment(Arrived {
                    at_ns: 0,
                    from: THERE,
                    segment: flood(port),
                })
            },
            leave: usize::MAX,
            sent: RefCell::default(),
        };
        let script = Script::new(Stage::Short, 1000);
        let (silent, _kept): (OwnedFd, OwnedFd) = nix::unistd::pipe().unwrap();
        let engine = Engine::new(&mut wire, place(End::Server), script);
        let until = Instant::now() + Duration::from_millis(20);
        let records = engine.run(silent.as_fd(), until).unwrap();
        assert!(records.sent.len() <= MAX_SENT);
        assert!(records.seen.len() <= MAX_SEEN);
    }
}

/// A route that goes away during a probe does not end it; without any from the start there is none.
#[test]
fn an_error_of_sending_ends_it_only_at_the_start() {
    for leave in [0, 5] {
        let mut wire = Told {
            readable: File::open("/dev/zero").unwrap(),
            arrives: || Next::Nothing,
            leave,
            sent: RefCell::default(),
        };
        let script = Script::new(Stage::Short, 1000);
        let (silent, _kept): (OwnedFd, OwnedFd) = nix::unistd::pipe().unwrap();
        let engine = Engine::new(&mut wire, place(End::Client), script);
        let until = Instant::now() + Duration::from_millis(200);
        let result = engine.run(silent.as_fd(), until);
        assert_eq!(result.is_ok(), leave > 0);
        assert_eq!(result.map_or(0, |it| it.sent.len()), leave);
    }
}
