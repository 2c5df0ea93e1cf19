//! Sockets that a service manager has made, in the place of those that would be made here.

use super::plan::{Control, Plan, check_remote};
use crate::output::Failure;
use iopace_daemon::config::Listen;
use iopace_daemon::given::{CONTROL_NAME, GivenAddress, GivenSocket};

/// The plan with the sockets that were given: those for clients instead of the default one, and
/// beside those that are named.
///
/// # Errors
/// One of them cannot be listened to, other machines reach it and need not encrypt, or there is a
/// control socket too many.
pub fn taken(mut plan: Plan) -> Result<Plan, Failure> {
    let all = GivenSocket::take_all().map_err(|error| Failure::usage(error.to_string()))?;
    for socket in all {
        if !socket.is_control() {
            if let GivenAddress::Tcp(address) = socket.at {
                let asked = "the service manager has made a socket at";
                check_remote(address, asked, &plan.config.tls)?;
            }
            plan.config.listen.push(Listen::Given(socket));
        } else if plan.control == Control::Default {
            plan.control = Control::Given(socket);
        } else {
            return Err(Failure::usage(format!(
                "the service manager has made a control socket (FileDescriptorName=\
                 {CONTROL_NAME}), and the settings name one, or none: leave one of them out"
            )));
        }
    }
    Ok(plan)
}
