//! Almost valid inputs: pieces of a corpus, changed in a few places, by seed.
//!
//! Method: a text is taken from the corpus, and changed up to eight times in the way of people, programs and
//! disks. A number becomes an extreme one, a word is replaced by one from elsewhere, a line disappears, is
//! doubled or moves, two texts are spliced, bytes flip, the end is missing. Half of the steps keep lines and
//! words intact, so that many results are still read to their end. The same seed and number make the same
//! input.

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    /// Of an input of a target.
    pub fn of(seed: u64, target: &str, number: u64) -> Dice {
        let name = target.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let mut dice = Dice(name ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Numbers that parsers get wrong.
const NUMBERS: [&str; 22] = [
    "0",
    "-1",
    "1",
    "255",
    "256",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e400",
    "-0.0",
    "0.1",
    "1e-320",
    "nan",
    "inf",
    "99999999999999999999999999",
];

/// Words of many formats, and none.
const WORDS: [&str; 20] = [
    "", " ", "\0", "\u{fffd}", "é", "\u{202e}", "max", "all", "-", "+", "0-3,6", "/", "..", "=", "[[x]]",
    "{", "}", "\"", "#", "\\040",
];

/// No input is longer.
const MOST_BYTES: usize = 64 << 10;

/// An input made of the corpus.
pub fn input(dice: &mut Dice, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = dice.pick(corpus).clone();
    for _ in 0..=dice.below(8) {
        match dice.below(10) {
            0 | 1 => number(dice, &mut bytes),
            2 => word(dice, &mut bytes, corpus),
            3 | 4 => line(dice, &mut bytes, corpus),
            5 => splice(dice, &mut bytes, corpus),
            6 => flip(dice, &mut bytes),
            7 => insert(dice, &mut bytes),
            8 => cut(dice, &mut bytes),
            _ => again(dice, &mut bytes),
        }
        bytes.truncate(MOST_BYTES);
    }
    bytes
}

/// A position in it, including its end.
fn place(dice: &mut Dice, bytes: &[u8]) -> usize {
    dice.below(bytes.len() + 1)
}

/// The position of a run of bytes of one kind, at or after some position.
fn run(dice: &mut Dice, bytes: &[u8], is: impl Fn(u8) -> bool) -> Option<std::ops::Range<usize>> {
    let from = place(dice, bytes);
    let start = from + bytes[from..].iter().position(|&b| is(b))?;
    let end = bytes[start..].iter().position(|&b| !is(b)).map_or(bytes.len(), |n| start + n);
    Some(start..end)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte) || byte >= 0x80
}

fn number(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let Some(at) = run(dice, bytes, |b| b.is_ascii_digit()) else { return };
    bytes.splice(at, dice.pick(&NUMBERS).bytes());
}

fn word(dice: &mut Dice, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let Some(at) = run(dice, bytes, is_of_word) else { return };
    let other = dice.pick(corpus);
    let new = match run(dice, other, is_of_word) {
        Some(theirs) if dice.below(3) > 0 => other[theirs].to_vec(),
        _ => dice.pick(&WORDS).as_bytes().to_vec(),
    };
    bytes.splice(at, new);
}

fn line(dice: &mut Dice, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let own: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
    if own.is_empty() {
        return;
    }
    let at = dice.below(own.len());
    let mut lines = own.clone();
    match dice.below(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, own[at]),
        2 => lines.swap(at, dice.below(own.len())),
        _ => {
            let theirs: Vec<&[u8]> = dice.pick(corpus).split_inclusive(|&b| b == b'\n').collect();
            if !theirs.is_empty() {
                lines.insert(at, *dice.pick(&theirs));
            }
        }
    }
    *bytes = lines.concat();
}

fn splice(dice: &mut Dice, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let other = dice.pick(corpus);
    let (here, there) = (place(dice, bytes), place(dice, other));
    bytes.truncate(here);
    bytes.extend_from_slice(&other[there..]);
}

fn flip(dice: &mut Dice, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = dice.below(bytes.len());
        bytes[at] ^= 1 << dice.below(8);
    }
}

fn insert(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let at = place(dice, bytes);
    let new = match dice.below(2) {
        0 => dice.pick(&WORDS).as_bytes().to_vec(),
        _ => vec![dice.below(256) as u8],
    };
    bytes.splice(at..at, new);
}

fn cut(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let (a, b) = (place(dice, bytes), place(dice, bytes));
    match dice.below(2) {
        // The result of a full disk.
        0 => bytes.truncate(a),
        _ => drop(bytes.drain(a.min(b)..b.max(a).min(a.min(b) + 40))),
    }
}

/// The same some times more.
fn again(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let from = place(dice, bytes);
    let to = (from + dice.below(40)).min(bytes.len());
    let piece = bytes[from..to].repeat(1 << dice.below(8));
    bytes.splice(to..to, piece);
}
