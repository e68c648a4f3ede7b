//! Files: the bucket of a configuration.

use crate::start_error::StartError;
use guildhall_files::{Bucket, BucketOptions};
use guildhall_http_client::trust;
use guildhall_media::SETTLED_AFTER;
use guildhall_settings::{BucketKey, UploadsConfig};
use std::{fs, io, time::Duration};

/// As long as a slow link takes for a part of 5 MiB.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const REGION: &str = "us-east-1";

/// The bucket of `uploads.url`; none if files are in the folder. Connects to nothing.
///
/// # Errors
/// `SecretFile` and `Bucket`.
pub fn bucket(config: &UploadsConfig) -> Result<Option<Bucket>, StartError> {
    let Some(url) = &config.url else { return Ok(None) };
    let secret_key = match (&config.s3_secret_key, &config.s3_secret_key_file) {
        (Some(key), _) => key.clone(),
        (None, Some(path)) => {
            let unreadable =
                |source| StartError::SecretFile { setting: "uploads.s3_secret_key_file", path: path.clone(), source };
            let text = fs::read_to_string(path).map_err(unreadable)?;
            let key = BucketKey::new(text.trim());
            key.ok_or_else(|| unreadable(io::Error::other("it is no secret of an access key")))?
        }
        // `config::load` refuses it.
        (None, None) => return Ok(None),
    };
    let is_https = config.s3_endpoint.as_ref().is_none_or(|endpoint| endpoint.is_https());
    let tls = is_https.then(|| trust(config.s3_ca_file.as_deref())).transpose();
    let text = |text: &Option<guildhall_settings::Text>| text.as_ref().map(|text| text.as_str().to_owned());
    let options = BucketOptions {
        bucket: url.bucket().to_owned(),
        prefix: url.prefix().to_owned(),
        endpoint: config.s3_endpoint.as_ref().map(|endpoint| endpoint.base()),
        region: text(&config.s3_region).unwrap_or_else(|| REGION.to_owned()),
        access_key: text(&config.s3_access_key).unwrap_or_default(),
        secret_key: secret_key.reveal().to_owned(),
        tls: tls.map_err(|error| StartError::Bucket(error.into()))?,
        settled_after: SETTLED_AFTER,
        answer_within: ANSWER_WITHIN,
    };
    Bucket::new(options).map(Some).map_err(|error| StartError::Bucket(error.into()))
}
