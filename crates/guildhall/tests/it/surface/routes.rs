//! Routes of upstream: each is served, or counted and named as one that is not.

use crate::upstream;
use guildhall_rest::Unserved;

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(ours, theirs)| ours.starts_with('{') || ours == theirs)
}

#[test]
fn every_path_of_upstream_is_served_or_counted_as_unserved() {
    let unserved = Unserved::default();
    let mut missing = Vec::new();
    for route in upstream::routes() {
        let (_, path) = route.split_once(' ').expect("a method");
        let is_served = guildhall_rest::routes().iter().any(|route| fits(route.path, path));
        if !is_served && !unserved.counts().any(|(label, _)| fits(label, path)) {
            missing.push(path);
        }
    }
    assert!(missing.is_empty(), "not in `crates/rest/src/upstream.rs`: {missing:?}");
}
