//! Table of what is open to whom, logged at the start. Not for the rules, which `http::Auth` has.

use hearken_base::Secret;

use crate::config::{AuthRequired, Config, DeviceAdmission};

/// Who may use a group of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    /// Clients with the token of this key.
    Token(&'static str),
    /// Devices on this machine; others with a device's token, for which this is asked of those from outside.
    Devices(DeviceAdmission),
    /// All devices with a device's token, for which this is asked of those from outside.
    DevicesWithToken(DeviceAdmission),
    /// Everybody on this machine and in its private networks; others with the admin token.
    Near,
    /// Everybody who reaches the port.
    Everybody,
}

impl Admitted {
    /// Returns true if everybody who reaches the port is let in.
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
            Self::Everybody => "everybody".into(),
        }
    }
}

fn from_outside(admit: DeviceAdmission) -> &'static str {
    match admit {
        DeviceAdmission::Bound => "from outside after their code was entered",
        DeviceAdmission::Token => "from outside after they were bound or were made one",
        DeviceAdmission::Anyone => "which everybody from outside gets (`devices.admit`)",
    }
}

/// Returns each group of routes that is enabled, and who may use it.
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

/// Logs what is open to whom.
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
    fn what_is_open_to_everybody_is_so_by_an_explicit_setting() {
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
