//! The figures of an example that redraws a paper, as a record that documents quote (`corun.paper-figures/1`): named texts.
//!
//! So a figure in several documents comes from one run, and the documents cannot differ.

use crate::quoted::Facts;
use serde::Serialize;

/// The record.
#[derive(Clone, Debug, Serialize)]
pub struct PaperFigures {
    schema: &'static str,
    /// The version that made it.
    corun: &'static str,
    /// The figures, by name.
    facts: Facts,
}

impl PaperFigures {
    /// Makes the record of these figures.
    pub fn of(facts: Facts) -> PaperFigures {
        PaperFigures { schema: "corun.paper-figures/1", corun: env!("CARGO_PKG_VERSION"), facts }
    }

    /// The text of its file.
    pub fn text(&self) -> String {
        corun_report::json::indented(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_quote_the_stated_figures() {
        let stated = Facts::from([("alone-40.mph-linux".into(), "+17 %".into())]);
        let facts = crate::facts::of(&PaperFigures::of(stated).text()).unwrap();
        assert_eq!(facts["alone-40.mph-linux"], "+17 %");
    }
}
