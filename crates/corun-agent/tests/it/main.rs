//! What an agent keeps, on real files.

mod made;
mod ring;
