//! Any bytes as an ETF term from a client.
//!
//! Input       the term, without the version byte.
//! Oracle      no panic; the heap stays within the decoder's bound; an accepted term survives re-encoding; the client
//!             side accepts it too and decodes the same; so does eetf, except for its known defects.
// max_len: 4096
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use eetf::Term;
use guildhall_codec::etf::VERSION;
use guildhall_codec::{
    DecodeLimits, decode_etf, decode_etf_from_gateway, encode_etf, encode_etf_to_gateway,
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// Heap bytes that decoding may use per byte of input (invariant D1), plus a constant for an error or a single item.
const HEAP_BYTES_PER_BYTE: usize = 100;
const HEAP_BYTES_BASE: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let term = versioned(data);
    let limits = DecodeLimits::default();
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let decoded = decode_etf(&term, limits);
    let heap = PEAK.load(Relaxed) - before;
    assert!(heap <= HEAP_BYTES_BASE + HEAP_BYTES_PER_BYTE * term.len(), "{heap} bytes for {}", term.len());

    let seen_by_client = decode_etf_from_gateway(&term, limits);
    let Ok(value) = decoded else { return };
    assert_eq!(seen_by_client.as_ref(), Ok(&value));

    let mut again = Vec::new();
    encode_etf_to_gateway(&value, &mut again).expect("a decoded value is within the encoder's limits");
    assert_eq!(decode_etf(&versioned(&again), limits).as_ref(), Ok(&value));
    again.clear();
    encode_etf(&value, &mut again).expect("a decoded value is within the encoder's limits");
    assert_eq!(decode_etf_from_gateway(&versioned(&again), limits).as_ref(), Ok(&value));

    // eetf reads the old float format as 32 bits, and latin-1 atoms as UTF-8.
    let has_old_float = data.contains(&99);
    let has_latin1 = (data.contains(&100) || data.contains(&115)) && !data.is_ascii();
    if !has_old_float && !has_latin1 {
        let seen_by_eetf = Term::decode(term.as_slice()).expect("eetf accepts what we accept");
        assert_eq!(value_of(seen_by_eetf), value);
    }
});

fn versioned(term: &[u8]) -> Vec<u8> {
    [&[VERSION], term].concat()
}

fn value_of(term: Term) -> Value {
    let list = |items: Vec<Term>| items.into_iter().map(value_of).collect();
    match term {
        Term::Atom(atom) => match atom.name.as_str() {
            "nil" | "null" | "undefined" => Value::Null,
            "true" => true.into(),
            "false" => false.into(),
            name => name.into(),
        },
        Term::FixInteger(integer) => integer.value.into(),
        Term::BigInteger(integer) => match u64::try_from(&integer.value) {
            Ok(value) => value.into(),
            Err(_) => i64::try_from(&integer.value).expect("64 bits").into(),
        },
        Term::Float(float) => float.value.into(),
        Term::Binary(binary) => String::from_utf8(binary.bytes).expect("UTF-8").into(),
        Term::ByteList(bytes) => bytes.bytes.into(),
        Term::List(items) => list(items.elements),
        Term::Tuple(items) => list(items.elements),
        Term::Map(map) => Value::Object(
            map.map
                .into_iter()
                .map(|(key, value)| match key {
                    Term::Binary(key) => {
                        (String::from_utf8(key.bytes).expect("UTF-8"), value_of(value))
                    }
                    key => panic!("key {key}"),
                })
                .collect::<Map<_, _>>(),
        ),
        other => panic!("accepted {other}"),
    }
}

/// The system's allocator, with a counter of bytes in use and their maximum.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: passes everything to the system's allocator unchanged; `realloc` is the trait's default, which uses both.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: the caller's guarantee about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's guarantee about `address` and `layout` is passed on.
        unsafe { System.dealloc(address, layout) }
    }
}
