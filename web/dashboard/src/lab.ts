// Bodies of the lab's routes, as the OpenAPI of `guildhall_backend` describes them.

/** The lab below `/v1/lab`: `guildhall_backend::{DarkBody, RecordingBody}`. */
export interface DarkSum { count: number; plain_bytes: number; wire_bytes: number; cpu_ns: number }
export interface DarkType extends DarkSum { name: string }
export interface DarkArm { arm: string; connection_bytes: number; total: DarkSum; types: DarkType[] }
export interface DarkLaunch {
  state: "running" | "stopped" | "failed"; started_at: number; sessions: number; sessions_now: number; sessions_busy: number; sessions_memory: number; memory_bytes: number;
  cpu_permille: number; cpu_ns: number; arms: DarkArm[];
}
export interface Recording {
  id: string; started_at: number; ended: "time" | "bytes" | "not_taken" | "stopped" | "failed" | null; scrubbed: boolean; private: boolean; node: number | null;
  sessions: number; sessions_now: number; sessions_full: number; dispatches: number; left_out: number; bytes: number; waiting_bytes: number;
}

/** Experiments below `/v1/experiments`: `guildhall_backend::{ExperimentBody, ExperimentReport}`. */
export type ExperimentState = "draft" | "running" | "stopped" | "rolled_back";
export interface ExperimentArm { name: string; weight: number; arm?: string; policy?: string }
export interface Experiment {
  name: string; salt: string; layer: string; first_slot: number; permille: number; audience: { platforms: string[]; bots: boolean | null; guild_id: string | null }; arms: ExperimentArm[];
  alpha: number; tolerance_percent: number; samples_min: number; reconnect_on_rollback: boolean; state: ExperimentState; reason: string | null; reconnected: boolean; changed_by: string;
  created_at: number; started_at: number | null; ended_at: number | null;
}
export interface Comparison { difference: number; low: number; high: number; is_worse: boolean }
export interface ExperimentMetric { name: string; samples: number; mean: number; comparison: Comparison | null }
export interface ExperimentReport {
  name: string; state: ExperimentState; reason: string | null; nodes: number; samples_dropped: number;
  arms: { name: string; connections: number; metrics: ExperimentMetric[] }[];
}
