//! The output of a command, for tests of the command line.

/// As text; invalid text shows as such and fails the comparison, not the test's reading of it.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
