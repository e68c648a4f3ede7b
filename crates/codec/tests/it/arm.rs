//! Arms: their text, and what their encoders write, read by decoders of the libraries.

use guildhall_codec::{
    ARM_BYTES_MAX, Arm, ArmEncoder, Dictionaries, Dictionary, DictionaryId, DispatchFrame, Encoding, Framing,
    KnownDictionary, StreamDecompressor, ZlibParams, ZstdParams, encode_etf, read_once,
};
use proptest::prelude::*;
use std::sync::Arc;

fn zstd_params() -> impl Strategy<Value = ZstdParams> {
    (-7..=22, 10u32..=27, 6u32..=28, 6u32..=28, 1024u32..=131_072).prop_map(
        |(level, window_log, chain_log, hash_log, block_bytes_max)| ZstdParams {
            level,
            window_log,
            chain_log,
            hash_log,
            block_bytes_max,
        },
    )
}

fn arm() -> impl Strategy<Value = Arm> {
    let dictionary = || proptest::option::of(any::<[u8; 8]>().prop_map(|bytes| DictionaryId::of(&bytes)));
    prop_oneof![
        (0u8..=9, 9u8..=15, 1u8..=9).prop_map(|(level, window_bits, mem_level)| Arm::Zlib(ZlibParams {
            level,
            window_bits,
            mem_level
        })),
        (zstd_params(), dictionary()).prop_map(|(params, dictionary)| Arm::Zstd(params, dictionary)),
        (-7..=22, dictionary()).prop_map(|(level, dictionary)| Arm::ZstdOnce { level, dictionary }),
        dictionary().prop_map(Arm::SharedMatch),
        Just(Arm::Prepared),
    ]
}

proptest! {
    #[test]
    fn a1_an_arm_prints_to_text_that_parses_to_it(arm in arm()) {
        let text = arm.to_string();
        prop_assert!(text.len() <= ARM_BYTES_MAX);
        prop_assert_eq!(text.parse::<Arm>().unwrap(), arm, "{}", text);
        if let Arm::Zlib(params) = arm {
            prop_assert!(params.validate().is_ok());
        }
        if let Arm::Zstd(params, _) = arm {
            prop_assert!(params.validate().is_ok());
        }
    }

    #[test]
    fn a2_other_text_is_an_error_that_prints(text in "\\PC{0,300}") {
        if let Err(error) = text.parse::<Arm>() {
            prop_assert!(error.to_string().len() < 400);
        }
    }
}

#[test]
fn a1_defaults_are_those_that_the_table_says() {
    for (text, printed) in [
        ("zlib", "zlib:level=6,window=15,mem=8"),
        ("zlib:mem=9", "zlib:level=6,window=15,mem=9"),
        ("zstd", "zstd:level=6,window=18,chain=16,hash=16,block=16384"),
        ("zstd:hash=17,level=-3", "zstd:level=-3,window=18,chain=16,hash=17,block=16384"),
        ("zstd-once", "zstd-once:level=3"),
        ("shared-match", "shared-match"),
        ("prepared", "prepared"),
        ("shared-match:dict=00112233445566778899aabbccddeeff", "shared-match:dict=00112233445566778899aabbccddeeff"),
        ("zstd-once:dict=00112233445566778899aabbccddeeff", "zstd-once:level=3,dict=00112233445566778899aabbccddeeff"),
    ] {
        assert_eq!(text.parse::<Arm>().unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn a2_errors_name_the_parameter_and_what_it_may_be() {
    for (text, expected) in [
        ("", "there is no arm \"\": use zlib, zstd, zstd-once, shared-match, prepared, such as zlib:level=9"),
        ("gzip:level=6", "there is no arm \"gzip\": use zlib, zstd,"),
        ("Zlib", "there is no arm \"Zlib\""),
        (" zlib", "there is no arm \" zlib\""),
        ("zlib:", "zlib has no parameter \"\": it has level, window, mem"),
        ("zlib:level", "zlib: level has no value: put = and the value behind it"),
        ("zlib:level=", "zlib: level is \"\", allowed is a whole number from 0 to 9"),
        ("zlib:level=10", "zlib: level is \"10\", allowed is a whole number from 0 to 9"),
        ("zlib:level=6.5", "zlib: level is \"6.5\", allowed is a whole number from 0 to 9"),
        ("zlib:window=8", "zlib: window is \"8\", allowed is a whole number from 9 to 15"),
        ("zlib:mem=0", "zlib: mem is \"0\", allowed is a whole number from 1 to 9"),
        ("zlib:level=6,level=6", "zlib: level is given twice: leave one of the two out"),
        ("zlib:chain=16", "zlib has no parameter \"chain\": it has level, window, mem"),
        ("zlib:dict=00112233445566778899aabbccddeeff", "zlib has no parameter \"dict\""),
        ("zstd:level=23", "zstd: level is \"23\", allowed is a whole number from -7 to 22"),
        ("zstd:window=28", "zstd: window is \"28\", allowed is a whole number from 10 to 27"),
        ("zstd:chain=5", "zstd: chain is \"5\", allowed is a whole number from 6 to 28"),
        ("zstd:hash=29", "zstd: hash is \"29\", allowed is a whole number from 6 to 28"),
        ("zstd:block=1023", "zstd: block is \"1023\", allowed is a whole number from 1024 to 131072"),
        ("zstd:dict=1", "zstd: dict is \"1\", allowed is the id of a dictionary: 32 digits, 0-9 and a-f"),
        (
            "zstd:level=6, window=18",
            "zstd has no parameter \" window\": it has level, window, chain, hash, block, dict",
        ),
        ("zstd-once:window=18", "zstd-once has no parameter \"window\": it has level, dict"),
        ("shared-match:level=6", "shared-match has no parameter \"level\": it has dict"),
        ("prepared:level=6", "prepared has no parameter \"level\": it has none"),
    ] {
        let error = text.parse::<Arm>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let error = format!("zlib:{}", "x".repeat(ARM_BYTES_MAX)).parse::<Arm>().unwrap_err();
    assert_eq!(error.to_string(), "an arm has at most 256 bytes");
}

/// The ranges of the grammar are those of the codec: one step outside of any is refused by both.
#[test]
fn a2_ranges_are_those_of_the_codec() {
    for (text, is_valid) in [
        ("zlib:level=0", ZlibParams { level: 0, ..ZlibParams::default() }.validate().is_ok()),
        ("zlib:level=10", ZlibParams { level: 10, ..ZlibParams::default() }.validate().is_ok()),
        ("zlib:window=8", ZlibParams { window_bits: 8, ..ZlibParams::default() }.validate().is_ok()),
        ("zlib:window=16", ZlibParams { window_bits: 16, ..ZlibParams::default() }.validate().is_ok()),
        ("zlib:mem=10", ZlibParams { mem_level: 10, ..ZlibParams::default() }.validate().is_ok()),
        ("zstd:level=-8", ZstdParams { level: -8, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:level=23", ZstdParams { level: 23, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:window=9", ZstdParams { window_log: 9, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:window=28", ZstdParams { window_log: 28, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:chain=5", ZstdParams { chain_log: 5, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:chain=29", ZstdParams { chain_log: 29, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:hash=5", ZstdParams { hash_log: 5, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:hash=29", ZstdParams { hash_log: 29, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:block=1023", ZstdParams { block_bytes_max: 1023, ..ZstdParams::default() }.validate().is_ok()),
        ("zstd:block=131073", ZstdParams { block_bytes_max: 131_073, ..ZstdParams::default() }.validate().is_ok()),
    ] {
        assert_eq!(text.parse::<Arm>().is_ok(), is_valid, "{text}");
    }
}

/// Messages of a stream, long and short, with what repeats and what does not.
fn frames(encoding: Encoding) -> Vec<DispatchFrame> {
    let word = |n: usize| ["guild", "relay", "session", "partition", "höhe", "🔥"][n * n % 6];
    (0..200)
        .map(|n| {
            let text: String = (0..n % 40).map(|at| format!("{} {} ", word(n + at), at * n * 7_919)).collect();
            let value = serde_json::json!({"content": text, "id": format!("{}", 1_000_000_007 * n), "n": n});
            let mut body = Vec::new();
            match encoding {
                Encoding::Json => body.extend_from_slice(value.to_string().as_bytes()),
                Encoding::Etf => encode_etf(&value, &mut body).unwrap(),
            }
            DispatchFrame::from_body(encoding, "MESSAGE_CREATE", &body).unwrap()
        })
        .collect()
}

fn dictionary() -> Arc<Dictionary> {
    let samples: Vec<Vec<u8>> = frames(Encoding::Json).iter().map(|frame| frame.body().to_vec()).collect();
    Arc::new(Dictionary::train(&samples, 4 << 10).unwrap())
}

#[test]
fn a3_a_decoder_reads_what_each_arm_writes() {
    let known = dictionary();
    let id = known.id();
    for encoding in [Encoding::Json, Encoding::Etf] {
        let dictionaries = Dictionaries::new(vec![KnownDictionary::new(encoding, known.clone())]).unwrap();
        for text in ["zlib", "zlib:level=1,window=9,mem=1", "zstd", "zstd:level=19,window=20", "zstd-once", "prepared"]
        {
            let arm: Arm = text.parse().unwrap();
            for arm in [Some(arm), arm.with_dictionary(id)].into_iter().flatten() {
                let mut encoder = ArmEncoder::new(&arm, encoding, &dictionaries).unwrap();
                let dictionary = arm.dictionary().map(|_| &*known);
                let mut stream = match (arm, dictionary) {
                    (Arm::Zlib(_), _) => Some(StreamDecompressor::zlib().unwrap()),
                    (Arm::Zstd(..), None) => Some(StreamDecompressor::zstd(27).unwrap()),
                    (Arm::Zstd(..), Some(known)) => Some(StreamDecompressor::zstd_with(27, known).unwrap()),
                    _ => None,
                };
                let (mut plain_bytes, mut wire_bytes) = (0, 0);
                for (seq, frame) in (1..).zip(frames(encoding)) {
                    let parts = frame.parts(seq, Framing::None);
                    let plain = parts.slices(0).concat();
                    let wire = encoder.encode(parts.slices(0)).unwrap();
                    (plain_bytes, wire_bytes) = (plain_bytes + plain.len(), wire_bytes + wire.len());
                    let mut read = Vec::new();
                    match (arm, &mut stream) {
                        (_, Some(stream)) => stream.decompress(wire, &mut read, 1 << 20).unwrap(),
                        (Arm::Prepared, _) if wire == plain => read.extend_from_slice(wire),
                        (Arm::Prepared, _) => {
                            let whole = [&[0x78, 0x9c], wire, &[0, 0, 0xff, 0xff]].concat();
                            StreamDecompressor::zlib().unwrap().decompress(&whole, &mut read, 1 << 20).unwrap();
                        }
                        _ => {
                            read = read_once(wire, dictionary, 1 << 20).unwrap();
                            assert!(read_once(wire, dictionary, plain.len() - 1).is_err(), "{arm}: a bound");
                        }
                    }
                    assert_eq!(read, plain, "{arm} {seq}");
                }
                assert!(wire_bytes < plain_bytes, "{arm}: {wire_bytes} of {plain_bytes}");
                let has_context = matches!(arm, Arm::Zlib(_) | Arm::Zstd(..));
                assert_eq!(encoder.memory_bytes() > 0, has_context, "{arm}");
            }
        }
    }
}

#[test]
fn an_encoder_that_cannot_be_made_says_why() {
    let none = Dictionaries::default();
    let arm = "zstd".parse::<Arm>().unwrap().with_dictionary(DictionaryId::of(b"x")).unwrap();
    let error = ArmEncoder::new(&arm, Encoding::Etf, &none).unwrap_err().to_string();
    assert!(error.contains("for etf: load it, or leave dict out"), "{error}");
    let error = ArmEncoder::new(&Arm::SharedMatch(None), Encoding::Json, &none).unwrap_err().to_string();
    assert!(error.contains("needs the traffic of all sessions"), "{error}");
}

/// Text of the arm that the whole of a stream's bytes goes by: one-shot frames refer to nothing.
#[test]
fn a_frame_per_message_is_larger_than_a_stream() {
    let bytes = |text: &str| {
        let mut encoder = ArmEncoder::new(&text.parse().unwrap(), Encoding::Json, &Dictionaries::default()).unwrap();
        let frames = frames(Encoding::Json);
        (1..)
            .zip(&frames)
            .map(|(seq, frame)| encoder.encode(frame.parts(seq, Framing::None).slices(0)).unwrap().len())
            .sum::<usize>()
    };
    assert!(bytes("zstd-once") > bytes("zstd"));
}
