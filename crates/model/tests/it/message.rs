//! Stored forms of messages.

use guildhall_model::{Attachment, Id, NewAttachment};
use serde_json::{from_value, json, to_value};

#[test]
fn a_new_attachment_has_the_form_of_a_stored_one_with_0_for_no_id() {
    let stored = json!({
        "id": "0", "filename": "a.png", "size": 5, "url": "https://files.example.net/a.png", "width": 6, "height": 7,
    });
    let new: NewAttachment = from_value(stored.clone()).unwrap();
    assert_eq!(new.id, None);
    assert_eq!(to_value(&new).unwrap(), stored);

    let assigned = new.clone().with_id(Id::new(9));
    let Attachment { id, filename, size, url, content_type, description, height, width } = assigned.clone();
    assert_eq!((id, size, width, height), (Id::new(9), 5, Some(6), Some(7)));
    assert_eq!((filename, url, content_type, description), (new.filename, new.url, None, None));
    assert_eq!(NewAttachment::from(assigned).id, Some(Id::new(9)));
}
