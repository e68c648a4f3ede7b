//! What to try next: what the demo prints once it is ready.

use super::manifest::Manifest;
use std::path::Path;

/// For people, with commands to paste. The tokens stay in the file, which only its owner can read.
pub(super) fn text(summary: &str, manifest: &Manifest, path: &Path) -> String {
    let Manifest { api_base, gateway_url, .. } = manifest;
    let channel = manifest.channel_ids.first().copied().unwrap_or_else(|| guildhall_model::ChannelId::new(0));
    let file = path.display();
    format!(
        r##"
Guildhall demo is ready. {summary}.

  REST      {api_base}
  Gateway   {gateway_url}
  Tokens    {file}

Say something, and read it back:
  TOKEN=$(python3 -c 'import json; print(json.load(open("{file}"))["bot_token"])')
  curl -H "Authorization: Bot $TOKEN" -H 'Content-Type: application/json' \
    -d '{{"content":"hello from curl"}}' {api_base}/v10/channels/{channel}/messages
  curl -H "Authorization: Bot $TOKEN" '{api_base}/v10/channels/{channel}/messages?limit=5'

Watch it with discord.js (npm install discord.js; save as watch.cjs):
  const {{ Client }} = require('discord.js');
  const demo = require(require('path').resolve('{file}'));
  const client = new Client({{ intents: 33283, rest: {{ api: demo.api_base }} }});
  client.on('clientReady', () => console.log('ready as', client.user.tag));
  client.on('messageCreate', m => console.log(`#${{m.channel.name}} ${{m.author.username}}: ${{m.content}}`));
  client.login(demo.bot_token);

Or with discord.py (pip install discord.py):
  import discord, json
  demo = json.load(open('{file}'))
  discord.http.Route.BASE = demo['api_base'] + '/v10'
  class Watch(discord.AutoShardedClient):
      async def on_message(self, m): print(f'#{{m.channel}} {{m.author}}: {{m.content}}')
  Watch(intents=discord.Intents.all()).run(demo['bot_token'])

Stop with Ctrl-C; the community is kept.
"##
    )
}
