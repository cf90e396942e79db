//! The wrapper for LuaJIT, alone and in nginx, and the programs on its page.

use crate::support::{empty_directory, have, library_dir, root, run, skip, snippets};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PLACE: &str = "bindings/lua";
const PAGE: &str = "bindings/lua/README.md";

/// LuaJIT, with dpb.lua in its path. `luajit -v` is its only question for the version.
fn luajit() -> Option<Command> {
    let found = ["luajit", "luajit2"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
    let Some(name) = found else {
        skip("luajit not found (apt-get install luajit2)");
        return None;
    };
    let mut command = Command::new(name);
    command.current_dir(root().join(PLACE));
    Some(command)
}

#[test]
fn the_wrapper_passes_its_tests() {
    let Some(mut luajit) = luajit() else { return };
    let library = library_dir().join("libdpb.so");
    assert_eq!(run(luajit.arg("test.lua").arg(&library)), "passed\n");
    let program = &snippets(PAGE, "lua")[0];
    let program = format!("require('dpb').load '{}'\n{program}", library.display());
    let mut luajit = self::luajit().unwrap();
    assert!(run(luajit.args(["-e", &program])).starts_with("show ad"));
}

/// The page's configuration in a real nginx.
#[test]
fn the_page_works_in_nginx() {
    const PATIENCE: Duration = Duration::from_secs(300);
    const MODULES: &str = "/usr/lib/nginx/modules";
    if !have("nginx") {
        return;
    }
    if !Path::new(MODULES).join("ngx_http_lua_module.so").exists() {
        return skip("nginx's lua module not found (apt-get install libnginx-mod-http-lua)");
    }
    let place = empty_directory("lua", "nginx");
    let socket = std::env::temp_dir().join(format!("dpb-lua-{}", std::process::id()));
    let (at, root) = (place.display(), root().canonicalize().unwrap());
    let named = place.join("libdpb.so.0");
    std::fs::copy(library_dir().join("libdpb.so"), &named).unwrap();
    let page = snippets(PAGE, "nginx")[0].replace("listen 8080", &format!("listen unix:{}", socket.display()));
    let page = page.replace("require \"dpb\"\n", &format!("require(\"dpb\").load \"{}\"\n", named.display()));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {at}/{kind};\n")).concat();
    // A worker of root's nginx has another user, who may not read this place.
    let is_root = std::os::unix::fs::MetadataExt::uid(&place.metadata().unwrap()) == 0;
    let user = if is_root { "user root;\n" } else { "" };
    let config = format!(
        "{user}load_module {MODULES}/ndk_http_module.so;\nload_module {MODULES}/ngx_http_lua_module.so;\nworker_processes 1;\n\
         pid {at}/pid;\nerror_log {at}/error.log info;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
         lua_package_path \"{}/{PLACE}/?.lua;;\";\n{page}}}\n",
        root.display()
    );
    std::fs::write(place.join("nginx.conf"), config).unwrap();
    struct Nginx(std::process::Child);
    impl Drop for Nginx {
        fn drop(&mut self) {
            let pid = self.0.id() as i32;
            // SAFETY: a signal to a child that is not waited for yet. SIGTERM, so that its worker ends too.
            unsafe { libc::kill(pid, libc::SIGTERM) };
            let _ = self.0.wait();
        }
    }
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(&place).arg("-c").arg(place.join("nginx.conf")).arg("-e").arg(place.join("error.log"));
    let _nginx = Nginx(nginx.spawn().unwrap());
    let begun = Instant::now();
    let connect = || loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => return stream,
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}: {:?}", std::fs::read_to_string(place.join("error.log"))),
        }
    };
    let get = |path: &str| {
        let mut stream = connect();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.trim().to_owned())
    };
    let mut tickets = Vec::new();
    for _ in 0..50 {
        let (status, chosen) = get("/choose");
        let (arm, ticket) = chosen.split_once(' ').unwrap();
        assert!(status == "200" && arm.parse::<u32>().unwrap() < 3, "{chosen}");
        tickets.push(ticket.to_owned());
        assert_eq!(get(&format!("/reward?ticket={ticket}")).0, "204");
    }
    tickets.sort();
    tickets.dedup();
    assert_eq!(tickets.len(), 50);
    for wrong in ["", "?ticket=1", "?ticket=x", "?ticket=99999999999999999999999"] {
        assert_eq!(get(&format!("/reward{wrong}")).0, "204", "{wrong}");
    }
    let log = std::fs::read_to_string(place.join("error.log")).unwrap();
    assert!(!log.contains("[error]") && !log.contains("[alert]"), "{log}");
}
