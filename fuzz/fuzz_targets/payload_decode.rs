//! Any bytes as a client's message, in both encodings.
//!
//! Input       the message.
//! Oracle      no panic; an accepted message, re-encoded in the other encoding, means the same; transcoding JSON text
//!             yields the term of the parsed text, and refuses the same texts except for their depth.
// max_len: 4096
#![no_main]

use guildhall_codec::etf::VERSION;
use guildhall_codec::{
    DecodeLimits, EncodeError, Encoding, Inbound, decode_etf_from_gateway, decode_payload,
    encode_payload_to_gateway, transcode_json,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    if let Ok(inbound) = decode_payload(Encoding::Json, data) {
        assert_eq!(rewritten(Encoding::Etf, &inbound), inbound);
    }
    if let Ok(inbound) = decode_payload(Encoding::Etf, data) {
        assert_eq!(rewritten(Encoding::Etf, &inbound), inbound);
        // serde_json parses floats to the last bit but one, and 128 levels.
        if is_exact(&inbound.d, 120) {
            assert_eq!(rewritten(Encoding::Json, &inbound), inbound);
        }
    }
    transcode(data);
});

fn rewritten(encoding: Encoding, inbound: &Inbound) -> Inbound {
    let mut out = Vec::new();
    // `d` may use all levels; the envelope is one more.
    if let Err(error) = encode_payload_to_gateway(encoding, inbound.op, &inbound.d, &mut out) {
        assert!(matches!(error, EncodeError::TooDeep { .. }), "{error}");
        return inbound.clone();
    }
    decode_payload(encoding, &out).expect("we read what we write")
}

fn is_exact(value: &Value, levels: usize) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_exact(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|item| is_exact(item, levels - 1)),
        _ => true,
    }
}

fn transcode(text: &[u8]) {
    let mut term = vec![VERSION];
    let result = transcode_json(text, &mut term);
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => {
            result.expect("a text that parses");
            let decoded = decode_etf_from_gateway(&term, DecodeLimits::default());
            assert_eq!(decoded, Ok(value));
        }
        Err(error) => {
            let is_deep = error.to_string().starts_with("recursion limit exceeded");
            assert!(result.is_err() || is_deep, "{error}");
        }
    }
}
