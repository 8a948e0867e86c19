//! The commands of `on`, `startup` and `shutdown`.

use std::io;

use tokio::process::Command;

use crate::corefile::settings::{Corefile, Event, Hook};
use crate::output;

/// The commands of a configuration, in file order.
#[derive(Clone, Debug, Default)]
pub struct Hooks(Vec<Hook>);

impl Hooks {
    /// Those of all blocks.
    pub fn of(corefile: &Corefile) -> Self {
        Self(corefile.blocks.iter().flat_map(|block| block.hooks.clone()).collect())
    }

    /// Runs the commands of an event, one after the other, with our own input and output. What fails is logged, and the
    /// next one has its turn.
    pub async fn run(&self, event: Event) {
        for (hook, at) in self.0.iter().zip(1..).filter(|(hook, _)| hook.event == event) {
            if hook.in_background {
                let hook = hook.clone();
                tokio::spawn(async move { one(&hook, at).await });
            } else {
                one(hook, at).await;
            }
        }
    }
}

async fn one(hook: &Hook, at: usize) {
    let Some((program, args)) = hook.command.split_first() else {
        return;
    };
    let failed = match Command::new(program).args(args).status().await {
        Ok(status) if status.success() => return,
        Ok(status) => status.to_string().replace("exit status: ", "exit status "),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("exec: \"{program}\": executable file not found in $PATH")
        }
        Err(error) => format!("exec: \"{program}\": {error}"),
    };
    output::error(&format!("error on 'on-{at}' hook: {failed}"));
}
