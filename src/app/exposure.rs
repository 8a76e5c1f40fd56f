//! Table of which clients may use which routes, logged at startup. Not for the rules, which are in `http::Auth`.

use hearken_base::Secret;

use crate::config::{AuthRequired, Config, DeviceAdmission};

/// Clients that may use a group of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    /// Clients with the token of this key.
    Token(&'static str),
    /// Devices on this machine; others with a device token. The field is the requirement for devices from outside.
    Devices(DeviceAdmission),
    /// Devices with a device token. The field is the requirement for devices from outside.
    DevicesWithToken(DeviceAdmission),
    /// Clients on this machine and in its private networks; others with the admin token.
    Near,
    /// Every client that reaches the port.
    Everybody,
}

impl Admitted {
    /// Returns true if every client that reaches the port is admitted.
    fn is_everybody(self) -> bool {
        use DeviceAdmission::Anyone;
        matches!(self, Self::Everybody | Self::Devices(Anyone) | Self::DevicesWithToken(Anyone))
    }

    fn told(self) -> String {
        match self {
            Self::Token(key) => format!("clients with `{key}`"),
            Self::Devices(admit) => {
                format!(
                    "devices on this machine; others with a device's token, {}",
                    from_outside(admit)
                )
            }
            Self::DevicesWithToken(admit) => {
                format!("devices with a device's token, {}", from_outside(admit))
            }
            Self::Near => {
                "this machine and its private networks; others with the admin token".into()
            }
            Self::Everybody => "every client".into(),
        }
    }
}

fn from_outside(admit: DeviceAdmission) -> &'static str {
    match admit {
        DeviceAdmission::Bound => "from outside after their code was entered",
        DeviceAdmission::Token => "from outside once bound or given a token",
        DeviceAdmission::Anyone => "which every device from outside gets (`devices.admit`)",
    }
}

/// Returns each enabled group of routes, and the clients that may use it.
fn exposure(config: &Config) -> Vec<(&'static str, Admitted)> {
    let never = config.auth.required == AuthRequired::Never;
    let access =
        |key, token: &Secret, open_to_all: bool| match (token.is_empty(), open_to_all || never) {
            (false, _) => Admitted::Token(key),
            (true, true) => Admitted::Everybody,
            (true, false) => Admitted::Near,
        };
    let devices = match config.auth.required {
        AuthRequired::Never => Admitted::Everybody,
        AuthRequired::Always => Admitted::DevicesWithToken(config.devices.admit),
        AuthRequired::Auto => Admitted::Devices(config.devices.admit),
    };
    let gateway = &config.gateway;
    let chat = &config.chat;
    let museum = &config.museum;
    let admin = if never { Admitted::Everybody } else { Admitted::Token("auth.admin_token") };
    let near = if never { Admitted::Everybody } else { Admitted::Near };
    let rows = [
        ("devices", true, devices),
        (
            "text clients",
            gateway.enabled,
            access("gateway.token", &gateway.token, gateway.open_to_all),
        ),
        ("chat sessions", chat.enabled, access("chat.token", &chat.token, chat.open_to_all)),
        (
            "museum clients",
            museum.enabled,
            access("museum.token", &museum.token, museum.open_to_all),
        ),
        ("management of devices and tools", true, admin),
        ("administration", config.admin.enabled, Admitted::Token("admin.password")),
        ("metrics", true, near),
    ];
    rows.into_iter().filter(|(_, enabled, _)| *enabled).map(|(name, _, to)| (name, to)).collect()
}

/// Logs which clients may use which routes.
pub(super) fn log_exposure(config: &Config) {
    for (part, admitted) in exposure(config) {
        let open_to = admitted.told();
        if admitted.is_everybody() {
            tracing::warn!(part, open_to, "access");
        } else {
            tracing::info!(part, open_to, "access");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_open_to_every_client_by_explicit_settings_only() {
        let mut config = Config::default();
        let everybody = |config: &Config| {
            let open = exposure(config).into_iter().filter(|(_, to)| to.is_everybody());
            open.map(|(part, _)| part).collect::<Vec<_>>()
        };
        assert!(everybody(&config).is_empty());
        config.gateway.open_to_all = true;
        assert_eq!(everybody(&config), ["text clients"]);
        config.gateway.token = Secret::new("t");
        assert!(everybody(&config).is_empty());
        config.devices.admit = DeviceAdmission::Anyone;
        assert_eq!(everybody(&config), ["devices"]);
        config.auth.required = AuthRequired::Never;
        let open =
            ["devices", "chat sessions", "museum clients", "management of devices and tools"];
        assert_eq!(everybody(&config)[..4], open);
    }
}
