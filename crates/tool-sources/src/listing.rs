//! Reads a list of tools page by page, with protection against faulty cursors. Not for the contents
//! of a tool.

use std::collections::HashSet;
use std::future::Future;

use hearken_ports::tool_limits::MAX_TOOLS;

/// Maximum number of pages.
const MAX_PAGES: usize = 100;

/// One page of tools.
pub(super) struct Page<T> {
    /// Tools of the page.
    pub(super) tools: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub(super) next: Option<String>,
}

/// Reads all pages and returns their tools in order. Ends at a cursor that is missing, empty or was
/// seen before, and at the limits; tools read until then are returned.
///
/// # Errors
/// Error of the first page that cannot be read.
pub(super) async fn every_page<T, E, F>(
    mut ask: impl FnMut(Option<String>) -> F,
) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<Page<T>, E>>,
{
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = ask(cursor.take()).await?;
        tools.extend(page.tools.into_iter().take(MAX_TOOLS - tools.len()));
        let Some(next) = page.next.filter(|next| !next.is_empty()) else { return Ok(tools) };
        if tools.len() >= MAX_TOOLS || !seen.insert(next.clone()) {
            break;
        }
        cursor = Some(next);
    }
    tracing::warn!(
        tools = tools.len(),
        "stopped listing tools at the limit, or at a repeated cursor"
    );
    Ok(tools)
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
        let pages = every_page(|_| {
            asked += 1;
            let page = Page { tools: vec![asked], next: next(asked) };
            async move { Ok::<_, Infallible>(page) }
        });
        let Ok(tools) = pages.now_or_never().unwrap();
        tools
    }

    #[test]
    fn pages_end_where_the_server_says_so() {
        assert_eq!(read(|_| None), [1]);
        assert_eq!(read(|n| (n < 3).then(|| n.to_string())), [1, 2, 3]);
        assert_eq!(read(|n| Some(if n < 2 { "a".into() } else { String::new() })), [1, 2]);
    }

    #[test]
    fn pages_end_where_the_server_never_would() {
        assert_eq!(read(|_| Some("again".into())), [1, 2]);
        assert_eq!(read(|n| Some((n % 3).to_string())).len(), 4);
        assert_eq!(read(|n| Some(n.to_string())).len(), MAX_PAGES);
    }

    #[test]
    fn only_so_many_tools_are_kept() {
        let pages = every_page(|_| async {
            Ok::<_, Infallible>(Page { tools: vec![0; 999], next: Some("x".into()) })
        });
        assert_eq!(pages.now_or_never().unwrap().unwrap().len(), MAX_TOOLS);
    }

    #[test]
    fn each_page_is_asked_for_by_the_cursor_before() {
        let mut cursors = Vec::new();
        let pages = every_page(|cursor| {
            cursors.push(cursor);
            let next = (cursors.len() < 3).then(|| format!("c{}", cursors.len()));
            async move { Ok::<_, Infallible>(Page { tools: vec![()], next }) }
        });
        pages.now_or_never().unwrap().unwrap();
        assert_eq!(cursors, [None, Some("c1".into()), Some("c2".into())]);
    }
}
