use super::*;
use std::net::SocketAddr;

fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    super::load(sources, &[])
}

fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> Sources {
    Sources {
        file: Some((PathBuf::from("guildhall.toml"), file.to_owned())),
        environment: environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        flags: flags.iter().map(|(name, setting, value)| Flag::new(name, setting, *value)).collect(),
        defaults: Vec::new(),
    }
}

fn problems(sources: &Sources) -> Vec<String> {
    match load(sources) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn c1_precedence() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n";
    let env = [("GUILDHALL__SERVER__LISTEN", "127.0.0.1:2"), ("PATH", "/bin"), ("GUILDHALL_CONFIG", "x")];
    let flags = [("--listen", "server.listen", "127.0.0.1:3"), ("--set", "server.listen", "127.0.0.1:4")];
    let check = |sources: Sources, expected: &str, origin: &str| {
        let loaded = load(&sources).unwrap();
        assert_eq!(loaded.config.server.listen, expected.parse::<SocketAddr>().unwrap());
        let entry = loaded.effective.iter().find(|e| e.key == "listen").unwrap();
        assert_eq!(entry.origin.to_string(), origin);
    };
    check(Sources::default(), "127.0.0.1:8080", "default");
    check(sources(file, &[], &[]), "127.0.0.1:1", "guildhall.toml:2");
    check(sources(file, &env, &[]), "127.0.0.1:2", "environment variable GUILDHALL__SERVER__LISTEN");
    check(sources(file, &env, &flags[..1]), "127.0.0.1:3", "command line, --listen");
    check(sources(file, &env, &flags), "127.0.0.1:4", "command line, --set");
}

#[test]
fn c1_a_command_s_own_default_is_the_weakest() {
    let check = |file: &str, expected: &str| {
        let defaults = vec![Flag::new("", "store.dir", "data/demo")];
        let loaded = load(&Sources { defaults, ..sources(file, &[], &[]) }).unwrap();
        assert_eq!(loaded.config.store.dir, Path::new(expected));
    };
    check("", "data/demo");
    check("[store]\ndir = \"elsewhere\"", "elsewhere");
}

#[test]
fn c2_every_unknown_or_bad_value_is_refused_with_its_place() {
    let check_file = |file: &str, expected: &[&str]| assert_eq!(problems(&sources(file, &[], &[])), expected, "{file}");
    check_file("", &[]);
    check_file(
        "[server]\n\nlistn = \"x\"",
        &["guildhall.toml:3: `server.listn` is not a setting; did you mean `server.listen`?"],
    );
    check_file("[servr]\n", &["guildhall.toml:1: [servr] is not a section; did you mean [server]?"]);
    check_file(
        "[database]\n",
        &[
            "guildhall.toml:1: [database] is not a section; there are [server], [tls], [deflate], [limits], [users], [visibility], [directs], [codec], [store], [cluster], [messages], [hook], [events], [interactions], [uploads], [auth], [voice], [log], [canaries], [traces]",
        ],
    );
    check_file("listen = 1", &["guildhall.toml:1: `listen` is not a setting; did you mean `server.listen`?"]);
    check_file(
        "[server]\nlisten = \"here\"",
        &[
            "guildhall.toml:2: server.listen cannot be the string \"here\": expected an address and port, like \"127.0.0.1:8080\", \"localhost:8080\" or \"0.0.0.0:8080\" for all addresses",
        ],
    );
    check_file(
        "[limits]\ninbound_per_minute_max = \"120\"",
        &[
            "guildhall.toml:2: limits.inbound_per_minute_max cannot be the string \"120\": expected a whole number from 10 to 1000000",
        ],
    );
    check_file(
        "[server]\npartitions = 257\nguild_workers = -1",
        &[
            "guildhall.toml:2: server.partitions cannot be 257: expected a whole number from 0 to 256",
            "guildhall.toml:3: server.guild_workers cannot be -1: expected a whole number from 0 to 256",
        ],
    );
    check_file(
        "[log]\nlevel = [1]",
        &[
            "guildhall.toml:2: log.level cannot be a value of type array: expected error, warn, info, debug or trace, also per module: \"info,guildhall_net=debug\"",
        ],
    );
    check_file(
        "[store]\nsynchronous = \"off\"",
        &["guildhall.toml:2: store.synchronous cannot be the string \"off\": expected \"full\" or \"normal\""],
    );
    check_file(
        "[limits]\nrest_trusted_proxies = \"10.0.0.1, proxy\"",
        &[
            "guildhall.toml:2: limits.rest_trusted_proxies cannot be the string \"10.0.0.1, proxy\": expected addresses with commas between them, like \"10.0.0.1, 10.0.0.2\"",
        ],
    );
    let broken = problems(&sources("[server]\nlisten = ", &[], &[]));
    assert!(broken.len() == 1 && broken[0].starts_with("guildhall.toml:2: not TOML: "), "{broken:?}");
}

#[test]
fn c2_environment_and_flags_name_themselves() {
    let check = |name: &str, value: &str, expected: &str| {
        assert_eq!(problems(&sources("", &[(name, value)], &[])), [expected], "{name}");
    };
    check(
        "GUILDHALL__LIMITS__REPLAY_EVENT_MAX",
        "1",
        "environment variable GUILDHALL__LIMITS__REPLAY_EVENT_MAX: `limits.replay_event_max` is not a setting; did you mean `limits.replay_events_max`?",
    );
    check(
        "GUILDHALL__LISTEN",
        "1",
        "environment variable GUILDHALL__LISTEN: `listen` is not a setting; did you mean `server.listen`?",
    );
    check(
        "GUILDHALL__SERVER__PARTITIONS",
        "two",
        "environment variable GUILDHALL__SERVER__PARTITIONS: server.partitions cannot be \"two\": expected a whole number from 0 to 256",
    );
    let flagged = problems(&sources("", &[], &[("--set", "nonsense", "1")]));
    assert_eq!(
        flagged,
        ["command line, --set: `nonsense` is not a setting; `guildhall config default` shows all settings"]
    );
}

#[test]
fn settings_that_contradict_each_other() {
    let secret = "s".repeat(32);
    let both = format!("[auth]\nadmin_key = \"{secret}\"\nadmin_key_file = \"k\"");
    assert_eq!(
        problems(&sources(&both, &[], &[])),
        ["guildhall.toml:3: auth.admin_key_file is set together with auth.admin_key; keep one of them"]
    );
    let backlog = problems(&sources("[limits]\nreplay_bytes_max = 100_000_000\n", &[], &[]));
    assert_eq!(backlog.len(), 1, "{backlog:?}");
    assert!(backlog[0].contains("less than limits.replay_bytes_max (100000000)"), "{backlog:?}");
}

#[test]
fn settings_of_codecs() {
    let negative = [("GUILDHALL__CODEC__ZSTD_LEVEL", "-3"), ("GUILDHALL__CODEC__MEMORY_BYTES_MAX", "68_719_476_736")];
    let loaded = load(&sources("", &negative, &[])).unwrap();
    assert_eq!((loaded.config.codec.zstd_level, loaded.config.codec.memory_bytes_max), (-3, Some(64 << 30)));
    let found =
        problems(&sources("[codec]\nzstd_window_log = 28\nzlib_window_bits = 8\nupgrades = \"on\"\n", &[], &[]));
    assert_eq!(
        found,
        [
            "guildhall.toml:3: codec.zlib_window_bits cannot be 8: expected a whole number from 9 to 15",
            "guildhall.toml:2: codec.zstd_window_log cannot be 28: expected a whole number from 10 to 27",
            "guildhall.toml:4: codec.upgrades cannot be the string \"on\": expected \"auto\" or \"off\"",
        ]
    );
}

#[test]
fn c3_secrets_are_never_shown() {
    let secret = "correct horse battery staple, twice over";
    let good = load(&sources("", &[("GUILDHALL__AUTH__JWT_SECRET", secret)], &[])).unwrap();
    assert_eq!(good.config.auth.jwt_secret.as_ref().unwrap().reveal(), secret);
    for shown in [effective_toml(&good), effective_line(&good), format!("{good:?}")] {
        assert!(!shown.contains("horse"), "{shown}");
        assert!(shown.contains("(hidden)"), "{shown}");
    }
    let good = load(&sources("", &[("GUILDHALL__UPLOADS__S3_SECRET_KEY", "horse")], &[])).unwrap();
    for shown in [effective_toml(&good), changed_line(&good), format!("{good:?}")] {
        assert!(!shown.contains("horse") && shown.contains("(hidden)"), "{shown}");
    }
    let url = "postgres://ana:horse@db.example.net/guildhall";
    let good = load(&sources("", &[("GUILDHALL__STORE__URL", url)], &[])).unwrap();
    for shown in [effective_toml(&good), changed_line(&good), format!("{good:?}")] {
        assert!(!shown.contains("horse"), "{shown}");
        assert!(shown.contains("postgres://ana:(hidden)@db.example.net/guildhall"), "{shown}");
    }
    let short = problems(&sources("", &[("GUILDHALL__AUTH__JWT_SECRET", "hunter2")], &[]));
    assert_eq!(
        short,
        [
            "environment variable GUILDHALL__AUTH__JWT_SECRET: auth.jwt_secret cannot be what is given: expected at least 32 bytes, or \"\" for none"
        ]
    );
}

#[test]
fn values_of_every_type() {
    let file = "[server]\npublic_url = \"wss://gw.example.net/\"\npartitions = 0x4\n[voice]\nendpoint = \"voice.example.net:443\"\n\
                [store]\ndir = \"/tmp/a\"\nsynchronous = \"normal\"\n[log]\nformat = \"json\"\nlevel = \"warn,guildhall_net=debug\"\n\
                [auth]\njwt_secret = \"\"\n";
    let config = load(&sources(file, &[("GUILDHALL__LIMITS__REPLAY_BYTES_MAX", "2_000_000")], &[])).unwrap().config;
    assert_eq!(config.server.public_url.unwrap().as_str(), "wss://gw.example.net");
    assert_eq!(config.server.partitions, 4);
    assert_eq!(config.voice.endpoint.unwrap().as_str(), "voice.example.net:443");
    assert_eq!(config.store.dir, PathBuf::from("/tmp/a"));
    assert_eq!(config.store.synchronous, Synchronous::Normal);
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level.targets().to_string(), "guildhall_net=debug,warn");
    assert_eq!(config.limits.replay_bytes_max, 2_000_000);
    assert!(config.auth.jwt_secret.is_none());
    let bad = |setting: &str, value: &str| {
        assert_eq!(problems(&sources("", &[], &[("--set", setting, value)])).len(), 1, "{setting}={value}");
    };
    bad("server.public_url", "http://gw.example.net");
    bad("server.public_url", "wss://gw.example.net/?v=10");
    bad("server.public_url", "wss://:80");
    bad("voice.endpoint", "wss://voice:443");
    bad("voice.endpoint", "voice:0");
    bad("log.level", "loud");
    bad("log.level", "guildhall=");
    bad("store.dir", "");
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let documented = default_toml();
    assert_eq!(problems(&sources(&documented, &[], &[])), [""; 0]);
    // Every commented setting, taken in, changes nothing.
    let uncommented: String = documented
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting) if setting.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => setting,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n");
    let (read, default) = (load(&sources(&uncommented, &[], &[])).unwrap(), load(&Sources::default()).unwrap());
    assert_eq!(effective_line(&read), effective_line(&default));
    let set = read.effective.iter().filter(|e| matches!(e.origin, Origin::File(..))).count();
    assert_eq!(set, read.effective.len(), "every setting is documented");
}

#[test]
fn the_effective_configuration_reads_back() {
    let loaded = load(&sources("[server]\npartitions = 3\n", &[], &[])).unwrap();
    let printed = effective_toml(&loaded);
    assert!(printed.contains("partitions = 3  # guildhall.toml:2\n"), "{printed}");
    assert_eq!(effective_line(&load(&sources(&printed, &[], &[])).unwrap()), effective_line(&loaded));
}

#[test]
fn which_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    std::fs::write(&path, "[server]\n").unwrap();
    let name = path.to_str().unwrap().to_owned();
    let named =
        |environment: &[(String, String)], flag: Option<&Path>| read_file(flag, environment).map(|f| f.map(|f| f.0));
    assert_eq!(named(&[(FILE_VARIABLE.to_owned(), name)], None).unwrap(), Some(path.clone()));
    assert_eq!(named(&[], Some(&path)).unwrap(), Some(path));
    assert_eq!(named(&[], None).unwrap(), None, "no default file in the crate's folder");
    let missing = dir.path().join("missing.toml");
    assert!(matches!(named(&[], Some(&missing)), Err(ConfigError::Unreadable { path, .. }) if path == missing));
}

const SETTINGS_BEGIN: &str = "<!-- settings:";
const SETTINGS_END: &str = "<!-- end of settings -->";

/// The settings as tables in Markdown.
fn settings_markdown() -> String {
    let text = |lines: &[&str]| lines.concat().trim().replace('|', "\\|");
    let mut out = String::new();
    let defaults = load(&Sources::default()).unwrap().effective;
    let mut defaults = defaults.iter();
    for section in super::settings::SECTIONS {
        let (name, about) = (section.name, text(section.doc));
        out += &format!(
            "\n### `[{name}]`\n\n{about}\n\n| setting | default | takes | SIGHUP | |\n|---|---|---|---|---|\n"
        );
        for key in section.keys {
            let default = (key.default)().map_or_else(|| "not set".to_owned(), |default| format!("`{default}`"));
            let is_live = defaults.next().is_some_and(|entry| entry.is_live);
            let (expected, live) = ((key.expected)().replace('|', "\\|"), if is_live { "yes" } else { "" });
            out += &format!("| `{}` | {default} | {expected} | {live} | {} |\n", key.name, text(key.doc));
        }
    }
    out + "\n"
}

/// `GUILDHALL_UPDATE_DOCS=1` updates the page.
#[test]
fn the_reference_lists_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/reference.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(SETTINGS_BEGIN).expect("the mark before the settings");
    let begin = begin + text[begin..].find('\n').unwrap() + 1;
    let end = text.find(SETTINGS_END).expect("the mark after the settings");
    let expected = format!("{}{}{}", &text[..begin], settings_markdown(), &text[end..]);
    if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        let hint = "GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-settings --lib the_reference_lists_every_setting";
        assert!(text == expected, "docs/operations/reference.md has not the settings as they are: {hint}");
    }
}

#[test]
fn a_bucket_needs_a_key() {
    let found = problems(&sources("[uploads]\nurl = \"s3://files\"", &[], &[]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("uploads.s3_access_key is needed with uploads.url"), "{found:?}");
    let text =
        "[uploads]\nurl = \"s3://files\"\ns3_access_key = \"a\"\ns3_secret_key = \"b\"\ns3_secret_key_file = \"c\"";
    let found = problems(&sources(text, &[], &[]));
    assert!(found.len() == 1 && found[0].contains("keep one of them"), "{found:?}");
    let found = problems(&sources("[uploads]\ns3_endpoint = \"http://s3.example.net\"", &[], &[]));
    assert!(found.len() == 1 && found[0].contains("uploads.s3_endpoint"), "{found:?}");
}
