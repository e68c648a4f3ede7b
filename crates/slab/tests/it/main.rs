//! Pools under churn, checked against what their invariants promise.

mod churn;
mod pool;
