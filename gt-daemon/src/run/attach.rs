//! Attaching: every question gets its hooks, and every hook has to prove that it sees.

use anyhow::bail;
use tracing::{error, info, warn};

use crate::{
    kernel::{
        capability::{self, Capabilities},
        plan::{self, Attach, Choice, Question},
        support::KernelSupport,
    },
    metrics::Health,
    probes::{
        Probes,
        self_check::{Expectation, Missed, self_check},
    },
};

/// Attaches every question's hooks and checks that they see; returns whether RSTs without a socket are seen.
pub(super) fn attach(
    probes: &mut Probes,
    support: &KernelSupport,
    allowed: Attach,
    health: &Health,
) -> anyhow::Result<bool> {
    for Choice { question, backend, reason } in plan::plan(support, allowed) {
        let Some(backend) = backend else { bail!("no hook for {}: {reason}", question.name()) };
        let other = backend.other();
        let hooks = plan::hooks(support, question, backend);
        if let Err(error) = probes.attach(question, backend, &hooks) {
            if !allowed.allows(other) || plan::serves(support, question, other).is_err() {
                return Err(error.into());
            }
            warn!(hook = question.name(), backend = backend.name(), %error, "refused; using the other backend");
            probes.attach(question, other, &plan::hooks(support, question, other))?;
        }
    }
    if !can_check(support) {
        let fault = format!(
            "attached but not checked: without {} and {} the self-check cannot make its network namespace",
            capability::SYS_ADMIN.name,
            capability::NET_ADMIN.name
        );
        for question in Question::ALL {
            let backend = probes.attached().get(&question).copied();
            health.hook(question, backend, Some(fault.clone()));
        }
        error!("not ready: hooks {fault}");
        return Ok(plan::sees_reset_without_socket(
            support,
            probes.attached().get(&Question::RstSent).copied(),
        ));
    }
    check(probes, support, allowed, health)
}

fn can_check(support: &KernelSupport) -> bool {
    support
        .capabilities
        .or_else(Capabilities::current)
        .is_none_or(|held| held.holds(capability::SYS_ADMIN) && held.holds(capability::NET_ADMIN))
}

/// The self-check; a hook that missed its part is replaced by the other backend once, else reported.
fn check(
    probes: &mut Probes,
    support: &KernelSupport,
    allowed: Attach,
    health: &Health,
) -> anyhow::Result<bool> {
    let expectation = |probes: &Probes| Expectation {
        no_socket: plan::sees_reset_without_socket(
            support,
            probes.attached().get(&Question::RstSent).copied(),
        ),
        ipv6: support.ipv6,
    };
    let mut missed = self_check(&probes.maps(), expectation(probes))?;
    let mut replaced = false;
    for question in Question::ALL {
        let Some(fault) = fault(&missed, question) else { continue };
        let Some(backend) = probes.attached().get(&question).copied() else { continue };
        let other = backend.other();
        if allowed.allows(other) && plan::serves(support, question, other).is_ok() {
            warn!(
                hook = question.name(),
                backend = backend.name(),
                fault,
                "self-check failed; using the other"
            );
            match probes.attach(question, other, &plan::hooks(support, question, other)) {
                Ok(()) => replaced = true,
                Err(error) => error!(hook = question.name(), backend = other.name(), %error, "refused"),
            }
        }
    }
    if replaced {
        missed = self_check(&probes.maps(), expectation(probes))?;
    }
    for question in Question::ALL {
        let backend = probes.attached().get(&question).copied();
        let fault = match backend {
            None => Some("no backend could be attached".to_owned()),
            Some(_) => fault(&missed, question),
        };
        match &fault {
            None => info!(
                hook = question.name(),
                backend = backend.map_or("none", plan::Backend::name),
                "attached and checked"
            ),
            Some(fault) => error!(hook = question.name(), fault, "self-check failed: not ready"),
        }
        health.hook(question, backend, fault);
    }
    Ok(expectation(probes).no_socket)
}

/// What a question's hooks missed, in words.
fn fault(missed: &[Missed], question: Question) -> Option<String> {
    let parts: Vec<_> = missed
        .iter()
        .filter(|miss| miss.question == question)
        .map(|miss| format!("{} seen {} of {} times in the self-check", miss.part, miss.seen, miss.expected))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
