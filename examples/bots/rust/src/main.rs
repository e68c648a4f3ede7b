//! A bot with commands and a button, by serenity. See ../../../README.md.
//!
//!     TOKEN='…' cargo run

use serenity::all::{
    ClientBuilder, Command, CommandInteraction, CommandOptionType, ComponentInteraction, Context, CreateActionRow,
    CreateButton, CreateCommand, CreateCommandOption, CreateInteractionResponse as Response,
    CreateInteractionResponseMessage as Message, EventHandler, GatewayIntents, HttpBuilder, Interaction, Ready, User,
};
use serenity::async_trait;
use std::env;

/// The text of a new roll.
fn rolled(user: &User, sides: u64) -> String {
    format!("{} rolled {} of {sides}", user.name, rand::random_range(1..=sides))
}

async fn run(context: &Context, command: &CommandInteraction) -> serenity::Result<()> {
    match command.data.name.as_str() {
        "roll" => {
            let sides = command.data.options.iter().find(|option| option.name == "sides");
            let sides = sides.and_then(|option| option.value.as_i64()).map_or(6, i64::unsigned_abs);
            // The button's id holds all that its press needs, so it outlives the program.
            let again = CreateButton::new(format!("roll:{sides}")).label("Again");
            let row = CreateActionRow::Buttons(vec![again]);
            let message = Message::new().content(rolled(&command.user, sides)).components(vec![row]);
            command.create_response(context, Response::Message(message)).await
        }
        "about" => {
            let message = Message::new().content("This bot rolls dice.").ephemeral(true);
            command.create_response(context, Response::Message(message)).await
        }
        _ => Ok(()),
    }
}

async fn press(context: &Context, press: &ComponentInteraction) -> serenity::Result<()> {
    let sides = press.data.custom_id.strip_prefix("roll:").and_then(|sides| sides.parse().ok());
    let Some(sides) = sides.filter(|sides| (2..=100).contains(sides)) else { return Ok(()) };
    let message = Message::new().content(rolled(&press.user, sides));
    press.create_response(context, Response::UpdateMessage(message)).await
}

struct Bot;

#[async_trait]
impl EventHandler for Bot {
    async fn ready(&self, context: Context, _: Ready) {
        let sides = CreateCommandOption::new(CommandOptionType::Integer, "sides", "Sides of the die, 6 by default");
        let commands = vec![
            CreateCommand::new("roll")
                .description("Rolls a die")
                .add_option(sides.min_int_value(2).max_int_value(100)),
            CreateCommand::new("about").description("Describes this bot to you alone"),
        ];
        match Command::set_global_commands(&context, commands).await {
            Ok(_) => println!("ready"),
            Err(error) => eprintln!("the commands were not registered: {error}"),
        }
    }

    async fn interaction_create(&self, context: Context, interaction: Interaction) {
        let answered = match &interaction {
            Interaction::Command(command) => run(&context, command).await,
            Interaction::Component(component) => press(&context, component).await,
            _ => Ok(()),
        };
        if let Err(error) = answered {
            eprintln!("an interaction has failed: {error}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = env::var("TOKEN")?;
    let api = env::var("API").unwrap_or_else(|_| "http://127.0.0.1:8080/api".to_owned());
    // The library has the path `/api/v10` itself, and its rate limiter knows no other host.
    let http = HttpBuilder::new(&token).proxy(api.trim_end_matches("/api")).ratelimiter_disabled(true).build();
    // Interactions need no intent.
    ClientBuilder::new_with_http(http, GatewayIntents::empty()).event_handler(Bot).await?.start().await?;
    Ok(())
}
