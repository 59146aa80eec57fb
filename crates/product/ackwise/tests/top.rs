//! `ackwise top` on its own terminal (a pty), with a live attachment.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Net};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use serde_json::Value;

const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};
/// What a program sends to a terminal when it leaves the alternate screen (xterm's control
/// sequences, DECRST 1049).
const LEFT: &str = "\x1b[?1049l";

/// A program on a terminal.
struct OnTerminal {
    child: Child,
    keyboard: File,
    terminal: OwnedFd,
    before: Termios,
    shown: Arc<Mutex<String>>,
}

impl OnTerminal {
    fn start(net: &Net, args: &[&str]) -> Self {
        let pty = openpty(&SIZE, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = net
            .in_receiver(ACKWISE.path())
            .arg("top")
            .args(args)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let keyboard = File::from(pty.master.try_clone().unwrap());
        let (mut screen, text) = (File::from(pty.master), Arc::clone(&shown));
        // The read ends when the last descriptor of the terminal is closed.
        thread::spawn(move || {
            let mut room = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut room) {
                let output = String::from_utf8_lossy(&room[..len]);
                text.lock().unwrap().push_str(&output);
            }
        });
        Self {
            child,
            keyboard,
            terminal: pty.slave,
            before,
            shown,
        }
    }

    /// Waits until the program has shown a text.
    fn shows(&self, text: &str) {
        until(text, || self.has_shown(text).then_some(()));
    }

    fn has_shown(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }

    fn is_raw(&self) -> bool {
        let now = tcgetattr(self.terminal.as_fd()).unwrap();
        !now.local_flags.contains(LocalFlags::ICANON)
    }

    /// Waits for the program to end, and checks that the terminal is restored.
    fn ends(mut self) {
        let status = until("its end", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{}", self.shown.lock().unwrap());
        self.shows(LEFT);
        let after = tcgetattr(self.terminal.as_fd()).unwrap();
        assert_eq!(after.local_flags, self.before.local_flags);
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_shows_an_attachment_and_leaves_the_terminal_as_it_was() {
    root();
    let net = Net::new();
    let attached = net.attach(&["--policy", "every-n", "--set", "n=4"]);
    let top = OnTerminal::start(&net, &[&net.iface, "--interval", "200ms"]);
    // Neither can be on the screen before something was downloaded and drawn.
    assert!(net.download(2) > 1_000_000);
    top.shows("every-n");
    top.shows("10.9.0.2:");
    assert!(top.is_raw());
    (&top.keyboard).write_all(b"q").unwrap();
    top.ends();

    // A signal ends it as a key does.
    let top = OnTerminal::start(&net, &[]);
    top.shows("every-n");
    kill(Pid::from_raw(top.child.id() as i32), Signal::SIGTERM).unwrap();
    top.ends();
    // If it were killed, it would leave its entry in the registry.
    attached.signal(Signal::SIGTERM);
    assert_eq!(attached.end().status.code(), Some(0));
}

/// The name under which it attached may be that of another interface by now.
#[test]
fn a_renamed_interface_is_shown_by_both_names() {
    root();
    let net = Net::new();
    let Net {
        receiver, iface, ..
    } = &net;
    let attached = net.attach(&[]);
    let listed = || {
        let Ended { code, out, err } = net.run(&["--format", "json", "status"]);
        assert_eq!(code, 0, "{err}");
        let all: Value = serde_json::from_str(&out).unwrap();
        // Attachments of other tests are in other namespaces.
        let all = all["attachments"].as_array().unwrap().iter();
        let mut own = all.filter(|it| it["interface"] == iface.as_str());
        own.next().unwrap()["interface_now"].clone()
    };
    assert_eq!(listed(), Value::Null);
    for how in ["down", "name renamed0", "up"] {
        let name = if how == "up" { "renamed0" } else { iface };
        must(&format!("ip -n {receiver} link set {name} {how}"));
    }
    // Another interface has the old name.
    must(&format!(
        "ip -n {receiver} link add {iface} type veth peer name other0"
    ));
    assert_eq!(listed(), "renamed0");
    let both = format!("renamed0 (was {iface})");
    for args in [&["status"][..], &["status", "renamed0"]] {
        let Ended { code, out, err } = net.run(args);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(&both), "{args:?}: {out}");
    }
    let top = OnTerminal::start(&net, &["renamed0"]);
    // The program moves over spaces instead of writing them.
    for word in ["renamed0", "(was", &format!("{iface}):")] {
        top.shows(word);
    }
    kill(Pid::from_raw(top.child.id() as i32), Signal::SIGTERM).unwrap();
    top.ends();
    attached.signal(Signal::SIGTERM);
    assert_eq!(attached.end().status.code(), Some(0));
}

#[test]
fn without_a_terminal_or_anything_that_runs_it_says_so() {
    root();
    let net = Net::new();
    let Ended { code, out, err } = net.run(&["top"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("status --format json"), "{err}");

    let mut top = OnTerminal::start(&net, &["nosuch0"]);
    let status = until("its end", || top.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    top.shows("nothing of ackwise runs on nosuch0");
    assert!(!top.has_shown(LEFT), "it never drew");
}
