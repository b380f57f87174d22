//! `selvedge explain`: a page about a diagnostic code, or a full description of a plan.

use std::fs;

use anyhow::{Context, bail};
use selvedge_compiler::plan::compile::explain_plan;
use selvedge_compiler::{Code, Plan};

use crate::args::{ExplainArgs, Format};

/// Returns the text to print.
///
/// # Errors
/// The code does not exist, the file cannot be read or contains no plan, or the plan is refused.
pub fn run(args: &ExplainArgs) -> anyhow::Result<String> {
    if let Some(code) = Code::find(&args.what) {
        if args.format != Format::Text {
            bail!("the page of {} is text; `--format` is for a plan", args.what);
        }
        return Ok(format!("{}\n", code.page()));
    }
    if looks_like_a_code(&args.what) {
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        bail!("there is no {}; the codes are {}", args.what, codes.join(", "));
    }
    let text = fs::read_to_string(&args.what).with_context(|| format!("cannot read {}", args.what))?;
    let plan = Plan::from_json(&text).with_context(|| args.what.clone())?;
    let explained = explain_plan(&plan)?;
    Ok(match args.format {
        Format::Text => explained,
        Format::Dot => plan.to_dot(),
        Format::Mermaid => plan.to_mermaid(),
        Format::Svg => plan.to_svg(),
        Format::Html => plan.to_html(&[]),
    })
}

fn looks_like_a_code(text: &str) -> bool {
    let digits = text.strip_prefix(['D', 'd']);
    digits.is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
