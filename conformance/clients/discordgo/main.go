// discordgo: the library of this name, unmodified, against a local node.
//
// Modes: JSON only; payload compression (`IDENTIFY.compress`) or none, by a field of its `Identify`. It speaks API v9.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/bwmarrin/discordgo"
)

type settings struct {
	APIBase     string `json:"api_base"`
	BotToken    string `json:"bot_token"`
	Compression string `json:"compression"`
}

type command struct {
	Cmd       string `json:"cmd"`
	ChannelID string `json:"channel_id"`
	GuildID   string `json:"guild_id"`
	Content   string `json:"content"`
}

type fields map[string]any

// lines takes what is to be written; the library calls from several goroutines.
var lines = make(chan fields, 256)

// emit writes one event line.
func emit(ev string, more fields) {
	line := fields{"ev": ev}
	for key, value := range more {
		line[key] = value
	}
	lines <- line
}

// problem is something the library did not like; the runner decides whether a cut socket explains it.
func problem(what, detail string) {
	if len(detail) > 2000 {
		detail = detail[:2000]
	}
	emit("problem", fields{"what": what, "detail": detail})
}

// pointAt sets the addresses of all that the suite has the library call.
func pointAt(apiBase string) {
	discordgo.EndpointAPI = apiBase + "/v" + discordgo.APIVersion + "/"
	discordgo.EndpointGuilds = discordgo.EndpointAPI + "guilds/"
	discordgo.EndpointChannels = discordgo.EndpointAPI + "channels/"
	discordgo.EndpointUsers = discordgo.EndpointAPI + "users/"
	discordgo.EndpointGateway = discordgo.EndpointAPI + "gateway"
	discordgo.EndpointGatewayBot = discordgo.EndpointGateway + "/bot"
}

// watch turns what the library complains about in its log into problems.
func watch(level, _ int, format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	if level <= discordgo.LogWarning {
		// It expects RESUMED before what is replayed; the protocol has it after.
		if !strings.HasPrefix(text, "Expected READY/RESUMED, instead got") {
			problem("log", text)
		}
	} else if !strings.HasPrefix(text, "First Packet") {
		fmt.Fprintln(os.Stderr, text)
	}
}

// report registers the handlers. They are called one after the other (SyncEvents), and while the library opens its
// connection it holds the session's lock: none may touch the session.
func report(session *discordgo.Session, chunks chan<- *discordgo.GuildMembersChunk) {
	ownID, awaited := "", 0
	session.AddHandler(func(_ *discordgo.Session, event *discordgo.Event) {
		emit("dispatch", fields{"s": event.Sequence, "t": event.Type})
	})
	session.AddHandler(func(_ *discordgo.Session, ready *discordgo.Ready) {
		ownID, awaited = ready.User.ID, len(ready.Guilds)
		emit("ready", fields{"user_id": ownID, "guilds": awaited})
	})
	session.AddHandler(func(_ *discordgo.Session, _ *discordgo.Resumed) { emit("resumed", nil) })
	session.AddHandler(func(_ *discordgo.Session, guild *discordgo.GuildCreate) {
		own := false
		for _, member := range guild.Members {
			own = own || member.User.ID == ownID
		}
		emit("guild", fields{
			"id":           guild.ID,
			"name":         guild.Name,
			"member_count": guild.MemberCount,
			"channels":     len(guild.Channels),
			"roles":        len(guild.Roles),
			"own_member":   own,
		})
		// The library has no event for being ready.
		if awaited--; awaited == 0 {
			emit("settled", nil)
		}
	})
	session.AddHandler(func(_ *discordgo.Session, message *discordgo.MessageCreate) {
		emit("message", fields{
			"id":         message.ID,
			"channel_id": message.ChannelID,
			"author_id":  message.Author.ID,
			"content":    message.Content,
		})
	})
	session.AddHandler(func(_ *discordgo.Session, message *discordgo.MessageUpdate) {
		emit("edit", fields{"id": message.ID, "content": message.Content})
	})
	session.AddHandler(func(_ *discordgo.Session, message *discordgo.MessageDelete) {
		emit("delete", fields{"id": message.ID})
	})
	session.AddHandler(func(_ *discordgo.Session, reaction *discordgo.MessageReactionAdd) {
		emit("reaction", fields{
			"message_id": reaction.MessageID,
			"user_id":    reaction.UserID,
			"emoji":      reaction.Emoji.Name,
		})
	})
	session.AddHandler(func(_ *discordgo.Session, typing *discordgo.TypingStart) {
		emit("typing", fields{"channel_id": typing.ChannelID, "user_id": typing.UserID})
	})
	session.AddHandler(func(_ *discordgo.Session, chunk *discordgo.GuildMembersChunk) { chunks <- chunk })
}

// members requests the whole member list and counts the received members.
func members(session *discordgo.Session, guildID string, chunks <-chan *discordgo.GuildMembersChunk) error {
	if err := session.RequestGuildMembers(guildID, "", 0, "all", false); err != nil {
		return err
	}
	ids := map[string]bool{}
	for chunk := range chunks {
		for _, member := range chunk.Members {
			ids[member.User.ID] = true
		}
		if chunk.ChunkIndex+1 == chunk.ChunkCount {
			break
		}
	}
	emit("members", fields{"count": len(ids)})
	return nil
}

func run(settings settings) error {
	pointAt(settings.APIBase)
	discordgo.Logger = watch
	session, err := discordgo.New("Bot " + settings.BotToken)
	if err != nil {
		return err
	}
	session.LogLevel = discordgo.LogInformational
	session.SyncEvents = true
	session.Identify.Intents = discordgo.IntentsAll
	session.Identify.Compress = settings.Compression == "payload"
	// Bounded: more chunks than the suite's guild has make the library wait, not this program grow.
	chunks := make(chan *discordgo.GuildMembersChunk, 16)
	report(session, chunks)
	emit("start", fields{"library": "discordgo", "version": discordgo.VERSION})
	if err := session.Open(); err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var command command
		if err := json.Unmarshal(input.Bytes(), &command); err != nil {
			return err
		}
		var err error
		switch command.Cmd {
		case "send":
			var message *discordgo.Message
			if message, err = session.ChannelMessageSend(command.ChannelID, command.Content); err == nil {
				emit("sent", fields{"id": message.ID})
			}
		case "members":
			err = members(session, command.GuildID, chunks)
		case "quit":
			return session.Close()
		}
		if err != nil {
			problem("command "+command.Cmd, err.Error())
		}
	}
	return input.Err()
}

func main() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		out := json.NewEncoder(os.Stdout)
		for line := <-lines; line != nil; line = <-lines {
			// A closed pipe means the runner is gone, and with it the reader of any complaint.
			_ = out.Encode(line)
		}
	}()
	var settings settings
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err == nil {
		err = run(settings)
	}
	if err != nil {
		problem("run", err.Error())
	}
	lines <- nil
	<-written
	if err != nil {
		os.Exit(1)
	}
}
