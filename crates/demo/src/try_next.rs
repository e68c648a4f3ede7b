//! Suggestions that the demo prints once it is ready.

use super::manifest::Manifest;
use std::path::Path;

/// Pages for browsers that the node serves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages<'a> {
    pub chat: Option<&'a str>,
    pub dashboard: Option<&'a str>,
}

/// For people, with commands to paste. The tokens stay in the file, which only its owner can read.
pub(super) fn text(summary: &str, manifest: &Manifest, path: &Path, pages: Pages<'_>) -> String {
    let Manifest { api_base, gateway_url, .. } = manifest;
    let channel = manifest.channel_ids.first().copied().unwrap_or_else(|| guildhall_model::ChannelId::new(0));
    let file = path.display();
    let page = pages.chat.map_or_else(String::new, |page| format!("\nOpen {page} and talk.\n"));
    let dashboard =
        pages.dashboard.map_or_else(String::new, |page| format!("\n  Dashboard {page} (log in with its admin_key)"));
    format!(
        r##"{page}
Guildhall demo is ready. {summary}.

  REST      {api_base}
  Gateway   {gateway_url}
  Tokens    {file}{dashboard}

Say something, and read it back:
  DEMO={file}
  TOKEN=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["bot_token"])' $DEMO)
  API={api_base}/v10
  curl $API/channels/{channel}/messages \
    -H "Authorization: Bot $TOKEN" -H 'Content-Type: application/json' \
    -d '{{"content":"hello from curl"}}'
  curl "$API/channels/{channel}/messages?limit=5" \
    -H "Authorization: Bot $TOKEN"

Watch it with discord.js (npm install discord.js; save as watch.cjs):
  const {{ Client }} = require('discord.js');
  const demo = require(require('path').resolve('{file}'));
  const rest = {{ api: demo.api_base }};
  const client = new Client({{ intents: 33283, rest }});
  client.on('messageCreate', (m) =>
    console.log(`#${{m.channel.name}} ${{m.author.username}}: ${{m.content}}`));
  client.login(demo.bot_token);

Or with discord.py (pip install discord.py). Set both addresses: without the
second one it would send the token to another gateway.
  import discord, json, yarl
  demo = json.load(open('{file}'))
  discord.http.Route.BASE = demo['api_base'] + '/v10'
  discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(
      demo['gateway_url'])
  class Watch(discord.Client):
      async def on_message(self, m):
          print(f'#{{m.channel}} {{m.author}}: {{m.content}}', flush=True)
  Watch(intents=discord.Intents.all()).run(demo['bot_token'])

Twelve libraries, each with what to set: docs/libraries.md
A client of your own, in a browser:      docs/your-own-client.md

Stop with Ctrl-C; the community is kept.
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{ChannelId, GuildId};

    #[test]
    fn the_text_fits_a_terminal_of_80_columns() {
        let manifest = Manifest {
            api_base: "http://127.0.0.1:8080/api".into(),
            gateway_url: "ws://127.0.0.1:8080".into(),
            admin_key: String::new(),
            bot_token: "secret".into(),
            user_token: "secret".into(),
            guild_id: GuildId::new(u64::MAX),
            channel_ids: vec![ChannelId::new(u64::MAX)],
        };
        let pages =
            Pages { chat: Some("http://127.0.0.1:8080/chat/"), dashboard: Some("http://127.0.0.1:8080/dashboard/") };
        let text = text("40 members in 1 guild", &manifest, Path::new("data/demo/demo.json"), pages);
        let too_long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(too_long, Vec::<&str>::new());
        assert!(!text.contains("secret"), "tokens stay in the file");
        assert_eq!(text.trim_start().lines().next(), Some("Open http://127.0.0.1:8080/chat/ and talk."));
        assert!(text.contains("\n  Dashboard http://127.0.0.1:8080/dashboard/"), "{text}");
    }
}
