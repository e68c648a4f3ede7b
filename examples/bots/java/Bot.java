import java.util.EnumSet;
import java.util.concurrent.ThreadLocalRandom;
import net.dv8tion.jda.api.components.actionrow.ActionRow;
import net.dv8tion.jda.api.components.buttons.Button;
import net.dv8tion.jda.api.entities.User;
import net.dv8tion.jda.api.events.interaction.command.SlashCommandInteractionEvent;
import net.dv8tion.jda.api.events.interaction.component.ButtonInteractionEvent;
import net.dv8tion.jda.api.events.session.ReadyEvent;
import net.dv8tion.jda.api.hooks.ListenerAdapter;
import net.dv8tion.jda.api.interactions.commands.OptionType;
import net.dv8tion.jda.api.interactions.commands.build.Commands;
import net.dv8tion.jda.api.interactions.commands.build.OptionData;
import net.dv8tion.jda.api.requests.GatewayIntent;
import net.dv8tion.jda.api.requests.RestConfig;
import net.dv8tion.jda.api.sharding.DefaultShardManagerBuilder;
import net.dv8tion.jda.api.utils.cache.CacheFlag;

/** A bot with commands and a button, by JDA. See ../../README.md. */
public final class Bot extends ListenerAdapter {
    @Override
    public void onReady(ReadyEvent event) {
        var sides = new OptionData(OptionType.INTEGER, "sides", "Sides of the die, 6 by default").setRequiredRange(2, 100);
        event.getJDA()
                .updateCommands()
                .addCommands(
                        Commands.slash("roll", "Rolls a die").addOptions(sides),
                        Commands.slash("about", "Describes this bot to you alone"))
                .queue(commands -> System.out.println("ready"));
    }

    @Override
    public void onSlashCommandInteraction(SlashCommandInteractionEvent event) {
        switch (event.getName()) {
            case "roll" -> {
                int sides = event.getOption("sides", 6, option -> option.getAsInt());
                // The button's id holds all that its press needs, so it outlives the program.
                var again = Button.primary("roll:" + sides, "Again");
                event.reply(rolled(event.getUser(), sides)).addComponents(ActionRow.of(again)).queue();
            }
            case "about" -> event.reply("This bot rolls dice.").setEphemeral(true).queue();
            default -> {}
        }
    }

    @Override
    public void onButtonInteraction(ButtonInteractionEvent event) {
        String id = event.getComponentId();
        if (id.startsWith("roll:")) {
            int sides = Integer.parseInt(id.substring("roll:".length()));
            event.editMessage(rolled(event.getUser(), sides)).queue();
        }
    }

    /** The text of a new roll. */
    private static String rolled(User user, int sides) {
        int number = ThreadLocalRandom.current().nextInt(sides) + 1;
        return "%s rolled %d of %d".formatted(user.getName(), number, sides);
    }

    public static void main(String[] arguments) {
        String api = System.getenv().getOrDefault("API", "http://127.0.0.1:8080/api");
        // Interactions need no intent, and these caches need some.
        DefaultShardManagerBuilder.create(System.getenv("TOKEN"), EnumSet.noneOf(GatewayIntent.class))
                .disableCache(EnumSet.allOf(CacheFlag.class))
                .setRestConfig(new RestConfig().setBaseUrl(api + "/v10/"))
                .addEventListeners(new Bot())
                .build();
    }
}
