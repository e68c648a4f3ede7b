//! Secrets: read from the configuration or a file, or made of the system's random bytes.

use crate::start_error::StartError;
use guildhall_node::VoiceKey;
use guildhall_settings::{Secret, VoiceConfig};
use std::path::PathBuf;

/// A secret of the configuration, or of the file it names.
///
/// # Errors
/// `SecretFile`, `SecretTooShort`.
pub fn secret(
    setting: &'static str,
    given: &Option<Secret>,
    file: &Option<PathBuf>,
) -> Result<Option<Secret>, StartError> {
    match (given, file) {
        (Some(secret), _) => Ok(Some(secret.clone())),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).map_err(|source| StartError::SecretFile {
                setting,
                path: path.clone(),
                source,
            })?;
            let secret = Secret::new(text.trim());
            secret.map(Some).ok_or_else(|| StartError::SecretTooShort { setting, path: path.clone() })
        }
    }
}

/// The key that the media server shares, if one is set.
///
/// # Errors
/// `SecretFile`, `SecretTooShort`.
pub fn voice_key(config: &VoiceConfig) -> Result<Option<VoiceKey>, StartError> {
    let key = secret("voice.token_key_file", &config.token_key, &config.token_key_file)?;
    Ok(key.map(|key| VoiceKey::new(config.token_key_id.as_str(), key.reveal().as_bytes(), config.token_s)))
}

/// Random bytes of the system.
///
/// # Errors
/// `Randomness`.
pub fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| StartError::Randomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(dir.path().join(name));
        let long = "k".repeat(40);
        std::fs::write(dir.path().join("long"), format!(" {long}\n")).unwrap();
        std::fs::write(dir.path().join("short"), "k").unwrap();
        assert_eq!(secret("s", &None, &None).unwrap(), None);
        assert_eq!(secret("s", &None, &path("long")).unwrap().unwrap().reveal(), long);
        assert!(matches!(secret("s", &None, &path("short")), Err(StartError::SecretTooShort { .. })));
        assert!(matches!(secret("s", &None, &path("none")), Err(StartError::SecretFile { .. })));
    }
}
