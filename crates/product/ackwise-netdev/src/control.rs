//! The control socket of a daemon, through which other processes read its counters and stop it.
//!
//! A request and its answer are one line of JSON each. Both sides limit what they read, and talk
//! only to root and to their own user. Control characters in an answer are escaped, since it may be
//! printed to a terminal. The socket is a file of the [registry](crate::registry).

use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::user::{effective_user, is_system_user};

/// How long either side waits for the other.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum length of a request in bytes.
const MAX_REQUEST: usize = 4096;
/// The maximum length of an answer in bytes: some 2000 flows.
const MAX_ANSWER: usize = 1 << 20;
/// The pause after a failed connection: an error of accept(2) may last for a while.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// What a daemon can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Return the counters, and the `flows` busiest flows if the daemon tracks any.
    Status {
        /// The maximum number of flows in the answer.
        flows: usize,
    },
    /// Stop; the answer has the last counters.
    Stop,
}

impl Request {
    /// Asks for the counters without flows.
    pub const STATUS: Request = Request::Status { flows: 0 };
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<S> {
    Status(Box<S>),
    Error(String),
}

/// Why a daemon did not answer.
#[derive(Debug, PartialEq, Eq)]
pub enum AskError {
    /// There is no daemon of this name.
    NotRunning,
    /// The daemon refused, or failed for this reason.
    Failed(String),
}

/// A bound control socket that is not served yet.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Binds a path. The caller must ensure, for instance by a lock, that nobody else uses it.
    ///
    /// # Errors
    /// If the path cannot be bound.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        UnixListener::bind(path).map(Self)
    }
}

/// Answers requests in a thread of its own until this is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers each line with a line. Only root and this process's user are answered; others get
    /// `refusal`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    fn start(
        listener: Listener,
        refusal: String,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let (listener, stop) = (Arc::new(listener.0), Arc::new(AtomicBool::new(false)));
        let (accepting, stopped) = (Arc::clone(&listener), Arc::clone(&stop));
        let serve = move |stream: &UnixStream| match is_permitted(stream)? {
            true => talk(stream, &answer),
            // Do not read: an unknown client may never write.
            false => write_line(stream, &refusal),
        };
        let thread = std::thread::Builder::new()
            .name("ackwise-control".into())
            .spawn(move || {
                for stream in accepting.incoming() {
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                    if let Err(error) = stream.and_then(|stream| serve(&stream)) {
                        tracing::debug!("control connection: {error}");
                        std::thread::sleep(ACCEPT_RETRY_DELAY);
                    }
                }
            })?;
        Ok(Self {
            stop,
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread blocks in accept(2), which this makes fail.
        // SAFETY: a valid descriptor.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A kind of daemon that answers a `Q` with an `S`: usually a [`Request`] with counters.
#[derive(Debug)]
pub struct Service<S, Q = Request> {
    kind: &'static str,
    talk: PhantomData<fn(Q) -> S>,
}

impl<S, Q> Service<S, Q>
where
    S: Serialize + DeserializeOwned + 'static,
    Q: Serialize + DeserializeOwned + 'static,
{
    /// A service for the daemons of this kind, for instance `gateway`.
    #[must_use]
    pub const fn new(kind: &'static str) -> Self {
        let talk = PhantomData;
        Self { kind, talk }
    }

    /// Answers requests with the result of `answer` until the server is dropped.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn serve(
        &self,
        listener: Listener,
        answer: impl Fn(Q) -> Result<S, String> + Send + 'static,
    ) -> io::Result<Server> {
        let refusal = format!("only root and the user of the {} may ask", self.kind);
        let refusal = to_line(&Answer::<S>::Error(refusal));
        Server::start(listener, refusal, move |line| {
            let status = request_of(line).and_then(&answer);
            to_line(&status.map_or_else(Answer::Error, |status| Answer::Status(Box::new(status))))
        })
    }

    /// Sends a request to the daemon at a path.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask(&self, path: &Path, request: Q) -> Result<S, AskError> {
        self.ask_within(TIMEOUT, path, request)
    }

    /// Sends a request to a daemon that may take longer to answer than [`ask`](Self::ask) waits.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask_within(&self, timeout: Duration, path: &Path, request: Q) -> Result<S, AskError> {
        let failed = |error: &dyn std::error::Error| AskError::Failed(error.to_string());
        let line = serde_json::to_string(&request).map_err(|e| failed(&e))?;
        let answer = UnixStream::connect(path).and_then(|stream| exchange(&stream, &line, timeout));
        let answer = answer.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => AskError::NotRunning,
            io::ErrorKind::WouldBlock => {
                AskError::Failed(format!("nothing was said within {timeout:?}"))
            }
            _ => failed(&error),
        })?;
        match from_json(&answer).map_err(|e| failed(&e))? {
            Answer::Status(status) => Ok(*status),
            Answer::Error(why) => Err(AskError::Failed(why)),
        }
    }
}

/// Parses a request; the error says what is wrong with it.
fn request_of<Q: DeserializeOwned>(line: &str) -> Result<Q, String> {
    serde_json::from_str(line).map_err(|error| format!("the request is not understood: {error}"))
}

/// Parses JSON, and escapes the control characters in its strings, which a terminal would obey.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_str(text)?;
    escape_control_characters(&mut value);
    serde_json::from_value(value)
}

fn escape_control_characters(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(escaped) = escaped(text) {
                *text = escaped;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(escape_control_characters),
        Value::Object(all) => {
            *all = std::mem::take(all)
                .into_iter()
                .map(|(key, mut value)| {
                    escape_control_characters(&mut value);
                    (escaped(&key).unwrap_or(key), value)
                })
                .collect();
        }
        _ => {}
    }
}

/// Returns a text with its control characters escaped; `None` if it has none.
fn escaped(text: &str) -> Option<String> {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.contains(char::is_control)
        .then(|| text.chars().map(escape).collect())
}

fn to_line<S: Serialize>(answer: &Answer<S>) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// Returns whether the peer of a connection is root or the user of this process.
fn is_permitted(stream: &UnixStream) -> io::Result<bool> {
    let peer = peer_user(stream)?;
    Ok(peer == 0 || peer == effective_user())
}

/// Returns whether the other side may be asked. Root also asks the daemons' own user.
fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let peer = peer_user(stream)?;
    Ok(is_permitted(stream)? || (effective_user() == 0 && is_system_user(peer)))
}

/// Returns the user who connected or, at the connecting side, who created the socket. A process
/// that has dropped its privileges since then counts as the user that it was.
fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as u32;
    // SAFETY: peer is writable and has the given size.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(peer.uid)
}

/// Answers one line. A peer that writes nothing gets no answer.
fn talk(stream: &UnixStream, answer: impl Fn(&str) -> String) -> io::Result<()> {
    match read_line(stream, MAX_REQUEST, TIMEOUT)? {
        line if line.is_empty() => Ok(()),
        line => write_line(stream, &answer(&line)),
    }
}

/// Sends a request if the other side is trusted.
fn exchange(stream: &UnixStream, line: &str, timeout: Duration) -> io::Result<String> {
    if !is_trusted(stream)? {
        let user = peer_user(stream)?;
        let why = format!("its control socket belongs to user {user}, who is not trusted");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    write_line(stream, line)?;
    let answer = read_line(stream, MAX_ANSWER, timeout)?;
    if !answer.ends_with('\n') {
        let why = match answer.len() {
            MAX_ANSWER.. => "its answer is longer than 1 MiB: ask for fewer flows",
            _ => "its answer is cut off",
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(answer)
}

/// Reads a line of at most `max` bytes, which must arrive in time, in however many pieces. What
/// exceeds `max` is not read, so that the line is truncated.
fn read_line(mut stream: &UnixStream, max: usize, timeout: Duration) -> io::Result<String> {
    let until = Instant::now() + timeout;
    let mut line = Vec::new();
    let mut room = [0; 4096];
    while line.len() < max && !line.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.set_read_timeout(Some(left))?;
        let room = &mut room[..(max - line.len()).min(4096)];
        let read = match stream.read(room) {
            Ok(0) => break,
            Ok(read) => &room[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line.extend(
            read.split_inclusive(|byte| *byte == b'\n')
                .next()
                .unwrap_or(read),
        );
    }
    String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn write_line(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket path for one test, in a directory that is removed with this.
    struct Socket(std::path::PathBuf);

    impl Socket {
        fn new(test: &str) -> Self {
            let name = format!("ackwise-control-{test}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir.join("it.sock"))
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    #[test]
    fn a_request_is_answered_or_refused_with_a_reason() {
        let service = Service::<u32>::new("test-of-control");
        let Socket(path) = &Socket::new("answers");
        let ask = |request| service.ask(path, request);
        assert_eq!(ask(Request::STATUS), Err(AskError::NotRunning));
        let listener = Listener::bind(path).unwrap();
        let server = service.serve(listener, |request| match request {
            Request::Status { flows } => Ok(7 + flows as u32),
            Request::Stop => Err("it stays".to_owned()),
        });
        assert_eq!(ask(Request::STATUS), Ok(7));
        assert_eq!(ask(Request::Status { flows: 2 }), Ok(9));
        let stays = AskError::Failed("it stays".to_owned());
        assert_eq!(ask(Request::Stop), Err(stays));
        let raw =
            |line: &str| exchange(&UnixStream::connect(path).unwrap(), line, TIMEOUT).unwrap();
        let other = raw("\"sideways\"");
        assert!(other.contains("not understood"), "{other}");
        let other = raw(&format!("\"{}\"", "x".repeat(2 * MAX_REQUEST)));
        assert!(other.contains("not understood"), "{other}");
        drop(server);
        assert_eq!(ask(Request::STATUS), Err(AskError::NotRunning));
    }

    fn target<'a>(name: &'a str, longest: usize) -> ackwise_fuzz::Target<'a> {
        ackwise_fuzz::Target {
            name,
            corpus: ackwise_fuzz::corpus(env!("CARGO_MANIFEST_DIR"), name),
            extra_files: Vec::new(),
            dictionary: &[
                "{",
                "}",
                "[",
                "]",
                ":",
                ",",
                "\"",
                "\"status\"",
                "\"stop\"",
                "\"flows\"",
                "\"error\"",
                "null",
                "true",
                "\\u001b",
                "\\n",
                "\\ud800",
                "1e400",
                "-0",
                "18446744073709551616",
            ],
            max_len: longest,
        }
    }

    /// Any line is a request that can be written again, or gets an answer of one line that says
    /// what is wrong.
    #[test]
    fn fuzz_request() {
        let seen = target("request", MAX_REQUEST).run(|bytes| {
            let line = String::from_utf8_lossy(bytes);
            match request_of::<Request>(&line) {
                Ok(request) => {
                    let written = serde_json::to_string(&request).unwrap();
                    assert_eq!(request_of(&written), Ok(request));
                    vec![format!("{request:?}").split(' ').next().unwrap().to_owned()]
                }
                Err(why) => {
                    let answer = to_line(&Answer::<u32>::Error(why.clone()));
                    assert!(!answer.is_empty() && !answer.contains('\n'), "{answer}");
                    vec![ackwise_fuzz::template(&why)]
                }
            }
        });
        assert!(seen.messages >= 5, "{seen:?}");
    }

    fn texts(value: &Value, see: &mut impl FnMut(&str)) {
        match value {
            Value::String(text) => see(text),
            Value::Array(all) => all.iter().for_each(|value| texts(value, see)),
            Value::Object(all) => {
                for (key, value) in all {
                    see(key);
                    texts(value, see);
                }
            }
            _ => {}
        }
    }

    /// Any answer, whoever made the socket: nothing in it can control a terminal.
    #[test]
    fn fuzz_answer() {
        let seen = target("answer", 16 << 10).run(|bytes| {
            let line = String::from_utf8_lossy(bytes);
            let answer = match from_json::<Answer<Value>>(&line) {
                Ok(Answer::Status(value)) => *value,
                Ok(Answer::Error(why)) => Value::String(why),
                Err(error) => {
                    let why = error.to_string();
                    assert!(!why.contains(char::is_control), "{why:?}");
                    return vec![ackwise_fuzz::template(&why)];
                }
            };
            texts(&answer, &mut |text| {
                assert!(!text.contains(char::is_control), "{text:?}")
            });
            let written = serde_json::to_string(&answer).unwrap();
            assert_eq!(from_json::<Value>(&written).unwrap(), answer);
            vec!["fine".to_owned()]
        });
        assert!(seen.messages >= 5, "{seen:?}");
    }

    /// A client that sends its request byte by byte delays others no longer than a silent one.
    #[test]
    fn who_asks_slowly_is_not_waited_for() {
        let service = Service::<u32>::new("test-of-slow-clients");
        let Socket(path) = &Socket::new("slow");
        let listener = Listener::bind(path).unwrap();
        let server = service.serve(listener, |_| Ok(7)).unwrap();
        let mut slow = UnixStream::connect(path).unwrap();
        let began = Instant::now();
        let dripping = std::thread::spawn(move || {
            // Until nobody reads any longer.
            while slow.write_all(b" ").is_ok() {
                std::thread::sleep(TIMEOUT / 10);
            }
        });
        let timeout = 3 * TIMEOUT;
        assert_eq!(service.ask_within(timeout, path, Request::STATUS), Ok(7));
        assert!(began.elapsed() < 2 * TIMEOUT, "{:?}", began.elapsed());
        dripping.join().unwrap();
        drop(server);
    }

    #[test]
    fn m5_an_answer_is_bounded_and_its_control_characters_are_escaped() {
        let service = Service::<Vec<String>>::new("test-of-answers");
        let Socket(path) = &Socket::new("bounds");
        let listener = Listener::bind(path).unwrap();
        let server = service.serve(listener, |request| match request {
            Request::Status { flows: 0 } => Ok(vec!["\x1b]0;owned\x07\u{9b}2J\n".to_owned()]),
            Request::Status { flows } => Ok(vec!["x".repeat(1 << 10); flows]),
            Request::Stop => Err("\x1b[2J".to_owned()),
        });
        let ask = |request| service.ask(path, request);
        let shown = "\\u{1b}]0;owned\\u{7}\\u{9b}2J\\n".to_owned();
        assert_eq!(ask(Request::STATUS), Ok(vec![shown]));
        let shown = AskError::Failed("\\u{1b}[2J".to_owned());
        assert_eq!(ask(Request::Stop), Err(shown));
        assert_eq!(ask(Request::Status { flows: 900 }).unwrap().len(), 900);
        let Err(AskError::Failed(why)) = ask(Request::Status { flows: 1024 }) else {
            panic!("it is longer than 1 MiB");
        };
        assert!(why.contains("fewer flows"), "{why}");
        drop(server);
    }
}
