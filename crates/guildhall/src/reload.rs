//! Reload: SIGHUP reads the configuration again. Live settings take effect, and the log names those that
//! need a restart.
//!
//! Owns        the list of live settings (`LIVE`), and the difference of two configurations (`changes`).
//! Invariants  L1 a faulty configuration changes nothing. L2 every changed setting is logged once per SIGHUP, with
//!             whether it is in force. L3 secrets are not logged, only that they changed. (tests `l2_*`, `l3_*`)
//! Not here    applying the settings: `RunningNode::take_settings`, `LogHandle::set_level`.

use crate::config::{Config, Effective, Loaded, Origin, Secret, StoreUrl};
use guildhall_accounting::report::Setting;

/// Settings that hold from the moment of the reload; all others need a restart.
pub const LIVE: &[(&str, &str)] = &[
    ("server", "connections_max"),
    ("server", "drain_notice_ms"),
    ("server", "drain_timeout_ms"),
    ("limits", "identify_deadline_ms"),
    ("limits", "identify_concurrency"),
    ("limits", "identify_interval_ms"),
    ("limits", "identifies_per_second_max"),
    ("limits", "handshakes_max"),
    ("limits", "address_rest_connections_max"),
    ("limits", "address_connections_max"),
    ("limits", "address_handshakes_per_minute"),
    ("limits", "bot_identifies_per_day"),
    ("limits", "user_sessions_max"),
    ("limits", "guilds_per_shard_max"),
    ("limits", "inbound_per_minute_max"),
    ("limits", "bot_message_bytes_max"),
    ("limits", "user_message_bytes_max"),
    ("limits", "session_resume_ms"),
    ("limits", "replay_events_max"),
    ("limits", "replay_bytes_max"),
    ("limits", "backlog_events_max"),
    ("limits", "backlog_bytes_max"),
    ("limits", "shared_log_events_max"),
    ("limits", "shared_log_bytes_max"),
    ("limits", "ready_bytes_in_flight_max"),
    ("limits", "sessions_per_relay_max"),
    ("limits", "passive_above_members"),
    ("limits", "write_stall_ms"),
    ("auth", "expire_sessions"),
    ("codec", "streams"),
    ("codec", "shared_check_one_in"),
    ("store", "free_bytes_min"),
    ("messages", "keep_days"),
    ("log", "level"),
];

/// A setting whose value differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `section.key`.
    pub setting: String,
    /// Value in force, as TOML.
    pub from: String,
    /// Value in the new configuration, as TOML.
    pub to: String,
    /// Whether the setting takes effect without a restart.
    pub is_live: bool,
}

fn is_live(entry: &Effective) -> bool {
    LIVE.contains(&(entry.section, entry.key))
}

/// Every setting with its value, its source, and whether a reload applies it. No secrets (C3).
#[must_use]
pub fn settings(loaded: &Loaded) -> Vec<Setting> {
    let setting = |entry: &Effective| Setting {
        name: format!("{}.{}", entry.section, entry.key),
        value: entry.text.clone().unwrap_or_default(),
        origin: match &entry.origin {
            Origin::Default => "default".to_owned(),
            origin => origin.to_string(),
        },
        is_live: is_live(entry),
    };
    loaded.effective.iter().map(setting).collect()
}

/// Settings with secrets, which are not shown.
fn secrets(config: &Config) -> [(&'static str, Option<&str>); 3] {
    [
        ("auth.jwt_secret", config.auth.jwt_secret.as_ref().map(Secret::reveal)),
        ("auth.admin_key", config.auth.admin_key.as_ref().map(Secret::reveal)),
        ("store.url", config.store.url.as_ref().map(StoreUrl::reveal)),
    ]
}

/// Settings that differ between two configurations.
#[must_use]
pub fn changes(in_force: &Loaded, read: &Loaded) -> Vec<Change> {
    let shown = |entry: &Effective| entry.text.clone().unwrap_or_else(|| "not set".to_owned());
    let mut changes: Vec<Change> = Vec::new();
    for (old, new) in in_force.effective.iter().zip(&read.effective) {
        if old.text != new.text {
            let setting = format!("{}.{}", old.section, old.key);
            changes.push(Change { setting, from: shown(old), to: shown(new), is_live: is_live(old) });
        }
    }
    // All secrets are shown the same.
    for (old, new) in secrets(&in_force.config).into_iter().zip(secrets(&read.config)) {
        let (name, is_told) = (old.0, changes.iter().any(|change| change.setting == old.0));
        if old.1.is_some() && new.1.is_some() && old.1 != new.1 && !is_told {
            let hidden = || "(hidden)".to_owned();
            changes.push(Change { setting: name.to_owned(), from: hidden(), to: hidden(), is_live: false });
        }
    }
    changes
}

/// The configuration in force after the live settings of `read` were applied; the next reload is compared with it.
#[must_use]
pub fn merged(in_force: &Loaded, read: &Loaded) -> Loaded {
    let (old, new) = (&in_force.config, &read.config);
    let mut config = old.clone();
    config.server.connections_max = new.server.connections_max;
    config.server.drain_notice_ms = new.server.drain_notice_ms;
    config.server.drain_timeout_ms = new.server.drain_timeout_ms;
    config.limits = new.limits.clone();
    config.limits.passive_update_interval_ms = old.limits.passive_update_interval_ms;
    config.limits.rest_trusted_proxies = old.limits.rest_trusted_proxies.clone();
    config.limits.rest_rate_percent = old.limits.rest_rate_percent;
    config.auth.expire_sessions = new.auth.expire_sessions;
    config.codec.streams = new.codec.streams;
    config.codec.shared_check_one_in = new.codec.shared_check_one_in;
    config.store.free_bytes_min = new.store.free_bytes_min;
    config.messages.keep_days = new.messages.keep_days;
    config.log.level = new.log.level.clone();
    let pairs = in_force.effective.iter().zip(&read.effective);
    let effective = pairs.map(|(old, new)| if is_live(old) { new.clone() } else { old.clone() }).collect();
    Loaded { config, effective }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, Sources, load};

    fn loaded(settings: &[(&str, &str)]) -> Loaded {
        let flags = settings.iter().map(|(setting, value)| Flag::new("--set", setting, *value)).collect();
        load(&Sources { flags, ..Sources::default() }).unwrap()
    }

    #[test]
    fn every_live_setting_exists() {
        let all = loaded(&[]).effective;
        for (section, key) in LIVE {
            assert!(all.iter().any(|entry| (entry.section, entry.key) == (*section, *key)), "{section}.{key}");
        }
    }

    #[test]
    fn l2_what_differs_is_told_until_it_holds() {
        let before = loaded(&[]);
        let after = loaded(&[
            ("limits.inbound_per_minute_max", "60"),
            ("server.partitions", "3"),
            ("limits.rest_rate_percent", "7"),
        ]);
        let told = |changes: &[Change]| -> Vec<(String, bool)> {
            changes.iter().map(|change| (change.setting.clone(), change.is_live)).collect()
        };
        let restart = [("server.partitions".to_owned(), false), ("limits.rest_rate_percent".to_owned(), false)];
        let live = ("limits.inbound_per_minute_max".to_owned(), true);
        assert_eq!(told(&changes(&before, &after)), [restart[0].clone(), live, restart[1].clone()]);
        let merged = merged(&before, &after);
        assert_eq!(merged.config.limits.inbound_per_minute_max, 60);
        assert_eq!((merged.config.server.partitions, merged.config.limits.rest_rate_percent), (0, 100));
        assert_eq!(told(&changes(&merged, &after)), restart, "a setting that needs a restart is logged again");
    }

    #[test]
    fn l3_a_secret_that_differs_is_told_and_not_shown() {
        let secret = |c: &str| loaded(&[("auth.jwt_secret", &c.repeat(40))]);
        let told = changes(&secret("a"), &secret("b"));
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].setting.as_str(), told[0].to.as_str()), ("auth.jwt_secret", "(hidden)"));
        assert!(changes(&secret("a"), &secret("a")).is_empty());
        let url = |password: &str, host: &str| {
            loaded(&[("store.url", &format!("postgres://ana:{password}@{host}/guildhall"))])
        };
        for (new, shown) in [
            (url("hunter2", "db"), "(hidden)"),
            (url("hunter2", "other"), "\"postgres://ana:(hidden)@other/guildhall\""),
        ] {
            let told = changes(&url("hunter1", "db"), &new);
            assert_eq!(told.len(), 1);
            assert_eq!((told[0].setting.as_str(), told[0].to.as_str()), ("store.url", shown));
        }
    }
}
