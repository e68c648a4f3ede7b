//! Answers to offers.

use super::*;

const ALL: DeflatePolicy = DeflatePolicy {
    server_no_context_takeover: false,
    client_no_context_takeover: false,
    server_window_bits: 15,
    client_window_bits: 15,
};

fn negotiate(policy: DeflatePolicy, headers: &[&str]) -> Result<Option<String>, HandshakeError> {
    let mut negotiation = DeflateNegotiation::new(Some(policy));
    headers.iter().try_for_each(|header| negotiation.handle_header(header.as_bytes()))?;
    Ok(negotiation.agreed().map(DeflateParams::to_header))
}

/// `expected` excludes the extension's name; "-" for declined.
fn check(policy: DeflatePolicy, offer: &str, expected: &str) {
    let expected = match expected {
        "-" => None,
        "" => Some(NAME.to_owned()),
        params => Some(format!("{NAME}; {params}")),
    };
    assert_eq!(negotiate(policy, &[offer]), Ok(expected), "{offer}");
}

#[test]
fn each_parameter_is_answered_by_the_rules_of_the_rfc() {
    check(ALL, "permessage-deflate", "");
    check(ALL, "permessage-deflate; server_no_context_takeover", "server_no_context_takeover");
    check(ALL, "permessage-deflate; client_no_context_takeover", "client_no_context_takeover");
    check(ALL, "permessage-deflate; client_max_window_bits", "");
    check(ALL, "permessage-deflate; client_max_window_bits=11", "client_max_window_bits=11");
    check(ALL, "permessage-deflate; client_max_window_bits=15", "");
    check(ALL, "permessage-deflate; server_max_window_bits=10", "server_max_window_bits=10");
    let all = "permessage-deflate; client_max_window_bits=9; server_max_window_bits=12; \
               client_no_context_takeover; server_no_context_takeover";
    let answer = "server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12; \
                  client_max_window_bits=9";
    check(ALL, all, answer);
    // A window of 256 bytes: the test `trap_1_window_of_256_bytes` of `codec` shows how it is honoured.
    check(ALL, "permessage-deflate; server_max_window_bits=8", "server_max_window_bits=8");
    check(ALL, "permessage-deflate; client_max_window_bits=8", "client_max_window_bits=8");
}

#[test]
fn the_policy_lowers_parameters_only_where_the_offer_allows_it() {
    let policy = DeflatePolicy {
        server_no_context_takeover: true,
        client_no_context_takeover: true,
        server_window_bits: 11,
        client_window_bits: 10,
    };
    let takeovers = "server_no_context_takeover; client_no_context_takeover";
    // The server must not limit the window of a client whose offer does not allow it.
    check(policy, "permessage-deflate", &format!("{takeovers}; server_max_window_bits=11"));
    let response = format!("{takeovers}; server_max_window_bits=11; client_max_window_bits=10");
    check(policy, "permessage-deflate; client_max_window_bits", &response);
    let less = format!("{takeovers}; server_max_window_bits=9; client_max_window_bits=8");
    check(policy, "permessage-deflate; client_max_window_bits=8; server_max_window_bits=9", &less);
}

#[test]
fn wrong_offers_are_declined_and_the_next_is_looked_at() {
    for wrong in [
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=08",
        "permessage-deflate; server_max_window_bits=1",
        "permessage-deflate; server_max_window_bits=150",
        "permessage-deflate; server_max_window_bits=99999999999999999999999",
        "permessage-deflate; client_max_window_bits=x",
        "permessage-deflate; client_max_window_bits=+9",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=true",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=9",
        "permessage-deflate; mystery",
        "permessage-deflate; Server_No_Context_Takeover",
        "x-webkit-deflate-frame",
        "permessage-bzip2; level=9",
        "",
    ] {
        check(ALL, wrong, "-");
        let list = format!("{wrong}, permessage-deflate; client_max_window_bits=12");
        check(ALL, &list, "client_max_window_bits=12");
    }
    // In order of preference, also over several headers.
    let two = ["foo, permessage-deflate; nonsense", "permessage-deflate; client_max_window_bits=9, permessage-deflate"];
    assert_eq!(negotiate(ALL, &two), Ok(Some(format!("{NAME}; client_max_window_bits=9"))));
}

#[test]
fn quotes_space_and_empty_elements() {
    check(ALL, "permessage-deflate;client_max_window_bits=\"1\\0\"", "client_max_window_bits=10");
    check(ALL, " ,, permessage-deflate ;\tserver_max_window_bits = 9 , ", "server_max_window_bits=9");
}

#[test]
fn a_header_that_breaks_the_syntax_is_refused() {
    for broken in [
        ";",
        "permessage-deflate;",
        "permessage-deflate; ; a",
        "permessage-deflate; a=",
        "permessage-deflate; a=\"",
        "permessage-deflate; a=\"\"",
        "permessage-deflate; a=\"b c\"",
        "permessage-deflate; a=\"b\\",
        "permessage-deflate; =9",
        "permessage-deflate server_no_context_takeover",
        "permessage-deflate, b\"",
        "permessage\u{e9}deflate",
        "a=b",
        "a\0",
    ] {
        assert_eq!(negotiate(ALL, &[broken]), Err(HandshakeError::Extensions), "{broken:?}");
        // Also behind an accepted offer, and if every offer is declined.
        assert_eq!(negotiate(ALL, &["permessage-deflate", broken]), Err(HandshakeError::Extensions), "{broken:?}");
        assert!(DeflateNegotiation::new(None).handle_header(broken.as_bytes()).is_err(), "{broken:?}");
    }
}

#[test]
fn without_a_policy_everything_is_declined() {
    let mut negotiation = DeflateNegotiation::new(None);
    assert_eq!(negotiation.handle_header(b"permessage-deflate"), Ok(()));
    assert_eq!(negotiation.agreed(), None);
}

#[test]
fn answers_as_our_clients_read_them() {
    let params = DeflateParams {
        server_no_context_takeover: true,
        client_no_context_takeover: true,
        server_window_bits: 9,
        client_window_bits: 8,
    };
    assert_eq!(DeflateParams::from_answer(&params.to_header()), Ok(Some(params)));
    assert_eq!(DeflateParams::from_answer(NAME), Ok(Some(DeflateParams::default())));
    assert_eq!(DeflateParams::from_answer(""), Ok(None));
    for bad in [
        "x",
        "permessage-deflate, permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9",
        "permessage-deflate; x",
        "permessage-deflate;",
    ] {
        assert_eq!(DeflateParams::from_answer(bad), Err(BadAnswer), "{bad}");
    }
}
