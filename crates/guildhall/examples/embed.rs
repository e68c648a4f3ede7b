//! A node inside a program: the program's own tokens, and a filter of messages. docs/embedding.md explains it.

use guildhall::{
    Server, async_trait,
    node::{Authenticate, Draft, Identity, Review, ReviewMessage, TokenCheck},
};

/// Takes tokens of the form `game:NAME`. A real program looks the token up in its table of logins.
struct Logins;

#[async_trait]
impl Authenticate for Logins {
    async fn authenticate(&self, token: &str) -> TokenCheck {
        match token.strip_prefix("game:") {
            Some(name) => TokenCheck::Valid(Identity { username: Some(name.into()), ..Identity::new(name) }),
            None => TokenCheck::NotMine,
        }
    }
}

/// Refuses messages with links.
struct NoLinks;

#[async_trait]
impl ReviewMessage for NoLinks {
    async fn review(&self, draft: Draft<'_>) -> Review {
        if draft.content.contains("https://") { Review::Refuse } else { Review::Publish }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .data_dir("data/embedded")
        .listen("127.0.0.1:8080")
        .authenticate(Logins)
        .review_messages(NoLinks)
        .start()
        .await?;
    println!("clients connect to {}", server.gateway_url());
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    Ok(server.run_until(interrupt).await?)
}
