//! The date, as reports name it.

/// Now, to the second, in this machine's time zone.
pub fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}
