//! All tests of the reports that need a whole observation, in one binary.
//!
//! | module | holds |
//! | --- | --- |
//! | `example` | the made-up machine that everything here looks at |
//! | `contract` | the JSON schema: names, nulls, sums, reading back |
//! | `facts` | what is said of facts, as a table: profile, verify and predict |
//! | `servers` | what is said of those that a program waits for |
//! | `sentences` | the headline in every situation worth a sentence of its own |
//! | `screen` | the terminal report, as snapshots |
//! | `page` | the HTML report |
//! | `fields` | the field names of JSON |
//! | `junit` | the verdict's JUnit XML, by its schema |
//! | `control` | the page of a run under a policy |
//! | `modelled` | the page of a run on a modelled machine |
//! | `steal` | what was stolen is the same whoever says it |
//! | `timeline` | the Perfetto trace, decoded again |

mod contract;
mod control;
mod example;
mod facts;
mod fields;
mod junit;
mod modelled;
mod page;
mod screen;
mod sentences;
mod servers;
mod steal;
mod timeline;
mod waits;
