//! permessage-deflate: from the settings to the parts that use them. The settings' ranges are those of zlib and RFC
//! 7692, so no value is truncated.

use guildhall_codec::ZlibParams;
use guildhall_settings::{ClientTakeover, DeflateConfig, DeflateMode};
use guildhall_ws_proto::{DeflatePolicy, WINDOW_BITS_MAX};

/// Parameters of contexts and of shared bodies.
#[must_use]
pub fn params(config: &DeflateConfig) -> ZlibParams {
    ZlibParams {
        level: config.level as u8,
        window_bits: config.server_window_bits as u8,
        mem_level: config.mem_level as u8,
    }
}

/// Policy for clients that offer permessage-deflate.
#[must_use]
pub fn policy(config: &DeflateConfig) -> Option<DeflatePolicy> {
    let server_no_context_takeover = match config.mode {
        DeflateMode::Off => return None,
        DeflateMode::Prepared => true,
        DeflateMode::Takeover => false,
    };
    Some(DeflatePolicy {
        server_no_context_takeover,
        client_no_context_takeover: config.client_takeover == ClientTakeover::Off,
        // Messages that are compressed once use the largest window; only contexts save memory by a smaller one.
        server_window_bits: if server_no_context_takeover { WINDOW_BITS_MAX } else { config.server_window_bits as u8 },
        client_window_bits: config.client_window_bits as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode() {
        let config = |mode, client_takeover| DeflateConfig {
            mode,
            level: 7,
            server_window_bits: 12,
            mem_level: 5,
            client_takeover,
            client_window_bits: 10,
        };
        let prepared = config(DeflateMode::Prepared, ClientTakeover::Off);
        let expected = DeflatePolicy {
            server_no_context_takeover: true,
            client_no_context_takeover: true,
            server_window_bits: 15,
            client_window_bits: 10,
        };
        assert_eq!(policy(&prepared), Some(expected));
        let takeover = config(DeflateMode::Takeover, ClientTakeover::On);
        let expected = DeflatePolicy {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_window_bits: 12,
            client_window_bits: 10,
        };
        assert_eq!(policy(&takeover), Some(expected));
        assert_eq!(policy(&config(DeflateMode::Off, ClientTakeover::On)), None);
        assert_eq!(params(&takeover), ZlibParams { level: 7, window_bits: 12, mem_level: 5 });
    }
}
