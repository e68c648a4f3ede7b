//! External ids: how a backend calls accounts, guilds and channels.
//!
//! Owns        the form of external ids, `ext:…` in paths, and the uniqueness of each.
//! Doors       `Path` (`extract`) for the pieces of a path, `put_with` around a PUT or PATCH, `claim_all` for a batch
//!             of an import, `texts` for answers.
//! Invariants  X1 no two objects of a kind have the same: the store has one object for each. An external id is claimed
//!             before its object is put and released when the object is refused, so that a crash in between leaves an
//!             entry without an object: a repetition finds it, and others may take it. While an object is put, its
//!             external id is reserved in the cluster. X2 clients never see one: the model's
//!             objects do not have them.
//! Limits      `is_external_id` for the form; one lookup for each piece of a path.
//! Spec        docs/backend-api.md "External ids".

use super::{
    V1,
    error::V1Error,
    extract::{FieldErrors, Path},
    types::AnyId,
};
use guildhall_guild::{Actor, Refusal, request};
use guildhall_model::Id;
use guildhall_node::external_id_name;
use guildhall_store::{EXTERNAL_IDS_MAX, ExternalId, ExternalKind, StoreError, is_external_id};
use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};
use tokio::sync::{Mutex, MutexGuard};

/// Before an external id in a path.
pub(crate) const PREFIX: &str = "ext:";
const LOCKS: usize = 64;
const FORM: &str = "Must have 1 to 128 printable ASCII characters, without spaces.";

/// Reservations while external ids change owners, by external id.
pub(crate) struct ExternalLocks([Mutex<()>; LOCKS]);

impl ExternalLocks {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    /// In ascending order, which excludes deadlocks.
    async fn lock(&self, kind: ExternalKind, texts: impl Iterator<Item = &str>) -> Vec<MutexGuard<'_, ()>> {
        let place = |text: &str| {
            let mut hasher = DefaultHasher::new();
            (kind, text).hash(&mut hasher);
            hasher.finish() as usize % LOCKS
        };
        let places: BTreeSet<usize> = texts.map(place).collect();
        let mut held = Vec::with_capacity(places.len());
        for place in places {
            held.push(self.0[place].lock().await);
        }
        held
    }
}

pub(crate) fn check(field: &str, text: Option<&str>, faults: &mut FieldErrors) {
    if text.is_some_and(|text| !is_external_id(text)) {
        faults.add(field, FORM);
    }
}

/// Which kind a variable piece of a path names; none if such objects have no external ids.
pub(crate) fn kind_of(name: &str) -> Option<ExternalKind> {
    match name {
        "user_id" => Some(ExternalKind::User),
        "guild_id" => Some(ExternalKind::Guild),
        "channel_id" => Some(ExternalKind::Channel),
        _ => None,
    }
}

fn name_of(kind: ExternalKind) -> &'static str {
    match kind {
        ExternalKind::User => "user",
        ExternalKind::Guild => "guild",
        ExternalKind::Channel => "channel",
    }
}

/// No object has this external id.
pub(crate) fn unknown(kind: ExternalKind, text: &str) -> V1Error {
    V1Error::not_found(&format!(
        "{} with the external id {text:?}: PUT it under this path, or give the external id to one that exists with PATCH",
        name_of(kind)
    ))
}

/// A piece of a path behind `ext:`, looked up.
pub(crate) async fn resolve(v1: &V1, name: &str, text: &str) -> Result<Option<u64>, V1Error> {
    match kind_of(name) {
        Some(kind) if is_external_id(text) => id_of(v1, kind, text).await,
        Some(_) => Err(V1Error::field(name, format!("After `ext:`: {FORM} Others are percent-encoded."))),
        None => Err(V1Error::field(name, "Must be a snowflake: roles, keys and jobs have no external ids.")),
    }
}

pub(crate) async fn id_of(v1: &V1, kind: ExternalKind, text: &str) -> Result<Option<u64>, V1Error> {
    let texts = [text.to_owned()];
    let found = v1.in_time(v1.node.store().with_external_ids(kind, &texts)).await??;
    Ok(found.first().map(|found| found.id))
}

/// The external ids of these objects.
pub(crate) async fn texts(
    v1: &V1,
    kind: ExternalKind,
    ids: impl Iterator<Item = u64>,
) -> Result<HashMap<u64, String>, V1Error> {
    let ids: Vec<u64> = ids.collect();
    let mut all = HashMap::new();
    for ids in ids.chunks(EXTERNAL_IDS_MAX) {
        let found = v1.in_time(v1.node.store().external_ids(kind, ids)).await??;
        all.extend(found.into_iter().map(|ExternalId { id, text }| (id, text)));
    }
    Ok(all)
}

pub(crate) async fn text(v1: &V1, kind: ExternalKind, id: u64) -> Result<Option<String>, V1Error> {
    Ok(texts(v1, kind, [id].into_iter()).await?.remove(&id))
}

async fn exists(v1: &V1, kind: ExternalKind, id: u64) -> Result<bool, V1Error> {
    Ok(match kind {
        ExternalKind::User => v1.in_time(v1.node.user(Id::new(id))).await??.is_some(),
        ExternalKind::Channel => v1.in_time(v1.node.guild_of_channel(Id::new(id))).await??.is_some(),
        ExternalKind::Guild => {
            match v1.in_time(v1.node.command(Id::new(id), Actor::System, request::ReadGuild)).await? {
                Ok(_) => true,
                Err(Refusal::UnknownGuild) => false,
                Err(refusal) => return Err(refusal.into()),
            }
        }
    })
}

async fn store(v1: &V1, kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<(), V1Error> {
    match v1.in_time(v1.node.store().put_external_ids(kind, of)).await? {
        Err(StoreError::Taken { .. }) => Err(Refusal::Changed.into()),
        done => Ok(done?),
    }
}

/// Takes its external id from an object.
pub(crate) async fn release(v1: &V1, kind: ExternalKind, id: u64) -> Result<(), V1Error> {
    store(v1, kind, &[(id, None)]).await
}

/// Refuses an external id that belongs to an object that exists.
async fn need_free(v1: &V1, kind: ExternalKind, owner: u64, text: &str) -> Result<(), V1Error> {
    if !exists(v1, kind, owner).await? {
        return Ok(());
    }
    let name = name_of(kind);
    Err(V1Error::conflict(format!(
        "The external id {text:?} belongs to the {name} {owner}: take it from that {name} first (PATCH external_id to null), \
         or choose another."
    )))
}

/// Runs `put`, which puts the object, with this external id from then on (`Some(None)`: without; none: as it was). If
/// `put` is refused, the external id is as before. Returns it with what `put` returned.
pub(crate) async fn put_with<T>(
    v1: &V1,
    kind: ExternalKind,
    id: u64,
    wanted: Option<Option<String>>,
    put: impl Future<Output = Result<T, V1Error>>,
) -> Result<(T, Option<String>), V1Error> {
    let Some(wanted) = wanted else {
        let done = put.await?;
        return Ok((done, text(v1, kind, id).await?));
    };
    let _held = v1.external_locks.lock(kind, wanted.as_deref().into_iter()).await;
    let Some(name) = &wanted else { return put_claimed(v1, kind, id, wanted, put).await };
    let reserved = v1.in_time(v1.node.reserve(&external_id_name(kind, name))).await??;
    let done = put_claimed(v1, kind, id, wanted, put).await;
    reserved.release().await;
    done
}

/// Puts an object with an external id that the caller has reserved.
async fn put_claimed<T>(
    v1: &V1,
    kind: ExternalKind,
    id: u64,
    wanted: Option<String>,
    put: impl Future<Output = Result<T, V1Error>>,
) -> Result<(T, Option<String>), V1Error> {
    let before = text(v1, kind, id).await?;
    if before == wanted {
        return Ok((put.await?, wanted));
    }
    if let Some(wanted) = &wanted
        && let Some(owner) = id_of(v1, kind, wanted).await?
    {
        need_free(v1, kind, owner, wanted).await?;
        store(v1, kind, &[(owner, None)]).await?;
    }
    store(v1, kind, &[(id, wanted.clone())]).await?;
    match put.await {
        Ok(done) => {
            // Another request may have taken it from an object that did not exist yet.
            if let Some(text) = &wanted
                && id_of(v1, kind, text).await? != Some(id)
            {
                return Err(Refusal::Changed.into());
            }
            Ok((done, wanted))
        }
        Err(error) => {
            // An `unavailable` object may have been put: a repetition finds the same external id.
            if error.code != "unavailable" {
                store(v1, kind, &[(id, before)]).await?;
            }
            Err(error)
        }
    }
}

/// Object of a PUT: the one under the id or external id of the path, or a new one.
pub(crate) struct Target<T> {
    pub id: Id<T>,
    /// The external id in the path, if no object has it yet.
    new: Option<String>,
}

impl<T> Target<T> {
    pub async fn of(v1: &V1, path: &Path, name: &str) -> Result<Self, V1Error> {
        match path.new_external_id(name) {
            Some(text) => Ok(Self { id: v1.node.next_id().await?, new: Some(text.to_owned()) }),
            None => Ok(Self { id: path.id(name)?, new: None }),
        }
    }

    /// The external id it has afterwards, as `put_with` takes it.
    pub fn wanted(self, of_body: Option<Option<String>>) -> Result<Option<Option<String>>, V1Error> {
        match (self.new, of_body) {
            (None, of_body) => Ok(of_body),
            (Some(new), None) => Ok(Some(Some(new))),
            (Some(new), Some(of_body)) if of_body.as_ref() == Some(&new) => Ok(Some(Some(new))),
            (Some(_), Some(_)) => Err(V1Error::field(
                "external_id",
                "Must be left out, or be the one in the path: no object has that one yet.",
            )),
        }
    }
}

/// The ids of objects that a body names.
pub(crate) async fn ids_of<T>(
    v1: &V1,
    kind: ExternalKind,
    field: impl Fn(usize) -> String,
    named: &[AnyId],
) -> Result<Vec<Id<T>>, V1Error> {
    let ids = named.iter().filter_map(|named| match named {
        AnyId::External(text) => Some(text.clone()),
        AnyId::Id(_) => None,
    });
    let ids: Vec<String> = ids.collect();
    let mut known: HashMap<String, u64> = HashMap::new();
    for ids in ids.chunks(EXTERNAL_IDS_MAX) {
        let found = v1.in_time(v1.node.store().with_external_ids(kind, ids)).await??;
        known.extend(found.into_iter().map(|ExternalId { id, text }| (text, id)));
    }
    let mut faults = FieldErrors::default();
    let id = |(index, named): (usize, &AnyId)| match named {
        AnyId::Id(id) => id.id(),
        AnyId::External(text) => Id::new(known.get(text).copied().unwrap_or_else(|| {
            faults.add(field(index), format!("No {} has this external id: put it first.", name_of(kind)));
            0
        })),
    };
    let ids = named.iter().enumerate().map(id).collect();
    faults.done()?;
    Ok(ids)
}

/// The ids of objects that lines name; none for an unknown external id.
pub(crate) async fn known_ids(v1: &V1, kind: ExternalKind, named: &[AnyId]) -> Result<Vec<Option<u64>>, V1Error> {
    let texts =
        named.iter().filter_map(|named| if let AnyId::External(text) = named { Some(text.clone()) } else { None });
    let texts: Vec<String> = texts.collect();
    let mut known: HashMap<String, u64> = HashMap::new();
    for texts in texts.chunks(EXTERNAL_IDS_MAX) {
        let found = v1.in_time(v1.node.store().with_external_ids(kind, texts)).await??;
        known.extend(found.into_iter().map(|ExternalId { id, text }| (text, id)));
    }
    let id = |named: &AnyId| match named {
        AnyId::Id(id) => Some(id.0),
        AnyId::External(text) => known.get(text).copied(),
    };
    Ok(named.iter().map(id).collect())
}

/// The same of one.
pub(crate) async fn id_in<T>(v1: &V1, kind: ExternalKind, field: &str, named: &AnyId) -> Result<Id<T>, V1Error> {
    let ids = ids_of(v1, kind, |_| field.to_owned(), std::slice::from_ref(named)).await?;
    ids.into_iter().next().ok_or_else(|| V1Error::bug("an id"))
}

/// An object of a batch: its id if the caller knows it, and its external id.
#[derive(Debug)]
pub(crate) struct Named {
    pub id: Option<u64>,
    pub text: Option<String>,
}

/// Finds the id of each, makes new ones where there is none, and gives them their external ids. An object whose
/// external id belongs to another gets an error; the others go on. `dry_run`: nothing is made or given, and a new
/// object has no id.
pub(crate) async fn claim_all(
    v1: &V1,
    kind: ExternalKind,
    named: &[Named],
    dry_run: bool,
) -> Result<Vec<Result<Option<u64>, V1Error>>, V1Error> {
    let wanted = || named.iter().filter_map(|named| named.text.as_deref());
    if wanted().next().is_none() {
        return Ok(named.iter().map(|named| Ok(named.id)).collect());
    }
    let _held = v1.external_locks.lock(kind, wanted()).await;
    let ids: Vec<String> = wanted().map(ToOwned::to_owned).collect();
    let found = v1.in_time(v1.node.store().with_external_ids(kind, &ids)).await??;
    let mut owners: HashMap<String, u64> = found.into_iter().map(|ExternalId { id, text }| (text, id)).collect();
    let mut claims: HashMap<u64, String> = HashMap::new();
    let mut ids = Vec::with_capacity(named.len());
    for Named { id, text } in named {
        let Some(text) = text else {
            ids.push(Ok(*id));
            continue;
        };
        let claimed = match (*id, owners.get(text).copied()) {
            (None, Some(owner)) => Ok(owner),
            (Some(id), Some(owner)) if owner == id => Ok(id),
            (None, None) if dry_run => {
                ids.push(Ok(None));
                continue;
            }
            (None, None) => {
                let id: Id<()> = v1.node.next_id().await?;
                Ok(id.get())
            }
            (Some(id), None) => Ok(id),
            // Another node puts the object that has it.
            (Some(_), Some(_)) if v1.in_time(v1.node.is_reserved(&external_id_name(kind, text))).await?? => {
                Err(Refusal::Changed.into())
            }
            (Some(id), Some(owner)) => match need_free(v1, kind, owner, text).await {
                Ok(()) if !dry_run => store(v1, kind, &[(owner, None)]).await.map(|()| id),
                is_free => is_free.map(|()| id),
            },
        };
        if let Ok(id) = claimed
            && owners.insert(text.clone(), id) != Some(id)
        {
            claims.insert(id, text.clone());
        }
        ids.push(claimed.map(Some));
    }
    if !claims.is_empty() && !dry_run {
        let claims: Vec<_> = claims.into_iter().map(|(id, text)| (id, Some(text))).collect();
        store(v1, kind, &claims).await?;
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form() {
        for good in ["1", "a", "auth0|5f7c8ec7c33c6c004bbafe82", "ada@example.org", "ext:1", "%2F/?#", &"x".repeat(128)]
        {
            assert!(is_external_id(good), "{good}");
        }
        for bad in ["", " ", "a b", "ä", "a\n", "\u{7f}", &"x".repeat(129)] {
            assert!(!is_external_id(bad), "{bad}");
        }
    }
}
