//! An agent that serves a test, and requests to it.

#![allow(dead_code, reason = "each binary of tests asks for another part of it")]

use assert_cmd::cargo::cargo_bin;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// An agent at a port of its own; killed when dropped.
pub struct Agent {
    pub child: Child,
    pub address: String,
    pub said: Receiver<String>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    /// Waits until it serves.
    pub fn start(args: &[&str]) -> Agent {
        let mut child = Command::new(cargo_bin("corun"))
            .args(["agent", "--listen", "127.0.0.1:0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (to, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| to.send(line)));
        let mut agent = Agent { child, address: String::new(), said };
        let at = agent.hear("metrics at http://");
        let address = at.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics"));
        agent.address = address.unwrap_or_else(|| panic!("{at}")).to_owned();
        agent
    }

    /// Waits for a line with these words.
    pub fn hear(&self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.said.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("it never said `{words}`, but {before:?}"),
            }
        }
    }

    /// The status and the body of an answer.
    pub fn get(&self, path: &str) -> (u16, String) {
        get(&self.address, path)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that is not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Repeats a query until it succeeds.
    pub fn until<T>(&self, what: &str, look: impl Fn(&Agent) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(180),
                "{what} never came: {}",
                self.get("/metrics").1
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The sum of the samples of a metric whose lines have all of these words.
    pub fn sum(&self, metric: &str, words: &[&str]) -> f64 {
        let (_, text) = self.get("/metrics");
        let is_it = |line: &&str| line.starts_with(metric) && words.iter().all(|w| line.contains(w));
        text.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

/// The status and the body of an answer from an address.
pub fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Runs corun to its end.
pub fn run(args: &[&str]) -> Output {
    Command::new(cargo_bin("corun")).args(args).output().unwrap()
}

/// Its messages for people.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// Whether it ends correctly for bad usage: with 2 and one sentence that has these words.
pub fn is_refused(args: &[&str], words: &[&str]) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
    assert_eq!(said(&output).lines().count(), 1, "{args:?}: {}", said(&output));
    for word in words {
        assert!(said(&output).contains(word), "{args:?}: {}", said(&output));
    }
}
