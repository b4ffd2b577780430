//! The date, as reports name it.

/// A time in nanoseconds since 1970, in the same format; empty for one that no calendar has.
pub fn at(unix_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns));
    let here = time.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    here.map_or_else(|_| String::new(), |time| time.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}

/// Now, to the second, in this machine's time zone.
pub fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}
