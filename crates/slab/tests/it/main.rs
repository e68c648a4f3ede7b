//! Pools under churn, checked against their invariants.

mod churn;
mod pool;
