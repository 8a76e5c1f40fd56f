//! Checks of the files in `deploy/`: no container and no service may do more than it needs. Not
//! whether they work, which needs Docker and systemd.

use yaml_rust2::{Yaml, YamlLoader};

use super::root;

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(file)).unwrap()
}

fn compose() -> Yaml {
    YamlLoader::load_from_str(&text("compose.yaml")).unwrap().remove(0)
}

/// A key of a service, or of what is merged into it.
fn key<'a>(service: &'a Yaml, name: &str) -> &'a Yaml {
    match (&service[name], &service["<<"]) {
        (Yaml::BadValue, Yaml::BadValue) => &Yaml::BadValue,
        (Yaml::BadValue, merged) => key(merged, name),
        (own, _) => own,
    }
}

fn words(list: &Yaml) -> Vec<&str> {
    list.as_vec().into_iter().flatten().filter_map(Yaml::as_str).collect()
}

#[test]
fn no_container_has_more_rights_than_it_needs() {
    let compose = compose();
    let services = compose["services"].as_hash().unwrap();
    assert!(services.len() >= 6, "three instances, nginx, PostgreSQL and Redis");
    for (name, service) in services {
        let name = name.as_str().unwrap();
        let user = key(service, "user").as_str().unwrap_or_else(|| panic!("{name}: no user"));
        assert!(!user.starts_with("0") && !user.starts_with("root"), "{name}: {user}");
        assert_eq!(words(key(service, "cap_drop")), ["ALL"], "{name}");
        assert_eq!(key(service, "cap_add"), &Yaml::BadValue, "{name}");
        assert_eq!(key(service, "privileged"), &Yaml::BadValue, "{name}");
        assert_eq!(words(key(service, "security_opt")), ["no-new-privileges:true"], "{name}");
        assert_eq!(key(service, "read_only").as_bool(), Some(true), "{name}");
        assert!(!words(key(service, "tmpfs")).is_empty(), "{name}: it may write nowhere");
        assert!(key(service, "pids_limit").as_i64().is_some(), "{name}");
    }
}

#[test]
fn images_are_named_by_their_exact_version() {
    let compose = compose();
    for (name, service) in compose["services"].as_hash().unwrap() {
        let image = key(service, "image").as_str().unwrap();
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{name:?}: {image}"));
        let version = tag.split('-').next().unwrap();
        let exact = version.contains('.') && version.split('.').all(|n| n.parse::<u32>().is_ok());
        assert!(exact, "{name:?}: {image} may be another tomorrow");
    }
}

#[test]
fn the_store_and_redis_are_reached_by_the_instances_only() {
    let compose = compose();
    assert_eq!(compose["networks"]["back"]["internal"].as_bool(), Some(true));
    for (name, service) in compose["services"].as_hash().unwrap() {
        let name = name.as_str().unwrap();
        let networks = words(key(service, "networks"));
        let published = key(service, "ports") != &Yaml::BadValue;
        assert_eq!(published, name == "nginx", "{name}");
        if ["postgres", "redis"].contains(&name) {
            assert_eq!(networks, ["back"], "{name}");
        }
        assert_eq!(key(service, "network_mode"), &Yaml::BadValue, "{name}");
    }
}

#[test]
fn the_service_of_systemd_is_confined() {
    let unit = text("hearken.service");
    for line in [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "RestrictNamespaces=yes",
        "SystemCallFilter=@system-service",
    ] {
        assert!(unit.lines().any(|l| l == line), "{line}");
    }
}
