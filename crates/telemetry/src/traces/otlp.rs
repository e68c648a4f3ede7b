//! OTLP: finished traces as an `ExportTraceServiceRequest` in protobuf.
//!
//! Owns        the field numbers that this node uses; there are twenty, so no generated code is needed.
//! Spec        opentelemetry-proto 1.3, `trace/v1/trace.proto`. A test compares with bytes of the official classes.

use guildhall_accounting::{AttributeValue, FinishedTrace, Span};

const SPAN_KIND_INTERNAL: u64 = 1;
const SPAN_KIND_SERVER: u64 = 2;
const STATUS_ERROR: u64 = 2;
/// Flag of a sampled trace, in `Span.flags`.
const SAMPLED: u32 = 1;

/// Which process the spans are of.
pub(super) struct Instance(String);

impl Instance {
    /// By a random id, which distinguishes restarts and nodes.
    pub fn new([high, low]: [u64; 2]) -> Self {
        Self(format!("{high:016x}{low:016x}"))
    }
}

/// Bytes of a message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, value: u32) {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u64, name: &str, value: &AttributeValue) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                AttributeValue::Text(text) => any.bytes(1, text.as_bytes()),
                AttributeValue::Number(number) => any.number(3, *number),
            });
        });
    }
}

/// The body of one export.
pub(super) fn request(instance: &Instance, traces: &[FinishedTrace]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |resource| {
            let text = |text: &str| AttributeValue::Text(text.to_owned().into());
            resource.attribute(1, "service.name", &text("guildhall"));
            resource.attribute(1, "service.version", &text(env!("CARGO_PKG_VERSION")));
            resource.attribute(1, "service.instance.id", &text(&instance.0));
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, b"guildhall");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for trace in traces {
                trace.spans.iter().for_each(|span| scope_spans.message(2, |message| write_span(message, trace, span)));
            }
        });
    });
    request.0
}

fn write_span(message: &mut Message, trace: &FinishedTrace, span: &Span) {
    let is_root = span.id == trace.root;
    message.bytes(1, &trace.trace_id.to_be_bytes());
    message.bytes(2, &span.id.to_be_bytes());
    if span.parent != 0 {
        message.bytes(4, &span.parent.to_be_bytes());
    }
    message.bytes(5, span.name.as_bytes());
    message.number(6, if is_root { SPAN_KIND_SERVER } else { SPAN_KIND_INTERNAL });
    message.fixed64(7, span.begin_ns);
    message.fixed64(8, span.end_ns);
    for (name, value) in &span.attributes {
        message.attribute(9, name, value);
    }
    if is_root {
        let why = if trace.is_sampled { "sampled" } else { "slow" };
        message.attribute(9, "guildhall.chosen", &AttributeValue::Text(why.into()));
        if trace.left_out_count > 0 {
            let count = AttributeValue::Number(trace.left_out_count.into());
            message.attribute(9, "guildhall.spans_left_out", &count);
        }
    }
    if span.is_error {
        message.message(15, |status| status.number(3, STATUS_ERROR));
    }
    if trace.is_sampled {
        message.fixed32(16, SAMPLED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `span.hex` is what `SerializeToString` of PyPI's opentelemetry-proto 1.45 wrote for the same values.
    #[test]
    fn the_bytes_of_the_official_classes() {
        let span = Span {
            name: "publish".into(),
            id: 0x0102_0304_0506_0708,
            parent: 0x1112_1314_1516_1718,
            begin_ns: 1_700_000_000_000_000_000,
            end_ns: 1_700_000_000_000_300_000,
            attributes: vec![("n", 300.into()), ("t", "ü".into())],
            is_error: true,
        };
        let trace = FinishedTrace {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            root: 1,
            spans: vec![span],
            left_out_count: 0,
            is_sampled: true,
        };
        let mut message = Message::default();
        write_span(&mut message, &trace, &trace.spans[0]);
        let hex: String = message.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("span.hex").trim());
    }
}
