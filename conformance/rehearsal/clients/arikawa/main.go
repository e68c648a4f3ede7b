// arikawa: the library of this name, unmodified, with every default: payloads compressed by `IDENTIFY.compress`.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/gateway"
	"github.com/diamondburned/arikawa/v3/session"
)

func main() {
	var settings struct {
		APIBase  string `json:"api_base"`
		BotToken string `json:"bot_token"`
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		panic(err)
	}
	api.EndpointGateway = settings.APIBase + "/v" + api.Version + "/gateway"
	api.EndpointGatewayBot = api.EndpointGateway + "/bot"
	client := session.NewWithIntents("Bot "+settings.BotToken, gateway.IntentGuilds, gateway.IntentGuildMessages)
	if err := client.Connect(context.Background()); err != nil {
		panic(err)
	}
}
