import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import net.dv8tion.jda.api.GatewayEncoding;
import net.dv8tion.jda.api.JDA;
import net.dv8tion.jda.api.JDAInfo;
import net.dv8tion.jda.api.components.actionrow.ActionRow;
import net.dv8tion.jda.api.components.buttons.Button;
import net.dv8tion.jda.api.components.label.Label;
import net.dv8tion.jda.api.components.textinput.TextInput;
import net.dv8tion.jda.api.components.textinput.TextInputStyle;
import net.dv8tion.jda.api.entities.Guild;
import net.dv8tion.jda.api.entities.Message;
import net.dv8tion.jda.api.events.ExceptionEvent;
import net.dv8tion.jda.api.events.RawGatewayEvent;
import net.dv8tion.jda.api.events.interaction.ModalInteractionEvent;
import net.dv8tion.jda.api.events.interaction.command.CommandAutoCompleteInteractionEvent;
import net.dv8tion.jda.api.events.interaction.command.SlashCommandInteractionEvent;
import net.dv8tion.jda.api.events.interaction.component.ButtonInteractionEvent;
import net.dv8tion.jda.api.events.message.MessageDeleteEvent;
import net.dv8tion.jda.api.events.message.MessageReceivedEvent;
import net.dv8tion.jda.api.events.message.MessageUpdateEvent;
import net.dv8tion.jda.api.events.message.react.MessageReactionAddEvent;
import net.dv8tion.jda.api.events.session.ReadyEvent;
import net.dv8tion.jda.api.events.session.SessionResumeEvent;
import net.dv8tion.jda.api.events.session.ShutdownEvent;
import net.dv8tion.jda.api.events.user.UserTypingEvent;
import net.dv8tion.jda.api.hooks.ListenerAdapter;
import net.dv8tion.jda.api.interactions.commands.Command;
import net.dv8tion.jda.api.interactions.commands.OptionType;
import net.dv8tion.jda.api.interactions.commands.build.Commands;
import net.dv8tion.jda.api.interactions.commands.build.OptionData;
import net.dv8tion.jda.api.modals.Modal;
import net.dv8tion.jda.api.requests.GatewayIntent;
import net.dv8tion.jda.api.requests.RestConfig;
import net.dv8tion.jda.api.sharding.DefaultShardManagerBuilder;
import net.dv8tion.jda.api.utils.ChunkingFilter;
import net.dv8tion.jda.api.utils.Compression;
import net.dv8tion.jda.api.utils.MemberCachePolicy;
import net.dv8tion.jda.api.utils.data.DataObject;

/**
 * JDA: the library of this name, unmodified, against a local node.
 *
 * <p>Modes: JSON or ETF, each with zlib-stream or nothing, by options of the builder.
 */
public final class Client extends ListenerAdapter {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private final CountDownLatch over = new CountDownLatch(1);

    /** Writes one event line. */
    private static void emit(String ev, Map<String, ?> fields) {
        DataObject line = DataObject.empty().put("ev", ev);
        fields.forEach(line::put);
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    /** Something the library did not like; the runner decides whether a cut socket explains it. */
    private static void problem(String what, String detail) {
        String text = String.valueOf(detail);
        emit("problem", Map.of("what", what, "detail", text.substring(0, Math.min(2000, text.length()))));
    }

    /** Turns what the library complains about in its log into problems. */
    private static final class Watch extends Handler {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord record) {
            String text = formatter.formatMessage(record);
            String name = record.getLoggerName();
            boolean complains = record.getLevel().intValue() >= Level.WARNING.intValue()
                    // Logged at debug level, and yet a sign that the server sent something unknown to the library.
                    || text.startsWith("Unrecognized event")
                    || text.startsWith("Got unknown op-code");
            if (complains) {
                problem("log " + record.getLevel() + " " + name, text + thrown(record.getThrown()));
            }
            System.err.println(record.getLevel() + " " + name + ": " + text.substring(0, Math.min(400, text.length())));
        }

        private static String thrown(Throwable error) {
            return error == null ? "" : "\n" + error + thrown(error.getCause());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    @Override
    public void onRawGateway(RawGatewayEvent event) {
        DataObject packet = event.getPackage();
        String type = event.getType();
        emit("dispatch", Map.of("s", packet.getLong("s"), "t", type));
        if (type.equals("READY")) {
            DataObject ready = event.getPayload();
            String userId = ready.getObject("user").getString("id");
            emit("ready", Map.of("user_id", userId, "guilds", ready.getArray("guilds").length()));
        }
    }

    @Override
    public void onReady(ReadyEvent event) {
        for (Guild guild : event.getJDA().getGuilds()) {
            emit("guild", Map.of(
                    "id", guild.getId(),
                    "name", guild.getName(),
                    "member_count", guild.getMemberCount(),
                    "channels", guild.getChannels().size(),
                    "roles", guild.getRoles().size(),
                    "own_member", guild.getSelfMember().getId().equals(event.getJDA().getSelfUser().getId())));
        }
        emit("settled", Map.of());
    }

    @Override
    public void onSessionResume(SessionResumeEvent event) {
        emit("resumed", Map.of());
    }

    @Override
    public void onMessageReceived(MessageReceivedEvent event) {
        Message message = event.getMessage();
        emit("message", Map.of(
                "id", message.getId(),
                "channel_id", event.getChannel().getId(),
                "author_id", event.getAuthor().getId(),
                "content", message.getContentRaw()));
    }

    @Override
    public void onMessageUpdate(MessageUpdateEvent event) {
        emit("edit", Map.of("id", event.getMessageId(), "content", event.getMessage().getContentRaw()));
    }

    @Override
    public void onMessageDelete(MessageDeleteEvent event) {
        emit("delete", Map.of("id", event.getMessageId()));
    }

    @Override
    public void onMessageReactionAdd(MessageReactionAddEvent event) {
        emit("reaction", Map.of(
                "message_id", event.getMessageId(),
                "user_id", event.getUserId(),
                "emoji", event.getEmoji().getName()));
    }

    @Override
    public void onUserTyping(UserTypingEvent event) {
        emit("typing", Map.of("channel_id", event.getChannel().getId(), "user_id", event.getUser().getId()));
    }

    /** Registers the commands that the scenario uses. */
    private static void register(JDA jda) {
        OptionData text = new OptionData(OptionType.STRING, "text", "A text", true);
        var times = new OptionData(OptionType.INTEGER, "times", "A number").setRequiredRange(1, 3);
        var registered = jda.updateCommands()
                .addCommands(
                        Commands.slash("say", "Answers at once")
                                .addOptions(text, new OptionData(OptionType.USER, "whom", "A member", true), times),
                        Commands.slash("later", "Answers later").addOptions(text),
                        Commands.slash("hidden", "Answers the caller alone"),
                        Commands.slash("find", "Completes a word").addOption(OptionType.STRING, "word", "A word", true, true),
                        Commands.slash("form", "Opens a form"),
                        Commands.slash("press", "Shows a button"))
                .complete();
        emit("registered", Map.of("count", registered.size()));
    }

    @Override
    public void onSlashCommandInteraction(SlashCommandInteractionEvent event) {
        switch (event.getName()) {
            case "say" -> event.reply("say: %s to %s, %d".formatted(
                            event.getOption("text").getAsString(),
                            event.getOption("whom").getAsUser().getName(),
                            event.getOption("times").getAsInt()))
                    .complete();
            case "later" -> {
                var hook = event.deferReply().complete();
                String text = event.getOption("text").getAsString();
                hook.editOriginal("later: " + text).complete();
                hook.sendMessage("and more: " + text).complete();
            }
            case "hidden" -> event.reply("hidden").setEphemeral(true).complete().editOriginal("hidden, edited").complete();
            case "find" -> event.reply("found: " + event.getOption("word").getAsString()).complete();
            case "form" -> {
                var text = TextInput.of("text", TextInputStyle.SHORT);
                event.replyModal(Modal.create("form", "A form").addComponents(Label.of("A text", text)).build()).complete();
            }
            case "press" -> event.reply("press").addComponents(ActionRow.of(Button.primary("press", "Press"))).complete();
            default -> problem("command", event.getName());
        }
    }

    @Override
    public void onCommandAutoCompleteInteraction(CommandAutoCompleteInteractionEvent event) {
        String typed = event.getFocusedOption().getValue();
        event.replyChoices(
                        new Command.Choice(typed + " one", typed + "-1"), new Command.Choice(typed + " two", typed + "-2"))
                .complete();
    }

    @Override
    public void onModalInteraction(ModalInteractionEvent event) {
        event.reply("form: " + event.getValue("text").getAsString()).complete();
    }

    @Override
    public void onButtonInteraction(ButtonInteractionEvent event) {
        event.editMessage("pressed by " + event.getUser().getName()).setComponents(List.of()).complete();
    }

    @Override
    public void onException(ExceptionEvent event) {
        problem("exception", String.valueOf(event.getCause()));
    }

    @Override
    public void onShutdown(ShutdownEvent event) {
        over.countDown();
    }

    private static void runCommand(JDA jda, DataObject command) throws Exception {
        switch (command.getString("cmd")) {
            case "send" -> {
                var channel = jda.getTextChannelById(command.getString("channel_id"));
                Message message = channel.sendMessage(command.getString("content")).complete();
                emit("sent", Map.of("id", message.getId()));
            }
            case "members" -> {
                Guild guild = jda.getGuildById(command.getString("guild_id"));
                guild.loadMembers().onSuccess(members -> emit("members", Map.of("count", members.size())))
                        .onError(error -> problem("members", String.valueOf(error)));
            }
            case "register" -> register(jda);
            default -> throw new IllegalArgumentException("unknown command");
        }
    }

    public static void main(String[] arguments) throws Exception {
        DataObject settings = DataObject.fromJson(Files.readString(Path.of(arguments[0])));
        Logger log = Logger.getLogger("");
        for (Handler handler : log.getHandlers()) {
            log.removeHandler(handler);
        }
        log.addHandler(new Watch());
        // Kept, for the registry of loggers holds them only weakly.
        Logger library = Logger.getLogger("net.dv8tion.jda");
        library.setLevel(Level.FINE);

        emit("start", Map.of("library", "JDA", "version", JDAInfo.VERSION, "interactions", true));
        Client client = new Client();
        boolean compressed = settings.getString("compression").equals("zlib-stream");
        var shards = DefaultShardManagerBuilder
                .create(settings.getString("bot_token"), EnumSet.allOf(GatewayIntent.class))
                .setRestConfig(new RestConfig().setBaseUrl(settings.getString("api_base") + "/v10/"))
                .setGatewayEncoding(GatewayEncoding.valueOf(settings.getString("encoding").toUpperCase()))
                .setCompression(compressed ? Compression.ZLIB : Compression.NONE)
                .setRawEventsEnabled(true)
                // Members are requested by command, not at start.
                .setChunkingFilter(ChunkingFilter.NONE)
                .setMemberCachePolicy(MemberCachePolicy.ALL)
                .addEventListeners(client)
                .build();

        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            DataObject command = DataObject.fromJson(line);
            if (command.getString("cmd").equals("quit")) {
                break;
            }
            try {
                runCommand(shards.getShards().get(0), command);
            } catch (Exception error) {
                problem("command", String.valueOf(error));
            }
        }
        shards.shutdown();
        client.over.await();
        // The library's HTTP client keeps idle threads for a minute.
        System.exit(0);
    }
}
