//! Which group pays for a client that has shown a certificate.

use crate::groups::{Claim, Groups};
use crate::rules::{ClientGroup, Rules};
use iopace_groups::tree::TreeError;

/// The rules, with the groups that they name.
pub(super) struct ClientRules {
    rules: Rules,
    /// These groups stay as long as there are the rules.
    _groups: Vec<Claim>,
}

impl ClientRules {
    /// Makes the groups of the rules that are missing.
    pub(super) fn new(groups: &Groups, rules: Rules) -> Result<ClientRules, TreeError> {
        let claims = rules.all().iter().map(|rule| groups.claim(rule.group()));
        Ok(ClientRules { _groups: claims.collect::<Result<_, _>>()?, rules })
    }

    /// The group of a client whose certificate has this name, if a rule fits; made if missing.
    pub(super) fn group(&self, groups: &Groups, certificate: &str) -> Option<String> {
        match self.rules.client_group(certificate)? {
            ClientGroup::There(path) => Some(path.to_owned()),
            ClientGroup::Own(path) => match groups.claim(&path) {
                Ok(_) => Some(path),
                Err(error) => {
                    tracing::warn!(certificate, "no group of its own for a client: {error}");
                    None
                }
            },
        }
    }
}
