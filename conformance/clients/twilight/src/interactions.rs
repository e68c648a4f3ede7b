//! Interactions: registers the commands that the scenario uses, and answers them.

use crate::lines::{Failure, emit};
use serde_json::{Value, from_value, json};
use twilight_http::Client;
use twilight_model::application::command::Command;
use twilight_model::application::interaction::application_command::{CommandData, CommandOptionValue};
use twilight_model::application::interaction::modal::ModalInteractionComponent;
use twilight_model::application::interaction::{Interaction, InteractionData, InteractionType};
use twilight_model::http::interaction::InteractionResponse;
use twilight_model::id::Id;
use twilight_model::id::marker::ApplicationMarker;

/// Registers them for all guilds.
pub async fn register(client: &Client, application_id: Id<ApplicationMarker>) -> Result<(), Failure> {
    let command = |name: &str, options: Value| json!({"name": name, "description": "A command", "type": 1, "options": options, "version": "1"});
    let text = json!({"type": 3, "name": "text", "description": "A text", "required": true});
    let whom = json!({"type": 6, "name": "whom", "description": "A member", "required": true});
    let times = json!({"type": 4, "name": "times", "description": "A number", "min_value": 1, "max_value": 3});
    let word = json!({"type": 3, "name": "word", "description": "A word", "required": true, "autocomplete": true});
    let commands: Vec<Command> = from_value(json!([
        command("say", json!([text, whom, times])),
        command("later", json!([text])),
        command("hidden", json!([])),
        command("find", json!([word])),
        command("form", json!([])),
        command("press", json!([])),
    ]))?;
    let registered = client.interaction(application_id).set_global_commands(&commands).await?.model().await?;
    emit(&json!({"ev": "registered", "count": registered.len()}));
    Ok(())
}

/// Answers an interaction by its kind: command, component, modal or autocompletion.
pub async fn answer(client: &Client, interaction: Interaction) -> Result<(), Failure> {
    let http = client.interaction(interaction.application_id);
    let token = &interaction.token;
    let answer = async |kind: u8, data: Value| -> Result<(), Failure> {
        let response: InteractionResponse = from_value(json!({"type": kind, "data": data}))?;
        http.create_response(interaction.id, token, &response).await?;
        Ok(())
    };
    match &interaction.data {
        Some(InteractionData::ApplicationCommand(command))
            if interaction.kind == InteractionType::ApplicationCommand =>
        {
            match command.name.as_str() {
                "say" => answer(4, json!({"content": said(command)?})).await,
                "later" => {
                    let text = text(command, "text")?;
                    answer(5, json!({})).await?;
                    http.update_response(token).content(Some(&format!("later: {text}"))).await?;
                    http.create_followup(token).content(&format!("and more: {text}")).await?.model().await?;
                    Ok(())
                }
                "hidden" => {
                    answer(4, json!({"content": "hidden", "flags": 64})).await?;
                    http.update_response(token).content(Some("hidden, edited")).await?.model().await?;
                    Ok(())
                }
                "find" => answer(4, json!({"content": format!("found: {}", text(command, "word")?)})).await,
                "form" => {
                    let input = json!({"type": 4, "custom_id": "text", "style": 1});
                    let label = json!({"type": 18, "label": "A text", "component": input});
                    answer(9, json!({"custom_id": "form", "title": "A form", "components": [label]})).await
                }
                "press" => {
                    let button = json!({"type": 2, "custom_id": "press", "label": "Press", "style": 1});
                    let row = json!({"type": 1, "components": [button]});
                    answer(4, json!({"content": "press", "components": [row]})).await
                }
                other => Err(format!("unknown command {other}").into()),
            }
        }
        Some(InteractionData::ApplicationCommand(command)) => {
            let Some(CommandOptionValue::Focused(typed, _)) = value(command, "word") else {
                return Err(format!("no focused option: {command:?}").into());
            };
            let choice = |name: &str, number: u8| json!({"name": format!("{typed} {name}"), "value": format!("{typed}-{number}"), "type": 3});
            answer(8, json!({"choices": [choice("one", 1), choice("two", 2)]})).await
        }
        Some(InteractionData::MessageComponent(_)) => {
            let presser = interaction.author().ok_or("an interaction without its user")?;
            answer(7, json!({"content": format!("pressed by {}", presser.name), "components": []})).await
        }
        Some(InteractionData::ModalSubmit(modal)) => {
            let [ModalInteractionComponent::Label(label)] = &modal.components[..] else {
                return Err(format!("the form has {:?}", modal.components).into());
            };
            let ModalInteractionComponent::TextInput(text) = &*label.component else {
                return Err(format!("the form has {label:?}").into());
            };
            answer(4, json!({"content": format!("form: {}", text.value)})).await
        }
        other => Err(format!("unknown data {other:?}").into()),
    }
}

fn value<'a>(command: &'a CommandData, name: &str) -> Option<&'a CommandOptionValue> {
    command.options.iter().find(|option| option.name == name).map(|option| &option.value)
}

fn text<'a>(command: &'a CommandData, name: &str) -> Result<&'a str, Failure> {
    match value(command, name) {
        Some(CommandOptionValue::String(text)) => Ok(text),
        other => Err(format!("option {name} is {other:?}").into()),
    }
}

fn said(command: &CommandData) -> Result<String, Failure> {
    let (Some(CommandOptionValue::User(whom)), Some(CommandOptionValue::Integer(times))) =
        (value(command, "whom"), value(command, "times"))
    else {
        return Err(format!("the options are {:?}", command.options).into());
    };
    let resolved = command.resolved.as_ref().and_then(|resolved| resolved.users.get(whom));
    let user = resolved.ok_or("the user of an option is not resolved")?;
    Ok(format!("say: {} to {}, {times}", text(command, "text")?, user.name))
}
