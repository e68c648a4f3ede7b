//! Reload: SIGHUP reads the configuration again. Live settings take effect, and the log names those that
//! need a restart.
//!
//! Owns        the difference of two configurations (`changes`).
//! Invariants  L1 a faulty configuration changes nothing. L2 every changed setting is logged once per SIGHUP, with
//!             whether it is in force. L3 secrets are not logged, only that they changed. (tests `l2_*`, `l3_*`)
//! Not here    the list of live settings: the mark `live` in `settings`. Applying them:
//!             `RunningNode::take_settings`, `LogHandle::set_level`.

use crate::{Effective, Loaded};

/// Shown for both values if they differ in a secret only.
const HIDDEN: &str = "(hidden)";

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

/// Settings that differ between two configurations.
#[must_use]
pub fn changes(in_force: &Loaded, read: &Loaded) -> Vec<Change> {
    let differences = in_force.config.differences(&read.config);
    let pairs = in_force.effective.iter().zip(&read.effective);
    let differing = pairs.zip(differences).filter_map(|(pair, differs)| differs.then_some(pair));
    let change = |(old, new): (&Effective, &Effective)| {
        let shown = |entry: &Effective| match &entry.text {
            _ if old.text == new.text => HIDDEN.to_owned(),
            Some(text) => text.clone(),
            None => "not set".to_owned(),
        };
        let setting = format!("{}.{}", old.section, old.key);
        Change { setting, from: shown(old), to: shown(new), is_live: old.is_live }
    };
    differing.map(change).collect()
}

/// The configuration in force after the live settings of `read` were applied; the next reload is compared with it.
#[must_use]
pub fn merged(in_force: &Loaded, read: &Loaded) -> Loaded {
    let mut config = in_force.config.clone();
    config.take_live(&read.config);
    let pairs = in_force.effective.iter().zip(&read.effective);
    let effective = pairs.map(|(old, new)| if old.is_live { new.clone() } else { old.clone() }).collect();
    Loaded { config, effective }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Flag, Sources, load};

    fn loaded(settings: &[(&str, &str)]) -> Loaded {
        let flags = settings.iter().map(|(setting, value)| Flag::new("--set", setting, *value)).collect();
        load(&Sources { flags, ..Sources::default() }, &[]).unwrap()
    }

    #[test]
    fn l2_a_changed_setting_is_reported_until_it_is_in_force() {
        let before = loaded(&[]);
        let after = loaded(&[
            ("limits.inbound_per_minute_max", "60"),
            ("server.partitions", "3"),
            ("limits.rest_rate_percent", "7"),
            ("limits.temporary_away_ms", "7"),
        ]);
        let reported = |changes: &[Change]| -> Vec<(String, bool)> {
            changes.iter().map(|change| (change.setting.clone(), change.is_live)).collect()
        };
        let restart = ["server.partitions", "limits.temporary_away_ms", "limits.rest_rate_percent"];
        let restart = restart.map(|setting| (setting.to_owned(), false));
        let live = ("limits.inbound_per_minute_max".to_owned(), true);
        let [partitions, away, rate] = restart.clone();
        assert_eq!(reported(&changes(&before, &after)), [partitions, live, away, rate]);
        let merged = merged(&before, &after);
        assert_eq!(merged.config.limits.inbound_per_minute_max, 60);
        assert_eq!((merged.config.server.partitions, merged.config.limits.rest_rate_percent), (0, 100));
        let away_ms = |loaded: &Loaded| loaded.config.limits.temporary_away_ms;
        assert_eq!(away_ms(&merged), away_ms(&before), "a neighbour of live settings that is not live");
        assert_eq!(reported(&changes(&merged, &after)), restart, "a setting that needs a restart is logged again");
    }

    #[test]
    fn l3_a_changed_secret_is_reported_without_its_value() {
        let key = |c: &str| c.repeat(40);
        let secrets = [
            ("auth.jwt_secret", key("a"), key("b")),
            ("auth.admin_key", key("a"), key("b")),
            ("voice.token_key", key("a"), key("b")),
            ("hook.secret", key("a"), key("b")),
            ("store.url", "postgres://ana:hunter1@db/x".to_owned(), "postgres://ana:hunter2@db/x".to_owned()),
            ("cluster.nats_url", "nats://ana:hunter1@db".to_owned(), "nats://ana:hunter2@db".to_owned()),
            ("uploads.s3_secret_key", "hunter1".to_owned(), "hunter2".to_owned()),
            ("traces.headers", "authorization=hunter1".to_owned(), "authorization=hunter2".to_owned()),
        ];
        for (setting, old, new) in &secrets {
            let [before, after] = [old, new].map(|value| loaded(&[(setting, value)]));
            let [change] = &changes(&before, &after)[..] else { panic!("{setting}: {:?}", changes(&before, &after)) };
            assert_eq!((change.setting.as_str(), change.is_live), (*setting, false));
            assert_eq!((change.from.as_str(), change.to.as_str()), (HIDDEN, HIDDEN), "{setting}");
            assert!(changes(&before, &before).is_empty(), "{setting}");
        }
        let mut names = secrets.map(|(setting, ..)| setting);
        let mut all = Config::secrets();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(all, names, "each setting with a secret is tried");
    }

    #[test]
    fn l3_a_password_is_not_shown_beside_a_host_that_differs() {
        let url = |password: &str, host: &str| {
            loaded(&[("store.url", &format!("postgres://ana:{password}@{host}/guildhall"))])
        };
        let reported = changes(&url("hunter1", "db"), &url("hunter2", "other"));
        assert_eq!(reported.len(), 1);
        assert_eq!(reported[0].to, "\"postgres://ana:(hidden)@other/guildhall\"");
        let reported = changes(&loaded(&[]), &url("hunter1", "db"));
        assert_eq!((reported.len(), reported[0].from.as_str()), (1, "not set"));
    }
}
