//! Tests of files: one contract for both drivers, and what is special about a bucket.

mod bucket;
mod contract;
mod s3_server;
