// disgo: the library of this name, unmodified, with every default: payloads compressed by `IDENTIFY.compress`.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/disgoorg/disgo"
	"github.com/disgoorg/disgo/bot"
	"github.com/disgoorg/disgo/gateway"
	"github.com/disgoorg/disgo/rest"
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
	client, err := disgo.New(settings.BotToken,
		bot.WithRestClientConfigOpts(rest.WithURL(settings.APIBase+"/v10")),
		bot.WithGatewayConfigOpts(gateway.WithIntents(gateway.IntentsAll)),
	)
	if err != nil {
		panic(err)
	}
	if err := client.OpenGateway(context.Background()); err != nil {
		panic(err)
	}
	select {}
}
