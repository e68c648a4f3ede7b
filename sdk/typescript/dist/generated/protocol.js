// Generated from the Rust model. Do not edit: GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-session --test typescript
export {};
