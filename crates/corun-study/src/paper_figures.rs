//! What an example that redraws a paper states, as a record that documents quote (`corun.paper-figures/1`): named texts.
//!
//! So a figure that several documents have is of one run, and no two of them can differ.

use crate::quoted::Facts;
use serde::Serialize;

/// The record.
#[derive(Clone, Debug, Serialize)]
pub struct PaperFigures {
    schema: &'static str,
    /// The version that made it.
    corun: &'static str,
    /// What was stated, by its name.
    facts: Facts,
}

impl PaperFigures {
    /// Of what is stated.
    pub fn of(facts: Facts) -> PaperFigures {
        PaperFigures { schema: "corun.paper-figures/1", corun: env!("CARGO_PKG_VERSION"), facts }
    }

    /// As a file.
    pub fn text(&self) -> String {
        corun_report::json::indented(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_is_what_documents_quote() {
        let stated = Facts::from([("alone-40.mph-linux".into(), "+17 %".into())]);
        let facts = crate::facts::of(&PaperFigures::of(stated).text()).unwrap();
        assert_eq!(facts["alone-40.mph-linux"], "+17 %");
    }
}
