//! Format: what differs between streams of zstd and of deflate once it is known what a body may refer to.

use crate::{
    deflate::{self, symbols::Symbols},
    entropy::tables::Tables,
    history::PARENTS_MAX,
    parse::cache::Prepared,
    parse::prices::{DeflatePrices, Prices, ZstdPrices},
    parse::selection::{Groups, Parsed},
    search::dictionary::Dictionary,
    search::finder::FastLimits,
    search::standalone::Copy,
    stream::envelope::Head,
    stream::references::{Offsets, References},
    zstd::{self, standalone::Room},
};

/// What pieces cost, per format.
#[derive(Debug)]
pub struct PricesOf {
    pub zstd: ZstdPrices,
    pub deflate: DeflatePrices,
}

/// What differs between formats once it is known what a body may refer to.
pub(crate) trait Format {
    type Decoder;
    type Program;
    /// Limits and costs of the format for the fast parse.
    const FAST: FastLimits;
    fn window(decoder: &Self::Decoder) -> u32;
    fn prices(prices: &PricesOf) -> Prices<'_>;
    /// `begun`: for streams with this one of the body's dictionaries.
    fn programs(prepared: &mut Prepared, begun: Option<usize>) -> Shelf<'_, Self::Program>;
    fn prepare(parsed: &Parsed<'_>, tables: &Tables) -> Self::Program;
    fn sources(program: &Self::Program) -> &References;
    fn write(
        program: &Self::Program,
        decoder: &mut Self::Decoder,
        tables: &Tables,
        distances: &Offsets,
        around: (&Head, &[u8]),
        room: &mut Room,
        out: &mut Vec<u8>,
    );
    /// Appends a whole message, of which `copies` repeat what stands before.
    fn write_copies(
        stream: (&mut Self::Decoder, &Tables),
        scratch: (&mut Room, &mut Symbols),
        message: &[u8],
        copies: &[Copy],
        out: &mut Vec<u8>,
    );
}

/// What there is of a body: what is shared by all connections that refer to the same dictionary, or to none.
pub struct Shelf<'a, P> {
    pub dictionary: Option<&'a Dictionary>,
    pub programs: &'a mut Groups<P>,
}

pub(crate) struct Zstd;

impl Format for Zstd {
    type Decoder = zstd::ZstdDecoder;
    type Program = zstd::Program;
    const FAST: FastLimits = FastLimits {
        match_bytes_max: 8 << 10,
        has_repeats: true,
        literal_bits: 6,
        repeat_bits: 9,
        explicit_bits: 26,
        is_lazy: false,
        enough_bytes: usize::MAX,
        similar_max: 1,
        parents_max: PARENTS_MAX,
        reach: 0,
    };

    fn window(_: &Self::Decoder) -> u32 {
        zstd::WINDOW_BYTES
    }

    fn prices(prices: &PricesOf) -> Prices<'_> {
        Prices::Zstd(&prices.zstd)
    }

    #[inline]
    fn programs(prepared: &mut Prepared, begun: Option<usize>) -> Shelf<'_, Self::Program> {
        match begun {
            None => Shelf { dictionary: None, programs: &mut prepared.zstd },
            Some(index) => {
                let (dictionary, programs) = prepared.begun.get(index);
                Shelf { dictionary: Some(dictionary), programs }
            }
        }
    }

    fn prepare(parsed: &Parsed<'_>, tables: &Tables) -> Self::Program {
        zstd::Program::new(parsed.bytes, &parsed.sequences, tables, parsed.head_source)
    }

    #[inline]
    fn sources(program: &Self::Program) -> &References {
        program.sources()
    }

    #[inline]
    fn write(
        program: &Self::Program,
        decoder: &mut Self::Decoder,
        tables: &Tables,
        distances: &Offsets,
        (head, tail): (&Head, &[u8]),
        room: &mut Room,
        out: &mut Vec<u8>,
    ) {
        program.write(decoder, tables, distances, head, out);
        if !tail.is_empty() {
            zstd::standalone::write(decoder, tables, room, tail, &[], out);
        }
    }

    fn write_copies(
        (decoder, tables): (&mut Self::Decoder, &Tables),
        (room, _): (&mut Room, &mut Symbols),
        message: &[u8],
        copies: &[Copy],
        out: &mut Vec<u8>,
    ) {
        zstd::standalone::write(decoder, tables, room, message, copies, out);
    }
}

pub(crate) struct Deflate;

impl Format for Deflate {
    type Decoder = deflate::DeflateDecoder;
    type Program = deflate::Program;
    const FAST: FastLimits = FastLimits {
        match_bytes_max: deflate::MATCH_BYTES_MAX as usize,
        has_repeats: false,
        literal_bits: 8,
        repeat_bits: 24,
        explicit_bits: 24,
        is_lazy: false,
        enough_bytes: usize::MAX,
        similar_max: 2,
        parents_max: PARENTS_MAX,
        reach: 0,
    };

    fn window(decoder: &Self::Decoder) -> u32 {
        decoder.window()
    }

    fn prices(prices: &PricesOf) -> Prices<'_> {
        Prices::Deflate(&prices.deflate)
    }

    #[inline]
    fn programs(prepared: &mut Prepared, _: Option<usize>) -> Shelf<'_, Self::Program> {
        Shelf { dictionary: None, programs: &mut prepared.deflate }
    }

    fn prepare(parsed: &Parsed<'_>, _: &Tables) -> Self::Program {
        let position = parsed.state.position();
        let distance_of = |id| parsed.state.distance(id, position, parsed.sizes);
        deflate::Program::new(parsed.bytes, &parsed.sequences, parsed.head_source, distance_of)
    }

    #[inline]
    fn sources(program: &Self::Program) -> &References {
        program.sources()
    }

    #[inline]
    fn write(
        program: &Self::Program,
        decoder: &mut Self::Decoder,
        _: &Tables,
        distances: &Offsets,
        (head, tail): (&Head, &[u8]),
        _: &mut Room,
        out: &mut Vec<u8>,
    ) {
        program.write(decoder, distances, head, tail, out);
    }

    fn write_copies(
        (decoder, _): (&mut Self::Decoder, &Tables),
        (_, symbols): (&mut Room, &mut Symbols),
        message: &[u8],
        copies: &[Copy],
        out: &mut Vec<u8>,
    ) {
        deflate::standalone::write(decoder, symbols, message, copies, out);
    }
}
