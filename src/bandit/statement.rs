//! What a handle guarantees: in the fields of the public registry of deployments, and in prose for a privacy officer.

use super::Bandit;
use super::report::Report;
use crate::config::Config;
use crate::error::Result;
use crate::policy::Algorithm;
use crate::privacy::PrivacyLoss;
use std::fmt;

/// The guarantee of a handle, as [`Bandit::statement`] reads it. `Display` gives the prose.
#[derive(Clone, Debug)]
pub struct Statement {
    algorithm: Algorithm,
    config: Config,
    report: Report,
    loss: PrivacyLoss,
}

const UNPROTECTED: &str = "that a decision was made, when, and which option it chose; who visits; requests with their \
    features, segments, values and eligible options; cancellations; how many people or requests there are; rewards inside \
    the server's memory, and in its logs";
/// With private features. (Theorem J.)
const UNPROTECTED_THEN: &str = "from whoever sees a request's own decision: its features, because the decision depends on \
    them; that a request was made, and when; who visits; how many requests there are; the codebook; requests and rewards \
    inside the server's memory, and in its logs";
const RELEASED_THEN: &str = "noisy counts by cell of a public codebook, what is learned from them, decisions, snapshots, \
    metrics and this statement";
const RELEASED: &str = "decisions with their propensities, noisy means of options, counts of decisions, snapshots, \
    metrics and this statement";
const POST_PROCESSING: &str = "Decisions, means, intervals and verdicts are computed from released sums and public facts \
    alone.";
const AUDIT: &str = "`make audit LIBRARY=libdpb.so` in the source of this version measures the loss of the installed \
    library; docs/privacy/proofs.md names the proofs, and what a machine has checked of them";
const DUTIES: &str = "The operator declares the range of rewards; chooses requests, features, priors and cancellations \
    without looking at rewards; reports each reward to one handle; continues each restart from the newest snapshot; and \
    keeps logs and diagnostics from everybody whom the guarantee is against.";

impl Bandit {
    /// States what this handle guarantees, from its configuration, and how much is spent. All of it is public.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn statement(&self) -> Result<Statement> {
        let (config, report) = (self.config.config()?, self.report()?);
        let loss = match report.is_private {
            true => self.lock.lock()?.loss_of_unit(self.algorithm.lifetime_loss(&config)?, &config),
            false => PrivacyLoss::Unbounded,
        };
        Ok(Statement { algorithm: self.algorithm, config, report, loss })
    }
}

impl Statement {
    /// The name of the kind of privacy, as the registry has it.
    fn variant(&self) -> &'static str {
        match self.loss {
            PrivacyLoss::Pure(_) => "Pure DP",
            PrivacyLoss::Zcdp(_) => "Zero-Concentrated DP",
            PrivacyLoss::Unbounded => "None",
            _ => "Approximate DP",
        }
    }

    /// What one reward is in this configuration.
    fn reward(&self) -> &'static str {
        match (self.config.max_slots, self.config.parts) {
            _ if self.config.private_features => {
                "one request with its features, eligible options, values, cancellation and reward"
            }
            (0, 0) => "one reward",
            (0, _) => "one decision with all parts of its reward",
            _ => "one request with all its rewards",
        }
    }

    fn unit(&self) -> &'static str {
        match (self.config.expected_users, self.config.budget_periods, self.config.contributions_per_user) {
            (0, _, 1) => "Event-level",
            (0, ..) => "User-level",
            (_, 0, _) => "User-period-level",
            _ => "User-level",
        }
    }

    fn unit_in_words(&self) -> String {
        let Config { expected_users, budget_periods, contributions_per_user: m, max_slots, .. } = self.config;
        let is_of_requests = max_slots > 0 || self.config.private_features;
        let (one, many) = (self.reward(), if is_of_requests { "requests" } else { "decisions" });
        let all = if self.config.private_features { "all requests" } else { "all rewards" };
        match (expected_users, budget_periods, m) {
            (0, _, 1) => format!(
                "{one}: its value, and with a reward window also its time; a person with n of them loses up \
                to n times as much"
            ),
            (0, ..) => format!(
                "{all} of one person with at most {m} {many}, for ever; the program that calls the \
                library limits each person"
            ),
            (_, 0, _) => format!(
                "all rewards of one person in one period, in which the library learns from at most {m} \
                {many} of a person; losses of periods add up, and a restart begins a period"
            ),
            _ => format!(
                "all rewards of one person, in at most {budget_periods} periods; in each the library learns from \
                at most {m} {many} of a person"
            ),
        }
    }

    /// The model, and who is trusted.
    fn model(&self) -> (&'static str, &'static str) {
        if self.algorithm.needs_shuffler() {
            ("Shuffle", "a shuffler between the users' devices and the server")
        } else if self.algorithm.takes_bits() {
            ("Local", "nobody: each device adds noise to what it sends")
        } else {
            ("Central", "the operator's servers, which see rewards")
        }
    }

    /// What is released, and what is not protected.
    fn released(&self) -> (&'static str, &'static str) {
        if self.config.private_features { (RELEASED_THEN, UNPROTECTED_THEN) } else { (RELEASED, UNPROTECTED) }
    }

    fn mechanism(&self) -> &'static str {
        match (self.loss, self.model().0) {
            (PrivacyLoss::Unbounded, _) => "none",
            (_, "Local") => "randomised response on the user's device",
            (_, "Shuffle") => "binomial noise in messages of the users' devices, through a shuffler",
            (PrivacyLoss::Zcdp(_), _) => {
                "discrete Gaussian noise on sums of batches of rewards, sampled exactly in integers"
            }
            (PrivacyLoss::Pure(_), _) => {
                "discrete Laplace noise on sums of batches of rewards, sampled exactly in integers"
            }
            _ => "discrete noise on sums of rewards, sampled exactly in integers, on a schedule of releases",
        }
    }

    fn composition(&self) -> &'static str {
        match self.loss {
            PrivacyLoss::Unbounded => "none",
            PrivacyLoss::Pure(_) => {
                "The bound is for all decisions, reads and restarts together. Each reward is in one \
                batch at most, and each batch is released once, or the policy's own proof adds up the releases."
            }
            PrivacyLoss::Zcdp(_) => {
                "The bound is for all decisions, reads and restarts together. Each reward is in one \
                batch at most, and each batch is released once. Rho is converted to epsilon and delta."
            }
            _ => "The bound is for all decisions, reads and restarts together, by the policy's own proof.",
        }
    }

    /// Epsilon for all time and its delta; `None` for what has no bound.
    fn bound(&self) -> Option<(f64, f64)> {
        Some(self.loss.stated(self.config.delta)).filter(|bound| bound.0.is_finite())
    }

    /// The statement as JSON: `deployment` has the fields of the registry, those that only the operator knows as null,
    /// and `libdpb` has the versions and what is spent.
    pub fn json(&self) -> String {
        let Config { reward_min: least, reward_max: most, .. } = self.config;
        let Report { is_private, epsilon_spent, delta_spent, epsilon_left, .. } = self.report;
        let (epsilon, delta) = self.bound().unzip();
        let rho = if let PrivacyLoss::Zcdp(rho) = self.loss { Some(rho) } else { None };
        let [epsilon, delta, rho] = [epsilon, delta, rho].map(number);
        let [spent, at_delta, left] = [epsilon_spent, delta_spent, epsilon_left].map(|known| number(Some(known)));
        let (variant, unit, unit_in_words) = (self.variant(), self.unit(), self.unit_in_words());
        let ((model, trusted), (released, unprotected)) = (self.model(), self.released());
        let (inequality, composition, mechanism) = (self.inequality(), self.composition(), self.mechanism());
        let (version, policy) = (env!("CARGO_PKG_VERSION"), self.algorithm.name());
        // Texts are of this file, without quotation marks, backslashes and ends of lines.
        let shown = format!(
            r#"{{
            "deployment":{{
                "basic":{{
                    "name":null,
                    "description":null,
                    "intended_use":null,
                    "data_curator":null,
                    "data_product_type":null,
                    "publication_date":null
                }},
                "dp_variant":{{
                    "name":"{variant}",
                    "data_domain":"rewards in [{least}, {most}]",
                    "unprotected_quantities":"{unprotected}"
                }},
                "privacy_loss":{{
                    "privacy_unit":"{unit}",
                    "privacy_unit_description":"{unit_in_words}",
                    "privacy_parameters":{{"epsilon":{epsilon},"delta":{delta},"rho":{rho}}},
                    "privacy_parameters_description":"{inequality}"
                }},
                "deployment_model":{{
                    "model_name":"{model}",
                    "model_name_description":"trusted: {trusted}",
                    "release_type":"continual",
                    "release_type_description":"{released}"
                }},
                "accounting":{{
                    "composition":"{composition}",
                    "post_processing":"{POST_PROCESSING}"
                }},
                "implementation":{{
                    "pre_processing_eda_hyperparameter_tuning":"{DUTIES}",
                    "mechanisms":"{mechanism}",
                    "justification":null
                }}
            }},
            "libdpb":{{
                "version":"{version}",
                "policy":"{policy}",
                "is_private":{is_private},
                "epsilon_spent":{spent},
                "delta_spent":{at_delta},
                "epsilon_left":{left},
                "audit":"{AUDIT}"
            }}
            }}"#
        );
        shown.lines().map(str::trim_start).collect::<String>() + "\n"
    }

    fn inequality(&self) -> String {
        match self.bound() {
            None => "No bound.".to_owned(),
            Some((epsilon, 0.0)) => format!(
                "The probability of anything that an adversary sees differs by a factor of at most e^{epsilon} = {:.4} for \
                any two values of one unit.",
                epsilon.exp()
            ),
            Some((epsilon, delta)) => format!(
                "For any two values of one unit and anything that an adversary sees, P <= e^{epsilon} P' + {delta}, where \
                e^{epsilon} = {:.4}.",
                epsilon.exp()
            ),
        }
    }
}

/// For a privacy officer: one page.
impl fmt::Display for Statement {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let (policy, version) = (self.algorithm.name(), env!("CARGO_PKG_VERSION"));
        writeln!(to, "Privacy statement of a bandit ({policy}, libdpb {version})\n")?;
        let Some((epsilon, delta)) = self.bound() else {
            return writeln!(
                to,
                "NOT PRIVATE: this bandit has a test seed or a policy without privacy. Publish nothing of it."
            );
        };
        let Config { reward_min: least, reward_max: most, private_features, .. } = self.config;
        let Report { epsilon_spent, delta_spent, epsilon_left, .. } = self.report;
        let (unit, unit_in_words, inequality) = (self.unit(), self.unit_in_words(), self.inequality());
        let ((model, trusted), (released, unprotected)) = (self.model(), self.released());
        let (composition, mechanism) = (self.composition(), self.mechanism());
        let unseen = if private_features { " but those of the unit" } else { "" };
        writeln!(
            to,
            "Purpose. The service chooses options, and learns from rewards in [{least}, {most}] which are best. Learning is \
            differentially private.\n\n\
            Unit. {unit}: {unit_in_words}.\n\n\
            Bound. Epsilon is {epsilon}, delta is {delta}. {inequality}\n\n\
            Adversary. Somebody who sees all decisions{unseen} and publications, chooses requests by what they have seen, \
            and knows all rewards but those of the unit. They cannot break the cipher ChaCha20, which noise is drawn \
            from.\n\n\
            Composition. {composition} Releases of other systems, and of other bandits that see the same people, add to \
            it.\n\n\
            Trust. {model} model; trusted: {trusted}.\n\n\
            Released: {released}. {POST_PROCESSING}\n\n\
            Not protected: {unprotected}.\n\n\
            Mechanism: {mechanism}.\n\n\
            So far at most {epsilon_spent} of epsilon is spent, at delta {delta_spent}; left: {epsilon_left}.\n\n\
            The operator's part. {DUTIES}\n\n\
            Evidence: {AUDIT}."
        )
    }
}

/// A number in JSON. What is infinite or has no bound is null.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or("null".to_owned(), |value| format!("{value:?}"))
}
