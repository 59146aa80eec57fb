//! The service manager's side of a long run: ready, alive, stopping.
//!
//! `sd_notify(3)` is one datagram to the socket that `NOTIFY_SOCKET` names; without
//! that variable every call does nothing.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A service manager that wants to know, or nobody.
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_env() -> Self {
        let var = |name| std::env::var(name).ok();
        Self::new(
            std::env::var_os("NOTIFY_SOCKET").as_deref(),
            var("WATCHDOG_USEC").as_deref(),
            var("WATCHDOG_PID").as_deref(),
        )
    }

    fn new(socket: Option<&OsStr>, usec: Option<&str>, pid: Option<&str>) -> Self {
        let socket = socket.and_then(|path| {
            let addr = address(path).ok()?;
            Some((UnixDatagram::unbound().ok()?, addr))
        });
        let for_us = pid.is_none_or(|p| p.parse() == Ok(std::process::id()));
        let watchdog = usec
            .filter(|_| for_us)
            .and_then(|u| u.parse().ok())
            .filter(|&u| u > 0)
            .map(Duration::from_micros);
        Self { socket, watchdog }
    }

    /// How long the manager waits for a sign of life; send two within it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Attached: what was started may rely on it.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Alive, with a line for `systemctl status`.
    pub fn alive(&self, status: &str) {
        self.send(&format!("WATCHDOG=1\nSTATUS={status}"));
    }

    /// Detaching.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, message: &str) {
        if let Some((socket, addr)) = &self.socket {
            // Nobody listening is no reason to stop thinning.
            let _ = socket.send_to_addr(message.as_bytes(), addr);
        }
    }
}

fn address(path: &OsStr) -> std::io::Result<SocketAddr> {
    match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut buf = [0; 256];
        let n = socket.recv(&mut buf).unwrap();
        String::from_utf8(buf[..n].to_vec()).unwrap()
    }

    #[test]
    fn a_path_and_an_abstract_name_both_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        Notifier::new(Some(path.as_os_str()), None, None).ready("eth0");
        assert_eq!(receive(&listener), "READY=1\nSTATUS=eth0");

        let name = format!("ackwise-notify-test-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let listener = UnixDatagram::bind_addr(&addr).unwrap();
        Notifier::new(Some(OsStr::new(&format!("@{name}"))), None, None).stopping();
        assert_eq!(receive(&listener), "STOPPING=1");
    }

    #[test]
    fn the_watchdog_is_ours_or_not() {
        let me = std::process::id().to_string();
        let n = |usec, pid| Notifier::new(None, usec, pid).watchdog();
        assert_eq!(n(Some("2000000"), Some(&me)), Some(Duration::from_secs(2)));
        assert_eq!(n(Some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(n(Some("2000000"), Some("1")), None);
        assert_eq!(n(Some("0"), None), None);
        assert_eq!(n(Some("soon"), None), None);
        assert_eq!(n(None, None), None);
    }
}
