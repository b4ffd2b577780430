//! The destination of exports, checked before an agent begins, and the identity that it reports.

use corun_linux::root::Root;
use std::collections::BTreeMap;
use std::time::Duration;
use ureq::http::{uri::Scheme, HeaderName, HeaderValue, Uri};

/// The path of a collector for metrics, unless a URL has one.
const PATH: &str = "/v1/metrics";

/// Where to, how often, as who.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL.
    pub url: String,
    /// How often.
    pub interval: Duration,
    /// Header lines of each request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The attributes of this agent.
    pub resource: Vec<(String, String)>,
}

impl Target {
    /// From what somebody wrote.
    ///
    /// # Errors
    /// The key of the configuration at fault with its table, and one sentence.
    pub fn new(
        written: &str,
        interval: Duration,
        headers: &BTreeMap<String, String>,
        resource: Vec<(String, String)>,
    ) -> Result<Target, (&'static str, String)> {
        let url = url(written).map_err(|why| ("otlp.url", why))?;
        let header = |(name, value): (&String, &String)| {
            let wrong = |what: &str| ("otlp.headers", format!("header {name:?} {what}"));
            let name = HeaderName::try_from(name).map_err(|_| wrong("has a name that HTTP does not have"))?;
            let value = HeaderValue::try_from(value);
            let mut value = value.map_err(|_| wrong("has a value that HTTP does not have"))?;
            value.set_sensitive(true);
            Ok((name, value))
        };
        let headers = headers.iter().map(header).collect::<Result<_, _>>()?;
        Ok(Target { url, interval, headers, resource })
    }
}

/// A URL as requests need it.
fn url(text: &str) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("`{}` {what}", corun_report::one_line(text)));
    const LIKE: &str = "give a URL such as \"http://localhost:4318\"";
    let Ok(uri) = text.parse::<Uri>() else { return wrong(&format!("is no URL; {LIKE}")) };
    let authority = uri.authority().map_or("", |a| a.as_str());
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => {
            return wrong(
                "is encrypted, which corun is not; give a collector on this machine that passes metrics on",
            )
        }
        Some(scheme) if *scheme == Scheme::HTTP => {}
        _ => return wrong(&format!("does not begin with http://; {LIKE}")),
    }
    if authority.contains('@') {
        return Err("a URL with a password is not taken; give it as a header in [otlp.headers]".into());
    }
    let host = uri.host().unwrap_or_default();
    let port = authority.strip_prefix(host).unwrap_or_default();
    let is_port = |text: &str| text.strip_prefix(':')?.parse::<u16>().ok().filter(|port| *port > 0);
    if host.is_empty() || !(port.is_empty() || is_port(port).is_some()) {
        return wrong(&format!("names no host and port; {LIKE}"));
    }
    let is_whole = uri.query().is_some() || uri.path() != "/";
    Ok(if is_whole { text.to_owned() } else { format!("http://{authority}{PATH}") })
}

/// Attributes of this agent: `OTEL_RESOURCE_ATTRIBUTES` overrides its own.
///
/// # Errors
/// One sentence.
pub fn resource(given: Option<&str>, root: &Root) -> Result<Vec<(String, String)>, String> {
    let host = root.read("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut known = vec![
        ("service.name".to_owned(), "corun".to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    if !host.is_empty() {
        // Its host identifies an agent: there is one on each.
        known.extend(["service.instance.id", "host.name"].map(|key| (key.to_owned(), host.to_owned())));
    }
    for pair in given.unwrap_or_default().split(',').filter(|pair| !pair.trim().is_empty()) {
        let parts = pair.split_once('=').map(|(key, value)| (key.trim(), decoded(value.trim())));
        match parts {
            Some((key, Some(value))) if !key.is_empty() => {
                known.retain(|(of, _)| of != key);
                known.push((key.to_owned(), value));
            }
            _ => {
                let pair = corun_report::one_line(pair);
                return Err(format!(
                    "`{pair}` in OTEL_RESOURCE_ATTRIBUTES is no attribute; give some such as k8s.node.name=n1,zone=a"
                ));
            }
        }
    }
    Ok(known)
}

/// A value with percent-encoded bytes decoded; `None` if it is invalid.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).filter(|d| d.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_default_one_and_others_keep_theirs() {
        for (given, used) in [
            ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
            ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
            ("http://p:9090/api/v1/otlp/v1/metrics", "http://p:9090/api/v1/otlp/v1/metrics"),
            ("http://collector", "http://collector/v1/metrics"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(used));
        }
    }

    #[test]
    fn an_invalid_url_is_refused_in_one_sentence() {
        for (given, word) in [
            ("", "is no URL"),
            ("here", "does not begin with http://"),
            ("/v1/metrics", "does not begin with http://"),
            ("localhost:4318", "does not begin with http://"),
            ("grpc://localhost:4317", "does not begin with http://"),
            ("https://localhost:4318", "is encrypted"),
            ("http://", "is no URL"),
            ("http://:4318", "names no host"),
            ("http://host:", "names no host"),
            ("http://host:99999", "names no host"),
            ("http://host:0", "names no host"),
            ("http://me:secret@host", "a URL with a password"),
            ("http://ho st", "is no URL"),
            ("http://host\n/x", "is no URL"),
        ] {
            let why = url(given).unwrap_err();
            assert!(why.contains(word) && !why.contains("secret") && !why.contains('\n'), "{given}: {why}");
        }
    }

    #[test]
    fn it_reports_its_identity_and_the_environment_adds_to_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(folder.path().join("proc/sys/kernel/hostname"), "node7\n").unwrap();
        let root = Root::new(folder.path());
        let of = |given| {
            let mut known = resource(given, &root).unwrap();
            known.retain(|(key, _)| key != "service.version");
            known.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(None), "service.name=corun service.instance.id=node7 host.name=node7");
        assert_eq!(
            of(Some("k8s.node.name = n1, host.name=h%2C1,")),
            "service.name=corun service.instance.id=node7 k8s.node.name=n1 host.name=h,1"
        );
        for wrong in ["x", "=y", "a=%4", "a=%zz", "a=%ff", "a=1,b"] {
            let why = resource(Some(wrong), &root).unwrap_err();
            assert!(why.contains("is no attribute"), "{why}");
        }
    }
}
