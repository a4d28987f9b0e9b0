//! Logs on stderr by `tracing`, as text or JSON lines.

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::cli::{LogFormat, LoggingOptions};

/// Starts logging; once per process.
pub fn start(options: &LoggingOptions) -> anyhow::Result<()> {
    // The loader tells every relocation at debug level. kube warns of what gt tells itself, and with whole answers
    // of the server. Who wants that can still name it.
    let directives = format!("aya=info,aya_obj=info,kube_client=off,kube_runtime=off,{}", options.log);
    let filter = EnvFilter::try_new(directives).with_context(|| format!("--log {:?}", options.log))?;
    // A log that cannot be written must not end the daemon.
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match options.log_format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
