//! Reads a list of tools page by page, with protection against faulty cursors. Not for the contents
//! of a tool.

use std::collections::HashSet;
use std::fmt::Display;
use std::future::Future;

use hearken_base::paced_log::PacedLog;

/// Maximum number of pages.
const MAX_PAGES: usize = 100;
/// Maximum length of a cursor. A page with a longer one is the last.
const MAX_CURSOR_BYTES: usize = 4 << 10;

/// One page of tools.
pub(super) struct Page<T> {
    /// Tools of the page.
    pub(super) tools: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub(super) next: Option<String>,
}

/// Reads all pages and passes their tools to `add`, in order, so that at most one page of a list
/// that is too large is in memory. Ends at a cursor that is missing, empty or repeated, after
/// `MAX_PAGES`, if `add` returns false, and at a later page that the server answers with an error
/// (`is_answer`). Warns in `warnings`: a server may make us read its list continually.
///
/// # Errors
/// Error of the first page, or an error that is not an answer: then the previous tools are the
/// better list.
pub(super) async fn every_page<T, E, F>(
    mut ask: impl FnMut(Option<String>) -> F,
    mut add: impl FnMut(T) -> bool,
    is_answer: impl Fn(&E) -> bool,
    warnings: &PacedLog,
) -> Result<(), E>
where
    E: Display,
    F: Future<Output = Result<Page<T>, E>>,
{
    let mut seen = HashSet::new();
    let mut cursor = None;
    for number in 0..MAX_PAGES {
        let page = match ask(cursor.take()).await {
            Ok(page) => page,
            Err(error) if number == 0 || !is_answer(&error) => return Err(error),
            Err(error) => {
                warnings.log(|left_out| {
                    tracing::warn!(%error, pages = number, left_out, "cannot read a further page of tools");
                });
                return Ok(());
            }
        };
        let goes_on = page.tools.into_iter().all(&mut add);
        let next = page.next.filter(|next| !next.is_empty() && next.len() <= MAX_CURSOR_BYTES);
        let Some(next) = next else { return Ok(()) };
        if !goes_on || !seen.insert(next.clone()) {
            break;
        }
        cursor = Some(next);
    }
    warnings.log(|left_out| {
        tracing::warn!(left_out, "stopped listing tools at the limit, or at a repeated cursor");
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt as _;

    use super::*;

    /// Reads from a server that has tool N on page N, and returns this cursor after it. Returns the
    /// tools read.
    fn read(next: impl Fn(usize) -> Option<String>) -> Vec<usize> {
        let mut asked = 0;
        let mut tools = Vec::new();
        let ask = |_| {
            asked += 1;
            let page = Page { tools: vec![asked], next: next(asked) };
            async move { Ok::<_, Infallible>(page) }
        };
        let add = |tool| {
            tools.push(tool);
            true
        };
        let warnings = PacedLog::default();
        let Ok(()) = every_page(ask, add, |_| true, &warnings).now_or_never().unwrap();
        tools
    }

    #[test]
    fn pages_end_at_the_last_cursor() {
        assert_eq!(read(|_| None), [1]);
        assert_eq!(read(|n| (n < 3).then(|| n.to_string())), [1, 2, 3]);
        assert_eq!(read(|n| Some(if n < 2 { "a".into() } else { String::new() })), [1, 2]);
    }

    #[test]
    fn pages_end_despite_endless_cursors() {
        assert_eq!(read(|_| Some("again".into())), [1, 2]);
        assert_eq!(read(|n| Some((n % 3).to_string())).len(), 4);
        assert_eq!(read(|n| Some(n.to_string())).len(), MAX_PAGES);
    }

    #[test]
    fn pages_end_when_no_more_tools_are_accepted() {
        let mut left = 1_500;
        let mut pages = 0;
        let ask = |_| {
            pages += 1;
            let page = Page { tools: vec![(); 999], next: Some(pages.to_string()) };
            async move { Ok::<_, Infallible>(page) }
        };
        let add = |()| {
            left -= 1;
            left > 0
        };
        let warnings = PacedLog::default();
        every_page(ask, add, |_| true, &warnings).now_or_never().unwrap().unwrap();
        assert_eq!((pages, left), (2, 0));
        assert_eq!(read(|n| Some(n.to_string().repeat(MAX_CURSOR_BYTES + 1))), [1]);
    }

    #[test]
    fn a_broken_later_page_loses_no_earlier_one() {
        let read = |broken: usize, is_answer: bool| {
            let mut asked = 0;
            let mut tools = Vec::new();
            let ask = |_| {
                asked += 1;
                let page = Page { tools: vec![asked], next: Some(asked.to_string()) };
                std::future::ready(if asked == broken { Err("no page") } else { Ok(page) })
            };
            let add = |tool| {
                tools.push(tool);
                true
            };
            let warnings = PacedLog::default();
            let read = every_page(ask, add, |_| is_answer, &warnings).now_or_never().unwrap();
            read.map(|()| tools)
        };
        assert_eq!(read(1, true), Err("no page"));
        assert_eq!(read(2, true), Ok(vec![1]));
        assert_eq!(read(3, true), Ok(vec![1, 2]));
        assert_eq!(read(3, false), Err("no page"), "the previous tools are the better list");
    }

    #[test]
    fn each_page_is_requested_with_the_previous_cursor() {
        let mut cursors = Vec::new();
        let ask = |cursor| {
            cursors.push(cursor);
            let next = (cursors.len() < 3).then(|| format!("c{}", cursors.len()));
            async move { Ok::<_, Infallible>(Page { tools: vec![()], next }) }
        };
        let warnings = PacedLog::default();
        every_page(ask, |()| true, |_| true, &warnings).now_or_never().unwrap().unwrap();
        assert_eq!(cursors, [None, Some("c1".into()), Some("c2".into())]);
    }
}
