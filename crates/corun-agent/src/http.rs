//! A small HTTP server: one request per connection, a bounded number of connections, and a time limit on
//! each. A slow or silent client keeps one of them for that long, and nothing else.

use corun_linux::limits::explained;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections at a time; further ones get the answer to come again.
pub const MOST_CONNECTIONS: usize = 16;
/// How long a connection may take, from its first byte to its last.
pub const MOST_TIME: Duration = Duration::from_secs(10);
/// The longest head of a request.
const MOST_HEAD: usize = 8 << 10;
/// Header lines of a request.
const MOST_HEADERS: usize = 64;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, without the part after a question mark.
    pub path: String,
    /// The part after it.
    pub query: String,
    /// The `Accept` line.
    pub accept: String,
    /// The `Accept-Encoding` line.
    pub accept_encoding: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status and reason.
    pub status: (u16, &'static str),
    /// What the body is.
    pub content_type: &'static str,
    /// How the body is compressed, if it is.
    pub content_encoding: Option<&'static str>,
    /// The body, in parts.
    pub body: Vec<Arc<Vec<u8>>>,
}

impl Response {
    /// Plain text.
    pub fn text(status: (u16, &'static str), body: impl Into<String>) -> Response {
        Response {
            status,
            content_type: "text/plain; charset=utf-8",
            content_encoding: None,
            body: vec![body.into().into_bytes().into()],
        }
    }
}

/// 200
pub const OK: (u16, &str) = (200, "OK");
/// 404
pub const NOT_FOUND: (u16, &str) = (404, "Not Found");
/// 503
pub const UNAVAILABLE: (u16, &str) = (503, "Service Unavailable");

/// What the server counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were refused: there were too many.
    pub refused: AtomicU64,
    /// Connections that took too long, or broke off.
    pub broken: AtomicU64,
    open: AtomicUsize,
}

/// Answers requests until the process ends, in threads of its own.
///
/// # Errors
/// If no more threads are possible.
pub fn serve(
    listener: TcpListener,
    counts: Arc<Counts>,
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let answer = Arc::new(answer);
    let accept = move || loop {
        let Ok((stream, _)) = listener.accept() else {
            // No more descriptors, for example: others will be closed.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if counts.open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            counts.open.fetch_sub(1, Ordering::Relaxed);
            counts.refused.fetch_add(1, Ordering::Relaxed);
            turn_away(stream);
            continue;
        }
        let (answer, counted) = (answer.clone(), counts.clone());
        let spawned = thread("corun-request").spawn(move || {
            if handle(stream, &*answer, MOST_TIME).is_err() {
                counted.broken.fetch_add(1, Ordering::Relaxed);
            }
            counted.open.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            counts.open.fetch_sub(1, Ordering::Relaxed);
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread("corun-http").spawn(accept).map(drop).map_err(explained)
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.into()).stack_size(256 << 10)
}

/// As much as fits without waiting.
fn turn_away(mut stream: TcpStream) {
    let _ = stream.set_nonblocking(true);
    let _ = stream.write(&head(&Response::text(UNAVAILABLE, "too many connections; come again\n")));
}

fn handle(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Response, time: Duration) -> io::Result<()> {
    let until = Instant::now() + time;
    let (response, is_head) = match read_request(&mut stream, until)? {
        Ok((request, is_head)) => (answer(&request), is_head),
        Err(status) => (Response::text(status, format!("{}\n", status.1)), false),
    };
    let head = head(&response);
    write(&mut stream, &head, until)?;
    if !is_head {
        response.body.iter().try_for_each(|part| write(&mut stream, part, until))?;
    }
    stream.shutdown(Shutdown::Write)
}

fn head(response: &Response) -> Vec<u8> {
    let (status, reason) = response.status;
    let encoding = response.content_encoding.map(|name| format!("Content-Encoding: {name}\r\n"));
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n",
        response.content_type,
        encoding.unwrap_or_default(),
        response.body.iter().map(|part| part.len()).sum::<usize>(),
    )
    .into_bytes()
}

type Refused = (u16, &'static str);

/// Reads the head of a request; there is no body. The second result is whether only the head of the answer is
/// requested.
fn read_request(stream: &mut TcpStream, until: Instant) -> io::Result<Result<(Request, bool), Refused>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        match parse(&bytes) {
            Some(done) => return Ok(done),
            None if bytes.len() >= MOST_HEAD => return Ok(Err((431, "Request Header Fields Too Large"))),
            None => {}
        }
        stream.set_read_timeout(Some(left(until)?))?;
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend(&part[..n]),
        }
    }
}

/// A request from its bytes; `None` if it is incomplete.
pub fn parse(bytes: &[u8]) -> Option<Result<(Request, bool), Refused>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Err((400, "Bad Request"))),
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Err((405, "Method Not Allowed"))),
    };
    let target = request.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let header = |name| {
        let found = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        found.map(|h| String::from_utf8_lossy(h.value).into_owned()).unwrap_or_default()
    };
    let (accept, accept_encoding) = (header("accept"), header("accept-encoding"));
    Some(Ok((Request { path, query, accept, accept_encoding }, is_head)))
}

fn write(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// The remaining time, which is positive.
fn left(until: Instant) -> io::Result<Duration> {
    match until.checked_duration_since(Instant::now()) {
        Some(left) if left > Duration::from_millis(1) => Ok(left),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> (std::net::SocketAddr, Arc<Counts>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, counts) = (listener.local_addr().unwrap(), Arc::new(Counts::default()));
        let answer = |r: &Request| Response::text(OK, r.path.repeat(100_000));
        serve(listener, counts.clone(), answer).unwrap();
        (address, counts)
    }

    fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_is_answered_and_anything_else_is_refused() {
        let (address, _) = served();
        let answer = ask(address, "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &answer[..20]);
        assert_eq!(answer.split("\r\n\r\n").nth(1).unwrap(), "/a".repeat(100_000));
        let asked =
            parse(b"GET /a?b HTTP/1.1\r\naccept-encoding: gzip\r\nAccept: */*\r\n\r\n").unwrap().unwrap().0;
        let words = [asked.path, asked.query, asked.accept, asked.accept_encoding];
        assert_eq!(words, ["/a", "b", "*/*", "gzip"]);
        let zipped = Response { content_encoding: Some("gzip"), ..Response::text(OK, "") };
        assert!(String::from_utf8(head(&zipped)).unwrap().contains("\r\nContent-Encoding: gzip\r\n"));
        assert!(!answer.contains("Content-Encoding"));
        assert!(ask(address, "HEAD /a HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(address, "what\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(2 * MOST_HEAD));
        assert!(ask(address, &long[..MOST_HEAD]).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn silent_connections_are_bounded_and_leave_the_others_alone() {
        let (address, counts) = served();
        let silent: Vec<TcpStream> =
            (0..MOST_CONNECTIONS - 1).map(|_| TcpStream::connect(address).unwrap()).collect();
        while counts.open.load(Ordering::Relaxed) < MOST_CONNECTIONS - 1 {
            std::thread::yield_now();
        }
        assert!(ask(address, "GET /a HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        while counts.open.load(Ordering::Relaxed) > MOST_CONNECTIONS - 1 {
            std::thread::yield_now();
        }
        let _one_more = TcpStream::connect(address).unwrap();
        while counts.open.load(Ordering::Relaxed) < MOST_CONNECTIONS {
            std::thread::yield_now();
        }
        let mut refused = TcpStream::connect(address).unwrap();
        let mut answer = String::new();
        refused.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert_eq!(counts.refused.load(Ordering::Relaxed), 1);
        drop(silent);
        while counts.open.load(Ordering::Relaxed) > 1 {
            std::thread::yield_now();
        }
        assert!(counts.broken.load(Ordering::Relaxed) >= MOST_CONNECTIONS as u64 - 1);
    }

    #[test]
    fn a_reader_that_never_reads_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let (stream, _) = listener.accept().unwrap();
        let endless = |_: &Request| Response::text(OK, "x".repeat(64 << 20));
        let given_up = handle(stream, &endless, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(given_up.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{given_up}");
    }
}
