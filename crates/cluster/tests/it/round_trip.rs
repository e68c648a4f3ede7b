//! Encodes, decodes, compares; and lists with an example of each variant.

use guildhall_cluster::wire::{VERSION, decode, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// What another node receives. Equality is that of the Debug text: it has every field.
pub fn crossed<T: Serialize + DeserializeOwned + Debug>(message: &T) -> T {
    let bytes = encode(message);
    let received: T = decode(VERSION, &bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(format!("{received:?}"), format!("{message:?}"));
    let by_reference: T = rmp_serde::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(format!("{received:?}"), format!("{by_reference:?}"), "V1");
    received
}

/// All variants of an enum with an example of each. Without one for a variant it does not compile.
macro_rules! examples_of {
    ($enum:ident: $($variant:ident => $example:expr;)*) => {{
        fn name(value: &$enum) -> &'static str {
            match value { $($enum::$variant { .. } => stringify!($variant),)* }
        }
        let examples: Vec<$enum> = vec![$($example),*];
        let names = [$(stringify!($variant)),*];
        for (example, expected) in examples.iter().zip(names) {
            assert_eq!(name(example), expected);
        }
        examples
    }};
}
pub(crate) use examples_of;
