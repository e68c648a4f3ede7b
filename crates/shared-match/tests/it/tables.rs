//! Tables: the built-in ones are valid, and stored ones equal the trained ones.

use guildhall_shared_match::{Domain, Form, Sample, Scope, Tables, TablesError, train};

#[test]
fn built_in_tables_are_what_they_were_stored_as() {
    for (form, stored) in [
        (Form::Json, include_bytes!("../../tables/json.bin").as_slice()),
        (Form::Etf, include_bytes!("../../tables/etf.bin")),
    ] {
        assert_eq!(Tables::built_in(form).to_bytes(), stored);
    }
}

#[test]
fn training_gives_tables_that_can_be_stored() {
    let body = |number: u64| format!("{{\"id\":\"{number}\",\"content\":\"sample {number}\"}}").into_bytes();
    let scope = Scope { domain: Domain::Public { guild: 1, view: 0 }, class: 1 };
    let samples: Vec<Sample> = (0..300)
        .map(|number| Sample { scope, name: "MESSAGE_CREATE", body: body(number * 7_919), recipients: vec![0, 1] })
        .collect();
    for form in [Form::Json, Form::Etf] {
        let tables = train(form, &samples);
        let stored = tables.to_bytes();
        assert_eq!(Tables::from_bytes(&stored).map(|tables| tables.to_bytes()), Ok(stored));
    }
}

#[test]
fn what_is_no_table_is_refused() {
    let stored = Tables::built_in(Form::Json).to_bytes();
    assert_eq!(Tables::from_bytes(&[]).err(), Some(TablesError::Length(0)));
    assert_eq!(Tables::from_bytes(&stored[..40]).err(), Some(TablesError::Length(40)));
    let mut newer = stored.clone();
    newer[0] = 9;
    assert_eq!(Tables::from_bytes(&newer).err(), Some(TablesError::Version(9)));
    for at in [4, 300] {
        let mut changed = stored.clone();
        changed[at] ^= 1;
        assert_eq!(Tables::from_bytes(&changed).err(), Some(TablesError::Incomplete), "byte {at}");
    }
}
