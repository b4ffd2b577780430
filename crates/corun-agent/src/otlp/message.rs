//! The messages of OTLP 1 that an exporter of metrics needs, as `opentelemetry/proto` defines them, with the
//! same field numbers.
//!
//! The crate with all of them depends on the SDK; a test decodes these messages with it. A point's
//! attributes, a metric's points and a scope's metrics are no fields here, since they are encoded one by one
//! (see [`super::request()`]).

use prost::Message;

/// Tag of `ExportMetricsServiceRequest.resource_metrics`.
pub const RESOURCE_METRICS: u32 = 1;
/// Tag of `ResourceMetrics.resource`.
pub const RESOURCE: u32 = 1;
/// Tag of `ResourceMetrics.scope_metrics`.
pub const SCOPE_METRICS: u32 = 2;
/// Tag of `ScopeMetrics.scope`.
pub const SCOPE: u32 = 1;
/// Tag of `ScopeMetrics.metrics`.
pub const METRICS: u32 = 2;
/// Tag of `Metric.gauge`.
pub const GAUGE: u32 = 5;
/// Tag of `Metric.sum`.
pub const SUM: u32 = 7;
/// Tag of `Metric.histogram`.
pub const HISTOGRAM: u32 = 9;
/// Tag of the `data_points` of a gauge, a sum and a histogram.
pub const DATA_POINTS: u32 = 1;
/// Tag of `NumberDataPoint.attributes`.
pub const NUMBER_ATTRIBUTES: u32 = 7;
/// Tag of `HistogramDataPoint.attributes`.
pub const HISTOGRAM_ATTRIBUTES: u32 = 9;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
pub const CUMULATIVE: i32 = 2;

/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`: the series has ended.
pub const NO_VALUE: u32 = 1;

/// Who exports.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// What of it.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value, which is a text here.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The text, even if it is empty.
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
}

/// An attribute that is a text.
pub fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
}

/// A metric, without its points.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its meaning.
    #[prost(string, tag = "2")]
    pub description: String,
    /// Its unit, as UCUM writes it.
    #[prost(string, tag = "3")]
    pub unit: String,
}

/// How a sum or a histogram counts, without its points: both have the first field, and a sum has the second,
/// too.
#[derive(Clone, PartialEq, Message)]
pub struct Aggregation {
    /// Since its start, or since the last point.
    #[prost(int32, tag = "2")]
    pub temporality: i32,
    /// Whether it only grows.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// A point of a sum or a gauge, without its attributes.
#[derive(Clone, PartialEq, Message)]
pub struct NumberDataPoint {
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was so.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Its value, if it is a fraction.
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    /// Its value, if it is whole.
    #[prost(sfixed64, optional, tag = "6")]
    pub as_int: Option<i64>,
    /// [`NO_VALUE`], or 0.
    #[prost(uint32, tag = "8")]
    pub flags: u32,
}

/// A point of a histogram, without its attributes.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramDataPoint {
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was so.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// How many there were.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// What they came to.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// How many in each bucket.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// The upper edge of each except the last.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    /// [`NO_VALUE`], or 0.
    #[prost(uint32, tag = "10")]
    pub flags: u32,
}

/// What a collector answers.
#[derive(Clone, PartialEq, Message)]
pub struct ExportMetricsServiceResponse {
    /// The rejected part.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportMetricsPartialSuccess>,
}

/// What a collector did not take.
#[derive(Clone, PartialEq, Message)]
pub struct ExportMetricsPartialSuccess {
    /// How many points.
    #[prost(int64, tag = "1")]
    pub rejected_data_points: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// Why a collector refuses: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// The reason in a sentence.
    #[prost(string, tag = "2")]
    pub message: String,
}
