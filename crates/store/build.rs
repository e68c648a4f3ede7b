//! Rebuilds the crate when a migration is added: the ones that exist are embedded by `sqlx::migrate!`.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=migrations-postgres");
}
