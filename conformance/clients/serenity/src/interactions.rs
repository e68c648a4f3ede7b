//! Interactions: registers the commands that the scenario uses, and answers them.

use crate::lines::{emit, problem};
use serde_json::json;
use serenity::all::{
    ActionRowComponent, Command, CommandInteraction, CommandOptionType, ComponentInteraction, Context, CreateActionRow,
    CreateAutocompleteResponse, CreateButton, CreateCommand, CreateCommandOption, CreateInputText,
    CreateInteractionResponse as Response, CreateInteractionResponseFollowup, CreateInteractionResponseMessage,
    CreateModal, EditInteractionResponse, Http, InputTextStyle, Interaction, ModalInteraction, ResolvedValue,
};

/// Registers them for all guilds.
pub async fn register(http: &Http) -> serenity::Result<()> {
    let option = |kind, name: &str| CreateCommandOption::new(kind, name, "An option").required(true);
    let text = option(CommandOptionType::String, "text");
    let times = CreateCommandOption::new(CommandOptionType::Integer, "times", "A number");
    let commands = vec![
        CreateCommand::new("say")
            .description("Answers at once")
            .add_option(text.clone())
            .add_option(option(CommandOptionType::User, "whom"))
            .add_option(times.min_int_value(1).max_int_value(3)),
        CreateCommand::new("later").description("Answers later").add_option(text),
        CreateCommand::new("hidden").description("Answers the caller alone"),
        CreateCommand::new("find")
            .description("Completes a word")
            .add_option(option(CommandOptionType::String, "word").set_autocomplete(true)),
        CreateCommand::new("form").description("Opens a form"),
        CreateCommand::new("press").description("Shows a button"),
    ];
    let registered = Command::set_global_commands(http, commands).await?;
    emit(&json!({"ev": "registered", "count": registered.len()}));
    Ok(())
}

/// Answers an interaction by its kind: command, component, modal or autocompletion.
pub async fn answer(context: &Context, interaction: Interaction) {
    let answered = match &interaction {
        Interaction::Command(command) => answer_command(context, command).await,
        Interaction::Autocomplete(command) => complete(context, command).await,
        Interaction::Component(component) => press(context, component).await,
        Interaction::Modal(modal) => submit(context, modal).await,
        other => return problem("interaction", &format!("{other:?}")),
    };
    if let Err(error) = answered {
        problem("interaction", &format!("{error:?}"));
    }
}

fn content(content: impl Into<String>) -> CreateInteractionResponseMessage {
    CreateInteractionResponseMessage::new().content(content)
}

async fn answer_command(context: &Context, command: &CommandInteraction) -> serenity::Result<()> {
    let options = command.data.options();
    let value = |name: &str| options.iter().find(|option| option.name == name).map(|option| &option.value);
    let text = |name: &str| match value(name) {
        Some(ResolvedValue::String(text)) => *text,
        _ => "no text",
    };
    match command.data.name.as_str() {
        "say" => {
            let Some((ResolvedValue::User(user, _), ResolvedValue::Integer(times))) = value("whom").zip(value("times"))
            else {
                problem("options", &format!("{options:?}"));
                return Ok(());
            };
            let said = format!("say: {} to {}, {times}", text("text"), user.name);
            command.create_response(context, Response::Message(content(said))).await
        }
        "later" => {
            command.defer(context).await?;
            let edit = EditInteractionResponse::new().content(format!("later: {}", text("text")));
            command.edit_response(context, edit).await?;
            let more = CreateInteractionResponseFollowup::new().content(format!("and more: {}", text("text")));
            command.create_followup(context, more).await.map(drop)
        }
        "hidden" => {
            command.create_response(context, Response::Message(content("hidden").ephemeral(true))).await?;
            command.edit_response(context, EditInteractionResponse::new().content("hidden, edited")).await.map(drop)
        }
        "find" => {
            let found = format!("found: {}", text("word"));
            command.create_response(context, Response::Message(content(found))).await
        }
        "form" => {
            let text = CreateInputText::new(InputTextStyle::Short, "A text", "text");
            let form = CreateModal::new("form", "A form").components(vec![CreateActionRow::InputText(text)]);
            command.create_response(context, Response::Modal(form)).await
        }
        "press" => {
            let buttons = CreateActionRow::Buttons(vec![CreateButton::new("press").label("Press")]);
            command.create_response(context, Response::Message(content("press").components(vec![buttons]))).await
        }
        other => {
            problem("unknown command", other);
            Ok(())
        }
    }
}

async fn complete(context: &Context, command: &CommandInteraction) -> serenity::Result<()> {
    let typed = command.data.autocomplete().map_or("nothing", |option| option.value);
    let choices = CreateAutocompleteResponse::new()
        .add_string_choice(format!("{typed} one"), format!("{typed}-1"))
        .add_string_choice(format!("{typed} two"), format!("{typed}-2"));
    command.create_response(context, Response::Autocomplete(choices)).await
}

async fn press(context: &Context, component: &ComponentInteraction) -> serenity::Result<()> {
    let pressed = content(format!("pressed by {}", component.user.name)).components(Vec::new());
    component.create_response(context, Response::UpdateMessage(pressed)).await
}

async fn submit(context: &Context, modal: &ModalInteraction) -> serenity::Result<()> {
    let components = modal.data.components.iter().flat_map(|row| &row.components);
    let mut texts = components.filter_map(|component| match component {
        ActionRowComponent::InputText(text) if text.custom_id == "text" => text.value.clone(),
        _ => None,
    });
    let submitted = format!("form: {}", texts.next().unwrap_or_default());
    modal.create_response(context, Response::Message(content(submitted))).await
}
