//! Limits: the settings of a configuration in the form in which each part takes them.

use super::running::DrainTimes;
use crate::{deflate, open_files, secrets::random, start_error::StartError};
use guildhall_backend::V1Limits;
use guildhall_codec::ContextPool;
use guildhall_guild::GuildLimits;
use guildhall_guild_protocol::{HiddenChannels, PartitionId};
use guildhall_net::{AdmissionLimits, IdentifyLimits, ServerConfig};
use guildhall_node::{CanaryLimits, DirectLimits, DirectsWho, NodeConfig, NodeLimits, SignOnAccounts};
use guildhall_partition::{PartitionConfig, StreamCodec};
use guildhall_rest::{ApiLimits, UserPolicy};
use guildhall_session::{LogLimits, Share};
use guildhall_settings::{
    Allowed, Config, CreateAccounts, DirectsFrom, ExpireSessions, HiddenForm, IoUring, KeepEvents, PrivateEndpoints,
    PrivateWebhooks, StreamMode, UsersPreset,
};
use std::{num::NonZeroU32, thread};

/// Node settings of a configuration.
#[must_use]
pub fn node_config(config: &Config, jwt_secret: Vec<u8>) -> NodeConfig {
    let guild_workers_count = match config.server.guild_workers {
        0 => (cores() / 2).max(1),
        count => usize::from(count),
    };
    NodeConfig { guild_workers_count, jwt_secret, worker_mailbox_max: config.server.worker_mailbox_max as usize }
}

pub(super) fn node_limits(config: &Config) -> NodeLimits {
    let voice_endpoint = config.voice.endpoint.as_ref().map(|endpoint| endpoint.as_str().to_owned());
    let temporary_away_ms = config.limits.temporary_away_ms.into();
    let audit_entries_max = config.limits.audit_log_entries_max as usize;
    let keeps_events = config.events.keep == KeepEvents::On;
    let guild =
        GuildLimits { voice_endpoint, temporary_away_ms, audit_entries_max, keeps_events, ..GuildLimits::default() };
    let directs = DirectLimits {
        who: match (config.directs.who, config.users.preset) {
            (Some(DirectsFrom::CommonGuild), _) | (None, UsersPreset::Open) => DirectsWho::CommonGuild,
            (Some(DirectsFrom::Anyone), _) => DirectsWho::Anyone,
            (Some(DirectsFrom::Backend), _) | (None, UsersPreset::Backend) => DirectsWho::Backend,
        },
        directs_per_day_max: config.directs.created_per_day_max,
        groups_per_day_max: config.directs.groups_created_per_day_max,
    };
    let sign_on = SignOnAccounts {
        is_on: config.auth.jwt_create_accounts == CreateAccounts::On,
        per_minute_max: config.auth.jwt_accounts_per_minute_max,
    };
    let canaries = CanaryLimits {
        members_min: config.canaries.members_min.into(),
        interval_ms: u64::from(config.canaries.interval_s) * 1_000,
    };
    NodeLimits { directs, guild, sign_on, canaries, ..NodeLimits::default() }
}

pub(super) fn hidden_channels(config: &Config) -> HiddenChannels {
    match config.visibility.hidden_channels {
        HiddenForm::Listed => HiddenChannels::Listed,
        HiddenForm::Obfuscated => HiddenChannels::Obfuscated,
        HiddenForm::Absent => HiddenChannels::Absent,
    }
}

/// Limits of partitions, without compression.
pub(super) fn partition_config(config: &Config, gateway_url: &str) -> Result<PartitionConfig, StartError> {
    let limits = &config.limits;
    Ok(PartitionConfig {
        heartbeat_interval_ms: config.server.heartbeat_interval_ms.into(),
        identify_deadline_ms: limits.identify_deadline_ms.into(),
        resume_window_ms: limits.session_resume_ms.into(),
        replay_events_max: limits.replay_events_max as usize,
        replay_bytes_max: limits.replay_bytes_max as usize,
        replay_share: Share {
            pieces_max: (limits.replay_events_max as usize / 4).max(8),
            bytes_max: limits.replay_bytes_max as usize / 4,
        },
        backlog_events_max: limits.backlog_events_max as usize,
        backlog_bytes_max: limits.backlog_bytes_max as usize,
        log: LogLimits {
            events_max: limits.shared_log_events_max as usize,
            bytes_max: limits.shared_log_bytes_max as usize,
            share_events_max: limits.shared_log_events_max as usize / 2,
            share_bytes_max: limits.shared_log_bytes_max as usize / 8,
            // No session can be resumed with an older dispatch: its client was closed by then, and the
            // session is forgotten.
            age_ms_max: u64::from(config.server.heartbeat_interval_ms) * 3 / 2 + u64::from(limits.session_resume_ms),
        },
        rendered_bytes_max: limits.ready_bytes_in_flight_max as usize,
        sessions_per_relay_max: limits.sessions_per_relay_max as usize,
        passive_above_members: limits.passive_above_members.map(u64::from),
        passive_interval_ms: limits.passive_update_interval_ms.into(),
        write_stall_ms: limits.write_stall_ms.into(),
        inbound_per_minute_max: limits.inbound_per_minute_max,
        bot_message_bytes_max: limits.bot_message_bytes_max,
        user_message_bytes_max: limits.user_message_bytes_max,
        guilds_per_shard_max: limits.guilds_per_shard_max as usize,
        expire_sessions: config.auth.expire_sessions == ExpireSessions::On,
        hidden_channels: hidden_channels(config),
        stream_codec: match config.codec.streams {
            StreamMode::PerConnection => StreamCodec::PerConnection,
            StreamMode::SharedMatch => StreamCodec::SharedMatch {
                history_bytes_max: config.codec.shared_history_bytes_max as usize,
                check_one_in: NonZeroU32::new(config.codec.shared_check_one_in),
            },
            StreamMode::Auto => StreamCodec::Auto {
                history_bytes_max: config.codec.shared_history_bytes_max as usize,
                check_one_in: NonZeroU32::new(config.codec.shared_check_one_in),
                cpu_percent: config.codec.contexts_cpu_percent.min(100) as u8,
            },
        },
        ..PartitionConfig::new(PartitionId(0), gateway_url.into(), random()?)
    })
}

pub(super) fn identify_limits(config: &Config) -> IdentifyLimits {
    let limits = &config.limits;
    IdentifyLimits {
        max_concurrency: limits.identify_concurrency,
        interval_ms: limits.identify_interval_ms.into(),
        bot_identifies_per_day: limits.bot_identifies_per_day,
        user_sessions_max: limits.user_sessions_max,
        per_second_max: limits.identifies_per_second_max,
    }
}

pub(super) fn admission_limits(config: &Config, places: open_files::Places) -> AdmissionLimits {
    let limits = &config.limits;
    AdmissionLimits {
        connections_max: places.connections_max as usize,
        handshakes_max: limits.handshakes_max as usize,
        address_rest_connections_max: limits.address_rest_connections_max,
        address_connections_max: limits.address_connections_max,
        address_handshakes_per_minute: limits.address_handshakes_per_minute,
    }
}

/// The live settings of a configuration, in the form in which `RunningNode::take_settings` applies them.
#[derive(Debug)]
pub(super) struct LiveLimits {
    /// Only what `PartitionConfig::take_limits` takes of it changes.
    pub partition: PartitionConfig,
    pub admission: AdmissionLimits,
    pub identify: IdentifyLimits,
    pub drain: DrainTimes,
    /// For REST; partitions have their own.
    pub write_stall_ms: u64,
    pub free_bytes_min: u64,
    pub keep_days: u32,
}

impl LiveLimits {
    /// `files_allowed`: descriptors that the system allows; none for any number.
    ///
    /// # Errors
    /// `Randomness`.
    pub fn of(config: &Config, gateway_url: &str, files_allowed: Option<u64>) -> Result<Self, StartError> {
        let places = open_files::places(config.server.connections_max, files_allowed);
        Ok(Self {
            partition: partition_config(config, gateway_url)?,
            admission: admission_limits(config, places),
            identify: identify_limits(config),
            drain: DrainTimes::of(config),
            write_stall_ms: config.limits.write_stall_ms.into(),
            free_bytes_min: config.store.free_bytes_min,
            keep_days: config.messages.keep_days,
        })
    }
}

pub(super) fn server_config(
    config: &Config,
    gateway_url: &str,
    places: open_files::Places,
    contexts: ContextPool,
) -> Result<ServerConfig, StartError> {
    let partition = PartitionConfig {
        contexts,
        deflate: deflate::params(&config.deflate),
        ..partition_config(config, gateway_url)?
    };
    let identify = identify_limits(config);
    let partitions_count = match config.server.partitions {
        0 => cores().min(256) as u16,
        count => count,
    };
    let io_uring = match config.server.io_uring {
        IoUring::Auto => guildhall_net::IoUring::Auto,
        IoUring::Off => guildhall_net::IoUring::Off,
    };
    let connections_max = places.connections_max as usize;
    let deflate = deflate::policy(&config.deflate);
    Ok(ServerConfig {
        node_number: 0,
        partitions_count,
        connections_max,
        io_uring,
        deflate,
        admission: admission_limits(config, places),
        certificates: None,
        access: None,
        identify,
        partition,
    })
}

pub(super) fn api_limits(config: &Config) -> ApiLimits {
    let limits = match config.limits.rest_rate_percent {
        0 => ApiLimits::unlimited(),
        100 => ApiLimits::default(),
        percent => ApiLimits::default().scaled(f64::from(percent) / 100.0),
    };
    let private_endpoints = config.interactions.private_endpoints == PrivateEndpoints::On;
    ApiLimits { users: user_policy(config), private_endpoints, ..limits }
}

fn user_policy(config: &Config) -> UserPolicy {
    let users = &config.users;
    let may = |setting: Option<Allowed>| match (setting, users.preset) {
        (Some(Allowed::Everyone), _) | (None, UsersPreset::Open) => true,
        (Some(Allowed::Backend), _) | (None, UsersPreset::Backend) => false,
    };
    UserPolicy {
        create_guilds: may(users.create_guilds),
        change_names: may(users.change_names),
        create_invites: may(users.create_invites),
        leave_guilds: may(users.leave_guilds),
    }
}

pub(super) fn audit_keep_ms(config: &Config) -> Option<u64> {
    let days = u64::from(config.log.audit_keep_days);
    (days > 0).then_some(days * 86_400_000)
}

pub(super) fn v1_limits(config: &Config) -> V1Limits {
    let per_s = config.limits.backend_requests_per_s;
    V1Limits {
        requests_per_s: (per_s > 0).then_some(per_s),
        audit_keep_ms: audit_keep_ms(config),
        keeps_events: config.events.keep == KeepEvents::On,
        private_webhooks: config.events.private_webhooks == PrivateWebhooks::On,
        ..V1Limits::default()
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Value of `codec.streams`.
pub(super) fn streams_name(config: &Config) -> &'static str {
    match config.codec.streams {
        StreamMode::PerConnection => "per-connection",
        StreamMode::SharedMatch => "shared-match",
        StreamMode::Auto => "auto",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use guildhall_settings::{Flag, Loaded, Sources};

    /// Values of which each live setting takes one that is not its default.
    const VALUES: [&str; 10] =
        ["7", "20", "2000", "20000", "70000", "1000000", "100000000", "off", "per-connection", "debug"];

    fn loaded(setting: &str, value: &str) -> Option<Loaded> {
        load(&Sources { flags: vec![Flag::new("--set", setting, value)], ..Sources::default() }).ok()
    }

    /// The state that `take_settings` would leave in a node that was started with the defaults.
    fn applied(config: &Config) -> String {
        let of = |config: &Config| LiveLimits::of(config, "ws://a", None).unwrap();
        let mut started = of(&load(&Sources::default()).unwrap().config).partition;
        started.session_secret = [0; 32];
        let mut limits = of(config);
        started.take_limits(&limits.partition);
        limits.partition = started;
        format!("{limits:?}")
    }

    #[test]
    fn each_live_setting_is_applied() {
        let before = load(&Sources::default()).unwrap();
        for (index, entry) in before.effective.iter().enumerate().filter(|(_, entry)| entry.is_live) {
            let setting = format!("{}.{}", entry.section, entry.key);
            if setting == "log.level" {
                continue; // `LogHandle::set_level`
            }
            let other =
                |value: &&str| loaded(&setting, value).filter(|after| after.effective[index].text != entry.text);
            let after = VALUES.iter().find_map(other).unwrap_or_else(|| panic!("no value for {setting}"));
            assert_ne!(applied(&after.config), applied(&before.config), "{setting}");
        }
    }
}
