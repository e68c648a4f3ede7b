//! Format: what differs between streams of zstd and of deflate once it is known what a body may refer to.

use crate::{
    deflate::{self, symbols::Symbols},
    entropy::tables::Tables,
    history::PARENTS_MAX,
    parse::cache::EntryParses,
    parse::prices::{DeflatePrices, Prices, ZstdPrices},
    parse::selection::{Groups, NewParse},
    search::dictionary::Dictionary,
    search::finder::{SIMILAR_MAX, SearchLimits},
    search::standalone::ResolvedSequence,
    stream::envelope::Head,
    stream::references::{Offsets, References},
    zstd::{self, standalone::BlockScratch},
};

/// What pieces cost, per format.
#[derive(Debug)]
pub struct FormatPrices {
    pub zstd: ZstdPrices,
    pub deflate: DeflatePrices,
}

/// What differs between formats once it is known what a body may refer to.
pub(crate) trait Format {
    type Decoder;
    type EncodedParse;
    /// Limits and costs of the format for the search, before `SearchLimits::with` adapts them to an effort.
    const FAST: SearchLimits;
    fn window(decoder: &Self::Decoder) -> u32;
    fn prices(prices: &FormatPrices) -> Prices<'_>;
    /// `with_dictionary`: for streams with this one of the body's dictionaries.
    fn groups(entry_parses: &mut EntryParses, with_dictionary: Option<usize>) -> ParseSet<'_, Self::EncodedParse>;
    fn prepare(parsed: &NewParse<'_>, tables: &Tables) -> Self::EncodedParse;
    fn references(encoded: &Self::EncodedParse) -> &References;
    fn write(
        encoded: &Self::EncodedParse,
        decoder: &mut Self::Decoder,
        tables: &Tables,
        offsets: &Offsets,
        around: (&Head, &[u8]),
        scratch: &mut BlockScratch,
        out: &mut Vec<u8>,
    );
    /// Appends a whole message, of which `sequences` repeat earlier bytes.
    fn write_sequences(
        stream: (&mut Self::Decoder, &Tables),
        scratch: (&mut BlockScratch, &mut Symbols),
        message: &[u8],
        sequences: &[ResolvedSequence],
        out: &mut Vec<u8>,
    );
}

/// Parses of a body that are shared by all connections with the same dictionary, or by those without one.
pub struct ParseSet<'a, P> {
    pub dictionary: Option<&'a Dictionary>,
    pub groups: &'a mut Groups<P>,
}

pub(crate) struct Zstd;

impl Format for Zstd {
    type Decoder = zstd::ZstdDecoder;
    type EncodedParse = zstd::EncodedParse;
    const FAST: SearchLimits = SearchLimits {
        match_bytes_max: 8 << 10,
        has_repeats: true,
        literal_bits: 6,
        repeat_bits: 9,
        explicit_bits: 26,
        is_lazy: false,
        enough_bytes: usize::MAX,
        similar_max: SIMILAR_MAX,
        parents_max: PARENTS_MAX,
        reach: 0,
    };

    fn window(decoder: &Self::Decoder) -> u32 {
        decoder.window()
    }

    fn prices(prices: &FormatPrices) -> Prices<'_> {
        Prices::Zstd(&prices.zstd)
    }

    #[inline]
    fn groups(entry_parses: &mut EntryParses, with_dictionary: Option<usize>) -> ParseSet<'_, Self::EncodedParse> {
        match with_dictionary {
            None => ParseSet { dictionary: None, groups: &mut entry_parses.zstd },
            Some(index) => {
                let (dictionary, groups) = entry_parses.with_dictionary.get(index);
                ParseSet { dictionary: Some(dictionary), groups }
            }
        }
    }

    fn prepare(parsed: &NewParse<'_>, tables: &Tables) -> Self::EncodedParse {
        zstd::EncodedParse::new(parsed.bytes, &parsed.sequences, tables, parsed.head_source)
    }

    #[inline]
    fn references(encoded: &Self::EncodedParse) -> &References {
        encoded.references()
    }

    #[inline]
    fn write(
        encoded: &Self::EncodedParse,
        decoder: &mut Self::Decoder,
        tables: &Tables,
        offsets: &Offsets,
        (head, tail): (&Head, &[u8]),
        scratch: &mut BlockScratch,
        out: &mut Vec<u8>,
    ) {
        encoded.write(decoder, tables, offsets, head, out);
        if !tail.is_empty() {
            zstd::standalone::write(decoder, tables, scratch, tail, &[], out);
        }
    }

    fn write_sequences(
        (decoder, tables): (&mut Self::Decoder, &Tables),
        (scratch, _): (&mut BlockScratch, &mut Symbols),
        message: &[u8],
        sequences: &[ResolvedSequence],
        out: &mut Vec<u8>,
    ) {
        zstd::standalone::write(decoder, tables, scratch, message, sequences, out);
    }
}

pub(crate) struct Deflate;

impl Format for Deflate {
    type Decoder = deflate::DeflateDecoder;
    type EncodedParse = deflate::EncodedParse;
    const FAST: SearchLimits = SearchLimits {
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

    fn prices(prices: &FormatPrices) -> Prices<'_> {
        Prices::Deflate(&prices.deflate)
    }

    #[inline]
    fn groups(entry_parses: &mut EntryParses, _: Option<usize>) -> ParseSet<'_, Self::EncodedParse> {
        ParseSet { dictionary: None, groups: &mut entry_parses.deflate }
    }

    fn prepare(parsed: &NewParse<'_>, _: &Tables) -> Self::EncodedParse {
        let position = parsed.state.position();
        let distance_of = |id| parsed.state.distance(id, position, parsed.sizes);
        deflate::EncodedParse::new(parsed.bytes, &parsed.sequences, parsed.head_source, distance_of)
    }

    #[inline]
    fn references(encoded: &Self::EncodedParse) -> &References {
        encoded.references()
    }

    #[inline]
    fn write(
        encoded: &Self::EncodedParse,
        decoder: &mut Self::Decoder,
        _: &Tables,
        offsets: &Offsets,
        (head, tail): (&Head, &[u8]),
        _: &mut BlockScratch,
        out: &mut Vec<u8>,
    ) {
        encoded.write(decoder, offsets, head, tail, out);
    }

    fn write_sequences(
        (decoder, _): (&mut Self::Decoder, &Tables),
        (_, symbols): (&mut BlockScratch, &mut Symbols),
        message: &[u8],
        sequences: &[ResolvedSequence],
        out: &mut Vec<u8>,
    ) {
        deflate::standalone::write(decoder, symbols, message, sequences, out);
    }
}
