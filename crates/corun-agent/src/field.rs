//! Fields of protobuf messages that are assembled from bytes: the outer parts of a message are put around it,
//! and no tree of thousands of messages is kept.

/// Appends a field that contains a message, or a text.
pub fn put(tag: u32, message: &[u8], to: &mut Vec<u8>) {
    const LENGTH_DELIMITED: u32 = 2;
    debug_assert!(tag < 16, "the key of a greater one has two bytes");
    to.push((tag << 3 | LENGTH_DELIMITED) as u8);
    prost::encode_length_delimiter(message.len(), to).expect("memory takes all that is written");
    to.extend_from_slice(message);
}
