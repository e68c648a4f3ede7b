//! View: the screen of `guildhall top`.

use super::{Shown, View, figures::Table};
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Alignment, Constraint, Layout},
    style::{Modifier, Style, Stylize as _},
    text::{Line, Span, Text},
    widgets::{Cell, Paragraph, Row},
};

/// Draws head, tabs and the table of the view.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [head, _, tabs, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(shown.figures.head().map(Line::from).to_vec()), head);
    frame.render_widget(Paragraph::new(tab_line(shown.view)), tabs);
    let table = shown.figures.table();
    if table.rows.is_empty() {
        frame.render_widget(Paragraph::new(table.empty).dim(), body);
    } else {
        frame.render_widget(widget(&table, body.width), body);
    }
    let foot_line = match &shown.fault {
        Some(fault) => Line::from(format!("The figures are old: {fault}")).red().bold(),
        None => Line::from("1–4 or Tab: view   q: end").dim(),
    };
    frame.render_widget(Paragraph::new(foot_line), foot);
}

fn tab_line(view: View) -> Line<'static> {
    let tab = |(at, each): (usize, &View)| {
        let name = format!(" {} {} ", at + 1, each.title());
        // Brackets as well as colours: text and terminals without colour have no others.
        if *each == view { Span::from(format!("[{}]", name.trim())).bold().reversed() } else { Span::from(name).dim() }
    };
    View::ALL.iter().enumerate().map(tab).collect::<Vec<_>>().into()
}

/// The columns that fit, and the one that takes what they leave: the widest text. Columns on the right are left out
/// first, because a number whose head is cut off is another number.
fn columns_in(table: &Table, width: u16) -> (usize, usize) {
    let fits = |count: usize| {
        let columns = &table.columns[..count];
        columns.iter().map(|column| column.width + 1).sum::<u16>() <= width + 1
    };
    let count = (1..=table.columns.len()).rev().find(|count| fits(*count)).unwrap_or(1);
    let texts = table.columns[..count].iter().enumerate().filter(|(_, column)| !column.is_number);
    (count, texts.max_by_key(|(_, column)| column.width).map_or(0, |(at, _)| at))
}

fn widget(table: &Table, width: u16) -> ratatui::widgets::Table<'_> {
    let (count, widest) = columns_in(table, width);
    let columns = &table.columns[..count];
    let aligned = |text: &str, is_number: bool| {
        let alignment = if is_number { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(text.to_owned()).alignment(alignment))
    };
    let head = columns.iter().map(|column| aligned(column.title, column.is_number));
    let rows = table
        .rows
        .iter()
        .map(|row| Row::new(row.iter().zip(columns).map(|(text, column)| aligned(text, column.is_number))));
    let widths = columns.iter().enumerate().map(|(at, column)| {
        if at == widest { Constraint::Min(column.width) } else { Constraint::Length(column.width) }
    });
    ratatui::widgets::Table::new(rows, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1)
}

/// The screen as text, without spaces at the ends of lines and without empty lines at the end.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content.chunks(width).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    // Keys are of no use there.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.iter().map(|line| format!("{line}\n")).chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};

    fn screen(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown)).unwrap();
        text(terminal.backend().buffer())
    }

    #[test]
    fn the_screen_fits_a_small_terminal() {
        for view in View::ALL {
            let shown = Shown { view, ..Shown::default() };
            for (width, height) in [(80, 24), (40, 10), (10, 3), (1, 1)] {
                let screen = screen(&shown, width, height);
                assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
            }
        }
        assert!(screen(&Shown::default(), 80, 24).contains("[1 Loops] 2 Guilds"));
    }

    #[test]
    fn a_narrow_terminal_leaves_columns_out_and_cuts_no_number() {
        let column = |title, width, is_number| super::super::figures::Column { title, width, is_number };
        let table = Table {
            columns: vec![
                column("LOOP", 12, false),
                column("TYPE", 20, false),
                column("MEAN", 9, true),
                column("MAX", 9, true),
            ],
            rows: vec![["store", "commit", "100.25 ms", "123.75 ms"].map(ToOwned::to_owned).to_vec()],
            empty: "",
        };
        for width in 1..80 {
            let mut terminal = Terminal::new(TestBackend::new(width, 3)).unwrap();
            terminal.draw(|frame| frame.render_widget(widget(&table, width), frame.area())).unwrap();
            let all: String = terminal.backend().buffer().content.iter().map(ratatui::buffer::Cell::symbol).collect();
            assert!(
                all.matches(" ms").count() == all.matches("100.25 ms").count() + all.matches("123.75 ms").count(),
                "{all}"
            );
            assert_eq!((all.contains("MEAN"), all.contains("MAX")), (width >= 43, width >= 53), "{width}");
        }
        assert_eq!(columns_in(&table, 80), (4, 1), "the type takes the rest");
    }

    #[test]
    fn old_figures_are_marked() {
        let shown = Shown { fault: Some("no node answers at a:1".to_owned()), ..Shown::default() };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &shown)).unwrap();
        let all: String = terminal.backend().buffer().content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(all.contains("The figures are old: no node answers at a:1"), "{all}");
    }
}
