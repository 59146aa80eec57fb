//! A minimal HTTP/1.1 server for a metrics scraper: `GET /metrics`, bound to one address. The
//! number of concurrent requests, their size and their duration are bounded.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::linux::metrics::Exposition;

/// The maximum size of a request line with its headers; longer requests are refused.
const MAX_REQUEST: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;
/// Requests served at the same time; further clients are told to retry.
const MAX_CONCURRENT: usize = 8;
/// How long a client may take to send its request and to read the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes the page that a scrape returns.
pub type Page = dyn Fn(Exposition) -> Result<String, String> + Send + Sync;

/// A running server; it stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the page on a bound socket.
    pub fn start(listener: TcpListener, page: Arc<Page>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("metrics".into()).spawn({
            let stop = stop.clone();
            move || accept(&listener, &stop, &page)
        })?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, stop: &AtomicBool, page: &Arc<Page>) {
    let busy = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(200u16)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(e) => {
                tracing::warn!("metrics: poll: {e}");
                return;
            }
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The client has gone, or no file descriptor is free now.
            Err(e) => {
                if e.kind() != io::ErrorKind::WouldBlock {
                    tracing::debug!("metrics: accept: {e}");
                    std::thread::sleep(Duration::from_millis(50));
                }
                continue;
            }
        };
        let Some(request) = Request::begin(&busy) else {
            refuse(&stream);
            continue;
        };
        if let Err(error) = stream.set_nonblocking(false) {
            tracing::debug!("metrics: a connection: {error}");
            continue;
        }
        let page = page.clone();
        let spawned = std::thread::Builder::new()
            .name("scrape".into())
            .spawn(move || {
                let _request = request;
                if let Err(error) = serve(stream, &*page) {
                    tracing::debug!("metrics: a client: {error}");
                }
            });
        if let Err(error) = spawned {
            tracing::warn!("metrics: no thread for a request: {error}");
        }
    }
}

/// One of the requests that are served at the same time. Dropping it frees the slot, also if its
/// thread panics.
struct Request(Arc<AtomicUsize>);

impl Request {
    /// Takes a slot, unless all are in use.
    fn begin(busy: &Arc<AtomicUsize>) -> Option<Self> {
        let request = Self(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::Relaxed) < MAX_CONCURRENT).then_some(request)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a client to retry. This runs in the accepting thread, which must not block: the answer
/// fits into an empty send buffer, and the request is not read.
fn refuse(stream: &TcpStream) {
    let answer = Answer::text(503, "too many requests at once\n").bytes(true);
    if let Err(error) = stream.set_nonblocking(true).and_then(|()| {
        let mut stream = stream;
        stream.write_all(&answer)
    }) {
        tracing::debug!("metrics: refusing a request: {error}");
    }
}

fn serve(mut stream: TcpStream, page: &Page) -> io::Result<()> {
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let (answer, body) = answer(&mut stream, page);
    answer.send(stream, body)
}

/// The answer, and whether its body is wanted.
fn answer(stream: &mut TcpStream, page: &Page) -> (Answer, bool) {
    let until = Instant::now() + CLIENT_TIMEOUT;
    let mut buf = Vec::new();
    loop {
        if let Some(answer) = answer_to(&buf, page) {
            return answer;
        }
        let left = until.saturating_duration_since(Instant::now());
        let mut chunk = [0; 1024];
        let timed_out = left.is_zero() || stream.set_read_timeout(Some(left)).is_err();
        match if timed_out {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            stream.read(&mut chunk)
        } {
            Ok(0) => return (Answer::text(400, "the request is not complete\n"), true),
            Ok(n) => buf.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return (Answer::text(408, "the request took too long\n"), true),
        }
    }
}

/// The answer to the bytes received so far, once they determine it, and whether its body is wanted.
fn answer_to(request: &[u8], page: &Page) -> Option<(Answer, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut read = httparse::Request::new(&mut headers);
    match read.parse(request) {
        Ok(httparse::Status::Complete(_)) => {
            let method = read.method.unwrap_or_default();
            let path = read.path.unwrap_or_default();
            let headers = read.headers.iter();
            let accept = headers.filter(|it| it.name.eq_ignore_ascii_case("accept"));
            let accept: Vec<_> = accept.map(|it| String::from_utf8_lossy(it.value)).collect();
            let wanted = Exposition::accepted(&accept.join(","));
            Some((route(method, path, wanted, page), method != "HEAD"))
        }
        Ok(httparse::Status::Partial) if request.len() >= MAX_REQUEST => {
            Some((Answer::text(431, "the request is too long\n"), true))
        }
        Ok(httparse::Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => {
            Some((Answer::text(431, "too many headers\n"), true))
        }
        Err(e) => Some((Answer::text(400, &format!("not HTTP: {e}\n")), true)),
    }
}

fn route(method: &str, path: &str, wanted: Exposition, page: &Page) -> Answer {
    if method != "GET" && method != "HEAD" {
        return Answer {
            allow: true,
            ..Answer::text(405, "only GET and HEAD\n")
        };
    }
    match path.split('?').next() {
        Some("/metrics") => match page(wanted) {
            Ok(body) => Answer {
                status: 200,
                content_type: wanted.content_type(),
                body,
                allow: false,
            },
            Err(e) => Answer::text(500, &format!("{e}\n")),
        },
        Some("/") => Answer::text(200, "ackwise: see /metrics\n"),
        _ => Answer::text(404, "nothing here; see /metrics\n"),
    }
}

struct Answer {
    status: u16,
    content_type: &'static str,
    body: String,
    allow: bool,
}

impl Answer {
    fn text(status: u16, body: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
            allow: false,
        }
    }

    /// The answer as it is sent, with its body if wanted.
    fn bytes(&self, body: bool) -> Vec<u8> {
        let phrase = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            _ => "Service Unavailable",
        };
        let mut out = format!(
            "HTTP/1.1 {} {phrase}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        if self.allow {
            out.push_str("Allow: GET, HEAD\r\n");
        }
        out.push_str("\r\n");
        if body {
            out.push_str(&self.body);
        }
        out.into_bytes()
    }

    fn send(&self, mut stream: TcpStream, body: bool) -> io::Result<()> {
        stream.write_all(&self.bytes(body))?;
        stream.shutdown(std::net::Shutdown::Write)?;
        // Closing a socket with unread data resets the connection, and the client may lose the
        // answer. Read a bounded amount of the rest first.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let mut rest = [0; 1024];
        for _ in 0..64 {
            match stream.read(&mut rest) {
                Ok(n) if n > 0 => {}
                _ => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let page: Arc<Page> = Arc::new(|_| Ok("a_metric 1\n# EOF\n".into()));
        Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), page).unwrap()
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut s = TcpStream::connect(server.address()).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        s.write_all(request).unwrap();
        s.shutdown(std::net::Shutdown::Write).unwrap();
        let mut out = String::new();
        s.read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn a_scrape_gets_the_page() {
        let s = server();
        let got = ask(&s, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            got.contains("Content-Type: text/plain; version=0.0.4;"),
            "{got}"
        );
        let request = b"GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text\r\n\r\n";
        let got = ask(&s, request);
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
        assert!(
            got.contains("Content-Type: application/openmetrics-text;"),
            "{got}"
        );
        assert!(got.ends_with("\r\n\r\na_metric 1\n# EOF\n"), "{got}");
        let got = ask(&s, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(
            got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\n"),
            "{got}"
        );
    }

    #[test]
    fn what_is_malformed_is_told_so() {
        let s = server();
        let long = [b"GET /", vec![b'a'; 9000].as_slice()].concat();
        let many = [
            b"GET / HTTP/1.1\r\n".as_slice(),
            "a: b\r\n".repeat(80).as_bytes(),
            b"\r\n",
        ]
        .concat();
        for (request, status) in [
            (b"".as_slice(), "400"),
            (b"\x16\x03\x01\x02\x00\x01\x00", "400"),
            (b"GET", "400"),
            (b"GET /metrics HTTP/9.9\r\n\r\n", "400"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (&long, "431"),
            (&many, "431"),
        ] {
            let got = ask(&s, request);
            assert!(
                got.starts_with(&format!("HTTP/1.1 {status} ")),
                "{status}: {got}"
            );
        }
        // The server still works.
        assert!(ask(&s, b"GET /metrics HTTP/1.1\r\n\r\n").contains("a_metric 1"));
    }

    #[test]
    fn a_page_that_panics_takes_no_place_from_others() {
        let requests = AtomicUsize::new(0);
        let page: Arc<Page> = Arc::new(move |_| {
            assert!(
                requests.fetch_add(1, Ordering::Relaxed) > MAX_CONCURRENT,
                "for this test"
            );
            Ok("a_metric 1\n# EOF\n".into())
        });
        let s = Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), page).unwrap();
        let scrape = || ask(&s, b"GET /metrics HTTP/1.1\r\n\r\n");
        for _ in 0..=MAX_CONCURRENT {
            assert_eq!(scrape(), "");
        }
        assert!(scrape().contains("a_metric 1"));
    }

    #[test]
    fn idle_clients_do_not_starve_a_scrape() {
        let s = server();
        let idle: Vec<_> = (0..MAX_CONCURRENT - 1)
            .map(|_| TcpStream::connect(s.address()).unwrap())
            .collect();
        assert!(ask(&s, b"GET /metrics HTTP/1.1\r\n\r\n").contains("a_metric 1"));
        drop(idle);
    }

    /// The status of an answer, after checking that its head is well-formed.
    fn status_of(answer: &Answer, body: bool) -> String {
        let bytes = answer.bytes(body);
        let text = String::from_utf8(bytes).expect("it is text");
        let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().to_owned();
        assert!(status.starts_with("HTTP/1.1 "), "{text}");
        let names = ["Content-Type", "Content-Length", "Connection", "Allow"];
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a header");
            assert!(
                names.contains(&name) && !value.contains(['\r', '\n']),
                "{text}"
            );
        }
        let length = format!("Content-Length: {}", answer.body.len());
        assert!(head.contains(&length), "{text}");
        assert_eq!(rest, if body { answer.body.as_str() } else { "" });
        status
    }

    /// Any bytes, in pieces as TCP delivers them. The answer does not depend on the pieces, except
    /// for a request that is complete before its mistake arrives; no request is longer than
    /// allowed.
    #[test]
    fn fuzz_request() {
        let target = ackwise_fuzz::Target {
            name: "http",
            corpus: ackwise_fuzz::corpus(env!("CARGO_MANIFEST_DIR"), "http"),
            extra_files: Vec::new(),
            dictionary: &[
                "GET",
                "HEAD",
                "POST",
                "/metrics",
                "/",
                "HTTP/1.1",
                "HTTP/1.0",
                "\r\n",
                "\r\n\r\n",
                "Host: ",
                "Content-Length: ",
                ": ",
                " ",
                "?",
                "%00",
                "\u{0}",
            ],
            max_len: 2 * MAX_REQUEST,
        };
        let page: &Page = &|_| Ok("a_metric 1\n# EOF\n".into());
        let seen = target.run(|request| {
            let mut first = None;
            for end in 0..=request.len() {
                // Try pieces of one byte at first, and multiples of the read size of 1024 after
                // that.
                if end > 300 && !end.is_multiple_of(1024) && end < request.len() {
                    continue;
                }
                if let Some((answer, body)) = answer_to(&request[..end], page) {
                    first = Some((end, status_of(&answer, body)));
                    break;
                }
            }
            let Some((end, status)) = first else {
                assert!(request.len() < MAX_REQUEST, "it goes on for ever");
                return vec!["not complete".to_owned()];
            };
            assert!(end <= MAX_REQUEST + 1024, "{end} bytes were read");
            // Bytes after a complete request change nothing.
            if status.contains(" 200 ") {
                let (answer, body) = answer_to(request, page).expect("as before");
                assert_eq!(status_of(&answer, body), status);
            }
            vec![status]
        });
        assert!(seen.messages >= 5, "{seen:?}");
    }

    /// Once a client has the whole 503, the server no longer reads from it: its next byte is
    /// answered with a reset, and the one after that fails.
    #[test]
    fn l1_a_refused_client_is_not_read_from() {
        let s = server();
        let connect = || TcpStream::connect(s.address()).unwrap();
        let idle: Vec<_> = (0..MAX_CONCURRENT).map(|_| connect()).collect();
        let mut refused = connect();
        refused.set_read_timeout(Some(CLIENT_TIMEOUT)).unwrap();
        let mut response = String::new();
        refused.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
        let _ = refused.write(b"G");
        let error = refused
            .write(b"E")
            .expect_err("somebody takes what it sends");
        let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(kinds.contains(&error.kind()), "{error}");
        drop(idle);
    }
}
