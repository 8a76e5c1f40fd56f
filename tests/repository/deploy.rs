//! Checks of the files in `deploy/`: containers and services have only the rights that they need.
//! Whether they work is not tested here, as that needs Docker and systemd.

use yaml_rust2::{Yaml, YamlLoader};

use super::root;

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(file)).unwrap()
}

fn compose() -> Yaml {
    YamlLoader::load_from_str(&text("compose.yaml")).unwrap().remove(0)
}

/// A key of a service, or of the mapping merged into it.
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
        assert!(!words(key(service, "tmpfs")).is_empty(), "{name}: no writable folder");
        assert!(key(service, "pids_limit").as_i64().is_some(), "{name}");
        let options = &key(service, "logging")["options"];
        assert!(options["max-size"].as_str().is_some(), "{name}: its log may fill the disk");
        assert!(options["max-file"].as_str().is_some(), "{name}");
    }
}

#[test]
fn images_have_exact_version_tags() {
    let compose = compose();
    for (name, service) in compose["services"].as_hash().unwrap() {
        let image = key(service, "image").as_str().unwrap();
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{name:?}: {image}"));
        let version = tag.split('-').next().unwrap();
        let exact = version.contains('.') && version.split('.').all(|n| n.parse::<u32>().is_ok());
        assert!(exact, "{name:?}: {image} is not an exact version");
    }
}

#[test]
fn only_instances_can_reach_the_store_and_redis() {
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
fn the_data_folder_of_an_instance_is_on_a_volume() {
    let compose = compose();
    let instance = &compose["services"]["hearken-1"];
    let folder = key(instance, "environment")["HEARKEN__SERVER__DATA_DIR"].as_str().unwrap();
    let is_in = |place: &&str| folder.starts_with(&format!("{place}/"));
    let in_memory = words(key(instance, "tmpfs"));
    let in_memory: Vec<&str> = in_memory.iter().filter_map(|t| t.split(':').next()).collect();
    assert!(!in_memory.iter().any(is_in), "a backup does not fit in memory");
    // A volume without a name: each instance has its own.
    assert!(words(key(instance, "volumes")).iter().any(is_in), "{folder}");
}

#[test]
fn nginx_knows_the_port_that_its_container_publishes() {
    let compose = compose();
    let nginx = &compose["services"]["nginx"];
    let environment = key(nginx, "environment");
    let port = environment["HEARKEN_PORT"].as_str().unwrap();
    assert_eq!(words(key(nginx, "ports")), [format!("{port}:80")]);
    // The image writes each file of its folder of templates, without the suffix, to this folder.
    let folder = environment["NGINX_ENVSUBST_OUTPUT_DIR"].as_str().unwrap();
    assert!(words(key(nginx, "tmpfs")).iter().any(|t| t.starts_with(&format!("{folder}:"))));
    let mut mounted = words(key(nginx, "volumes")).into_iter();
    let template = "./nginx-port.conf.template:/etc/nginx/templates/";
    let written = mounted.find_map(|volume| volume.strip_prefix(template)).unwrap();
    let written = format!("{folder}/{}", written.trim_end_matches(".template:ro"));
    let config = text("nginx.conf");
    let (_, included) = config.split_once("        include /run/").unwrap();
    let (included, _) = included.split_once(';').unwrap();
    let (before, after) = included.split_once('*').unwrap();
    let before = format!("/run/{before}");
    assert!(written.starts_with(&before) && written.ends_with(after), "{written}: {included}");
    let template = text("nginx-port.conf.template");
    assert_eq!(template.lines().last(), Some("80 ${HEARKEN_PORT};"));
    assert!(config.contains("\n        listen 80;\n"));
    assert!(config.contains("    proxy_set_header X-Forwarded-Port $public_port;\n"));
}

#[test]
fn nginx_resolves_the_names_of_instances_while_it_runs() {
    let compose = compose();
    let services = compose["services"].as_hash().unwrap();
    let names = services.keys().filter_map(Yaml::as_str).filter(|n| n.starts_with("hearken-"));
    let file = text("nginx-instances.conf");
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    let servers: Vec<&str> = lines.iter().filter_map(|l| l.strip_prefix("server ")).collect();
    // A name that is resolved at the start keeps nginx from starting, or has an old address.
    let expected: Vec<String> =
        names.map(|name| format!("{name}:9400 resolve max_fails=1 fail_timeout=5s;")).collect();
    assert_eq!(servers, expected);
    assert!(lines.contains(&"resolver 127.0.0.11 valid=5s ipv6=off;"));
    let config = text("nginx.conf");
    let (_, upstream) = config.split_once("\n    upstream hearken {\n").unwrap();
    let (upstream, _) = upstream.split_once('}').unwrap();
    for line in ["        zone hearken 256k;", "        include nginx-instances.conf;"] {
        assert!(upstream.lines().any(|l| l == line), "{line}");
    }
    let nginx = &compose["services"]["nginx"];
    let mounted = words(key(nginx, "volumes"));
    for file in ["nginx.conf", "nginx-instances.conf"] {
        let mount = format!("./{file}:/etc/nginx/{file}:ro");
        assert!(mounted.contains(&mount.as_str()), "{mount}");
    }
    let (_, tag) = key(nginx, "image").as_str().unwrap().split_once(':').unwrap();
    let numbers = tag.split('-').next().unwrap().split('.');
    let version: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
    assert!(
        version.as_slice() >= [1, 27, 3].as_slice(),
        "{tag} cannot resolve names while it runs"
    );
}

#[test]
fn nginx_admits_the_largest_bodies_of_each_route() {
    let config = text("nginx.conf");
    let limit = |block: &str| {
        let line = block.lines().map(str::trim).find(|l| l.starts_with("client_max_body_size "));
        let size = line?.trim_start_matches("client_max_body_size ").trim_end_matches("m;");
        size.parse::<u32>().ok()
    };
    assert!(limit(&config) >= Some(10), "pictures of devices");
    let (_, enrolment) = config.split_once("location ~ ^/api/(v1/)?persons(/|$) {").unwrap();
    let (enrolment, _) = enrolment.split_once('}').unwrap();
    assert!(limit(enrolment) >= Some(40));
}

#[test]
fn nginx_holds_bodies_in_memory_only() {
    let config = text("nginx.conf");
    let (always, named) = config.split_once("location @named {").unwrap();
    let (named, _) = named.split_once('}').unwrap();
    assert!(always.contains("    proxy_request_buffering off;"), "bodies are not held");
    assert_eq!(config.matches("proxy_request_buffering on;").count(), 1);
    for line in [
        "proxy_request_buffering on;",
        "client_max_body_size 256k;",
        "client_body_buffer_size 256k;",
    ] {
        assert!(named.contains(line), "a body that is held fits in memory: {line}");
    }
}

#[test]
fn nginx_logs_neither_queries_nor_ids() {
    let config = text("nginx.conf");
    let (_, format) = config.split_once("log_format ").unwrap();
    let (format, _) = format.split_once(';').unwrap();
    let logged: Vec<&str> = format
        .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$'))
        .filter(|word| word.starts_with('$'))
        .collect();
    let plain = [
        "$proxy_protocol_addr",
        "$time_iso8601",
        "$request_method",
        "$logged_path",
        "$status",
        "$request_time",
        "$upstream_addr",
        "$sent_http_x_request_id",
    ];
    assert_eq!(logged, plain);
    assert!(config.contains("map $uri $logged_path {"));
    // The error log has no format: its lines of lesser levels contain the address of the request.
    let levels: Vec<&str> =
        config.lines().filter_map(|line| line.trim().strip_prefix("error_log ")).collect();
    assert_eq!(levels, ["stderr crit;"]);
}

#[test]
fn the_systemd_service_is_sandboxed() {
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

#[test]
fn systemd_waits_for_the_longest_upgrade_of_a_store() {
    let number = |file: &str, before: &str| {
        let (_, number) = file.split_once(before).unwrap();
        let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse::<u64>().unwrap()
    };
    let allowed = number(&text("hearken.service"), "\nTimeoutStartSec=");
    let source = std::fs::read_to_string(root().join("src/app/data_folder.rs")).unwrap();
    let upgraded = number(&source, "UPGRADED_WITHIN: Duration = Duration::from_secs(");
    assert!(allowed >= upgraded + 60, "{allowed} s, and {upgraded} s for the upgrade alone");
}
