//! Runs the tests of the Java package, and builds programs that use it as users do.

use crate::support::http::Server;
use crate::support::{
    self, copy_of, empty_directory, have, library_dir, own_address, root, run, skip, snippets, text, version,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

const PACKAGE: &str = "bindings/java";
const SOURCES: &str = "bindings/java/dpb/src/main/java/io/github/libdpb";

const TIMING: &str = "bindings/java/dpb/src/test/java/io/github/libdpb/Timing.java";
const PAGE: &str = "docs/java.md";

/// The version of the package in these tests, so that no program takes what they install for a release.
const VERSION: &str = "0.0.0-suite";

/// The oldest Java with java.lang.foreign.
const OLDEST: u32 = 22;

/// The home of a JDK that is new enough.
fn jdk() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut homes: Vec<PathBuf> =
        std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(installed).collect();
    homes.extend(
        std::env::split_paths(&std::env::var_os("PATH")?).filter_map(|bin| bin.parent().map(Path::to_path_buf)),
    );
    let is_new = |home: &PathBuf| {
        let output = Command::new(home.join("bin/javac")).arg("-version").output().ok()?;
        let said = text(&output);
        let major = said.trim().strip_prefix("javac ")?.split(['.', '-']).next()?.parse::<u32>().ok()?;
        Some(major >= OLDEST)
    };
    homes.into_iter().find(|home| is_new(home) == Some(true))
}

/// Maven with this build's library for a jar, in a directory. None without a JDK or Maven.
fn mvn(place: &Path) -> Option<Command> {
    let Some(home) = jdk() else {
        eprintln!("skipped: java not found (22 or newer)"); // Debian 12 has Java 17, so nothing requires it
        return None;
    };
    if !have("mvn") {
        return None;
    }
    let natives = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-natives");
    let system = natives.join(format!("linux-{}-gnu", std::env::consts::ARCH));
    std::fs::create_dir_all(&system).unwrap();
    std::fs::copy(library_dir().join("libdpb.so"), system.join("libdpb.so")).unwrap();
    let mut mvn = Command::new("mvn");
    mvn.args(["-q", "-B", "--no-transfer-progress"]).arg(format!("-Ddpb.natives={}", natives.display()));
    mvn.current_dir(place).env("JAVA_HOME", &home);
    Some(mvn)
}

/// Runs Maven, which downloads what it needs once. None if that fails.
fn fetched(mvn: &mut Command) -> Option<String> {
    let output = mvn.output().unwrap();
    let said = text(&output);
    if !output.status.success() && ["Could not transfer", "Could not resolve"].iter().any(|why| said.contains(why)) {
        skip(&format!("Maven cannot download: {}", said.lines().find(|line| line.contains("Could not")).unwrap()));
        return None;
    }
    assert!(output.status.success(), "{mvn:?}\n{said}");
    Some(said)
}

/// Builds the modules from a copy, tests them, and installs them in Maven's repository.
fn installed() -> bool {
    static INSTALLED: LazyLock<bool> = LazyLock::new(|| {
        let copy = copy_of(PACKAGE, "java-package");
        for entry in std::fs::read_dir(&copy).unwrap() {
            let module = entry.unwrap().path();
            let _ = std::fs::remove_dir_all(module.join("target"));
            let pom = if module.is_dir() { module.join("pom.xml") } else { module };
            if pom.ends_with("pom.xml") && pom.exists() {
                let text = std::fs::read_to_string(&pom).unwrap();
                let version = format!("<version>{}</version>", version());
                std::fs::write(&pom, text.replace(&version, &format!("<version>{VERSION}</version>"))).unwrap();
            }
        }
        mvn(&copy).and_then(|mut mvn| fetched(mvn.arg("install"))).is_some()
    });
    *INSTALLED
}

/// A program of Maven that depends on modules of the package and on other artifacts, from sources by their paths. Returns
/// its jar, which names what it needs.
pub fn program(name: &str, needs: &[&str], main: &str, sources: &[(&str, &str)], plugins: &str) -> Option<PathBuf> {
    if !installed() {
        return None;
    }
    let place = empty_directory("java", name);
    for (path, source) in sources {
        let path = place.join("src/main").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, source).unwrap();
    }
    let dependency = |artifact: &&str| {
        let own = format!("io.github.libdpb:{artifact}:{VERSION}");
        let full = if artifact.contains(':') { artifact } else { own.as_str() };
        let names = ["groupId", "artifactId", "version", "classifier"];
        let parts = names.iter().zip(full.split(':')).map(|(name, part)| format!("<{name}>{part}</{name}>"));
        format!("<dependency>{}</dependency>\n    ", parts.collect::<String>())
    };
    let dependencies: String = needs.iter().map(dependency).collect();
    let pom = format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>io.github.libdpb</groupId>
    <artifactId>dpb-parent</artifactId>
    <version>{VERSION}</version>
    <relativePath/>
  </parent>
  <groupId>org.example</groupId>
  <artifactId>{name}</artifactId>
  <dependencies>
    {dependencies}
  </dependencies>
  <build>
    <finalName>program</finalName>
    <plugins>
      <plugin>
        <artifactId>maven-jar-plugin</artifactId>
        <configuration>
          <archive>
            <manifest>
              <mainClass>{main}</mainClass>
              <addClasspath>true</addClasspath>
              <classpathPrefix>${{settings.localRepository}}/</classpathPrefix>
              <classpathLayoutType>repository</classpathLayoutType>
            </manifest>
            <manifestEntries>
              <Enable-Native-Access>ALL-UNNAMED</Enable-Native-Access>
            </manifestEntries>
          </archive>
        </configuration>
      </plugin>
      {plugins}
    </plugins>
  </build>
</project>
"#
    );
    std::fs::write(place.join("pom.xml"), pom).unwrap();
    fetched(mvn(&place)?.arg("package"))?;
    Some(place.join("target/program.jar"))
}

/// `java -jar` with a program and options.
pub fn java(program: &Path, options: &[String]) -> Command {
    let mut java = here();
    java.args(options).arg("-jar").arg(program);
    java
}

/// The jar that the archive of a release makes with options of Maven, after the tests of its module, and a program of
/// one class that uses it.
pub fn released(project: &Path, options: &[String], main: &str, source: &str) -> Option<PathBuf> {
    let mut mvn = mvn(project)?;
    let natives = format!("-Ddpb.natives={}", project.join("dpb/natives").display());
    fetched(mvn.args(["--projects", "dpb", "--also-make", &natives, "package"]).args(options))?;
    let jar = project.join(format!("dpb/target/dpb-{}.jar", version()));
    let file = project.join(format!("{main}.java"));
    std::fs::write(&file, source).unwrap();
    run(Command::new(jdk()?.join("bin/javac")).arg("-cp").arg(&jar).arg("-d").arg(project).arg(file));
    Some(jar)
}

/// The Java on this machine.
pub fn here() -> Command {
    Command::new(jdk().unwrap().join("bin/java"))
}

const MUSL: &str = r#"
import io.github.libdpb.*;

class Ads {
    public static void main(String[] arguments) throws Exception {
        try {
            new Bandit(new Config(10, -1.0));
        } catch (DpbException refused) {
            System.out.println(refused.getMessage());
        }
        try (Bandit bandit = new Bandit(new Config(10, 1.0).rewardWindow(1000))) {
            Decision ad = new Decision();
            for (int i = 0; i < 100_000; i++) {
                bandit.select(ad);
                bandit.update(ad.ticket(), ad.arm() == 7 ? 1.0 : 0.0);
            }
            try (Bandit restored = Bandit.restore(bandit.snapshot())) {
                System.out.println("decisions: " + restored.report().decisions());
            }
        }
    }
}
"#;

/// With a Java for musl, which .ci/musljvm builds, the tests of the jar's module pass. A program finds the library for
/// musl beside one for glibc, which is of another version.
#[test]
#[ignore = "builds the library with all optimisations, and the package with Maven"]
fn the_jar_works_on_musl() {
    let Some(musl) = std::env::var_os("DPB_MUSL_JAVA").map(PathBuf::from) else {
        eprintln!("skipped: DPB_MUSL_JAVA is not set"); // no registry has one
        return;
    };
    if jdk().is_none() || !have("musl-gcc") {
        return;
    }
    let project = copy_of(PACKAGE, "java-musl");
    let target = "x86_64-unknown-linux-musl";
    let stage = empty_directory("java", target);
    let mut make = support::make(&format!("{target}-dpb"));
    make.args(["CC=musl-gcc", &format!("TARGET={target}"), &format!("DESTDIR={}", stage.display()), "PREFIX=/"]);
    run(make.arg(format!("RUSTC={}", Path::new(env!("CARGO")).with_file_name("rustc").display())).arg("install"));
    let [gnu, own] = ["gnu", "musl"].map(|libc| {
        let directory = project.join(format!("dpb/natives/linux-x86_64-{libc}"));
        std::fs::create_dir_all(&directory).unwrap();
        directory.join("libdpb.so")
    });
    std::fs::copy(stage.join("lib/libdpb.so"), own).unwrap();
    other_version(&gnu);

    let Some(jar) = released(&project, &[format!("-Djvm={}", musl.display())], "Ads", MUSL) else { return };
    let path = format!("{}:{}", jar.display(), project.display());
    let ads = |mut java: Command, options: &[String]| {
        java.args(options).args(["--enable-native-access=ALL-UNNAMED", "-cp", &path, "Ads"]).output().unwrap()
    };
    let output = ads(Command::new(&musl), &[]);
    let said = text(&output);
    assert!(output.status.success() && said.contains("decisions: 100000") && said.contains("epsilon"), "{said}");
    let given = [format!("-Ddpb.library={}", gnu.display())];
    for (java, options) in [(Command::new(&musl), &given[..]), (here(), &[])] {
        let output = ads(java, options);
        let said = text(&output);
        assert!(!output.status.success() && said.contains(OTHER), "{said}");
    }
}

/// What is said of the library that `other_version` makes.
const OTHER: &str = "is libdpb 9.8.7, and this package needs libdpb ";

/// Makes a library of another version, for any libc.
fn other_version(library: &Path) {
    let source = library.with_extension("c");
    std::fs::write(&source, "const char *dpb_version(void) { return \"9.8.7\"; }\n").unwrap();
    run(Command::new("cc").args(["-shared", "-nostdlib", "-fPIC", "-o"]).arg(library).arg(source));
}

#[test]
#[ignore = "builds the package with Maven, which downloads what it needs"]
fn the_package_passes_its_tests() {
    installed();
}

/// A redis-server, and its address.
struct Redis(std::process::Child, String);

impl Redis {
    fn start() -> Option<Redis> {
        if !have("redis-server") {
            return None;
        }
        let (host, port) = own_address();
        let mut server = Command::new("redis-server");
        server.args(["--save", "", "--bind", &host, "--port", &port]).stdout(Stdio::null());
        let mut redis = Redis(server.spawn().unwrap(), format!("{host}:{port}"));
        while std::net::TcpStream::connect(&redis.1).is_err() {
            assert!(redis.0.try_wait().unwrap().is_none(), "redis-server has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The blocks of the page are one program. It finds the library in the jar.
#[test]
#[ignore = "builds the package with Maven"]
fn the_program_of_the_page_works() {
    let Some(redis) = Redis::start() else { return };
    let blocks = snippets(PAGE, "java").concat().replace("redis://localhost", &format!("redis://{}", redis.1));
    let (imports, body): (Vec<_>, Vec<_>) = blocks.lines().partition(|line| line.starts_with("import "));
    let code = format!(
        "{}\nclass Page {{\n    public static void main(String[] arguments) throws Exception {{\n{}\n    }}\n}}\n",
        imports.join("\n"),
        body.join("\n")
    );
    let needs = ["dpb", "dpb-fleet", "dpb-micrometer", "dpb-openfeature"];
    let Some(program) = program("page", &needs, "Page", &[("java/Page.java", &code)], "") else { return };
    let place = program.parent().unwrap();
    let key = place.join("fleet.key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let own = format!("-Ddpb.library={}", library_dir().join("libdpb.so").display());
    for options in [&[][..], &[own]] {
        let said = run(java(&program, options).current_dir(place));
        for word in ["show ad ", "a click counts once", "state=SERVING", "a button in "] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    // Another version of the library, and a file that is not there.
    if !have("cc") {
        return;
    }
    let library = place.join("libother.so");
    other_version(&library);
    let missing = place.join("missing.so");
    for (file, says) in [(&library, OTHER), (&missing, "is no libdpb")] {
        let output = java(&program, &[format!("-Ddpb.library={}", file.display())]).output().unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains(says) && said.contains("UnsatisfiedLinkError"), "{said}");
    }
}

/// Maven's plugin for Kotlin, without a process that stays after the build.
const KOTLIN: &str = "<plugin>
        <groupId>org.jetbrains.kotlin</groupId>
        <artifactId>kotlin-maven-plugin</artifactId>
        <version>2.4.21</version>
        <configuration>
          <jvmTarget>22</jvmTarget>
          <useDaemon>false</useDaemon>
        </configuration>
        <executions>
          <execution>
            <phase>compile</phase>
            <goals>
              <goal>compile</goal>
            </goals>
          </execution>
        </executions>
      </plugin>";

#[test]
#[ignore = "builds the package with Maven, which downloads Kotlin"]
fn the_program_in_kotlin_works() {
    let source = &snippets(PAGE, "kotlin")[0];
    let needs = ["dpb", "org.jetbrains.kotlin:kotlin-stdlib:2.4.21"];
    let Some(program) = program("kotlin", &needs, "AdsKt", &[("java/Ads.kt", source)], KOTLIN) else { return };
    assert!(run(&mut java(&program, &[])).contains("show ad "));
}

/// A program that calls the compiler with its own class path.
const SCALAC: &str = r#"
import java.util.jar.*;

class Scalac {
    public static void main(String[] arguments) throws Exception {
        try (JarFile own = new JarFile(System.getProperty("java.class.path"))) {
            String needs = own.getManifest().getMainAttributes().getValue(Attributes.Name.CLASS_PATH);
            String[] options = {"-classpath", needs.replace(' ', ':'), "-d", ".", "Ads.scala"};
            dotty.tools.dotc.Main.main(options);
        }
    }
}
"#;

#[test]
#[ignore = "builds the package with Maven, which downloads Scala"]
fn the_program_in_scala_works() {
    let needs = ["dpb", "org.scala-lang:scala3-compiler_3:3.3.7"];
    let sources = [("java/Scalac.java", SCALAC)];
    let Some(compiler) = program("scala", &needs, "Scalac", &sources, "") else { return };
    let place = compiler.parent().unwrap();
    std::fs::write(place.join("Ads.scala"), &snippets(PAGE, "scala")[0]).unwrap();
    run(java(&compiler, &[]).current_dir(place));
    let mut ads = here();
    let path = format!("{}:{}", place.display(), compiler.display());
    assert!(run(ads.args(["--enable-native-access=ALL-UNNAMED", "-cp", &path, "ads"])).contains("show ad "));
}

/// The least time of many rounds, beside that of the same loop in C.
#[test]
#[ignore = "builds the package with Maven, and measures with all optimisations"]
fn a_decision_and_its_reward_are_timed_beside_c() {
    let timing = std::fs::read_to_string(root().join(TIMING)).unwrap();
    let timing = timing.replace("package io.github.libdpb;", "import io.github.libdpb.*;");
    let Some(program) = program("timing", &["dpb"], "Timing", &[("java/Timing.java", &timing)], "") else { return };
    if !have("cc") {
        return;
    }
    let c = support::build("cc", "tests/c/pair.c", &["-std=c11", "-O2"], support::Link::Shared);
    let number = |said: String| said.trim().parse::<f64>().unwrap();
    let [java, c] = [number(run(&mut java(&program, &[]))), number(support::run_program(&c))];
    println!("a select and its update: {java} ns in Java, {c} ns in C");
    assert!(java > 0.0 && c > 0.0);
}

const SCRAPED: &str = r#"
import io.github.libdpb.*;
import io.github.libdpb.micrometer.*;
import io.micrometer.prometheusmetrics.*;

class Scraped {
    public static void main(String[] arguments) throws Exception {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        Bandit bandit = new Bandit(new Config(2, 1.0));
        FleetNode node = new FleetNode(null, new Config(2, 1.0), new NodeOptions("ads"));
        DpbMetrics metrics = DpbMetrics.forOperators("ads", bandit);
        metrics.bindTo(registry);
        DpbMetrics.of("test", new Bandit(Policy.TT, new Config(2, 1.0))).bindTo(registry);
        Config rows = new Config(2, 1.0).features(2);
        DpbMetrics.of("features", new Bandit(Policy.LINEAR, rows)).bindTo(registry);
        FleetMetrics.forOperators("ads", node::report, node::diagnostics).bindTo(registry);
        bandit.addArm(0);
        bandit.select(new Decision());
        metrics.refresh();
        System.out.println(registry.scrape());
        bandit.close();
        node.close();
        Thread.sleep(200); // metrics are read again after 100 ms
        System.out.println("closed\n" + registry.scrape());
    }
}
"#;

/// In Prometheus the metrics of Micrometer have the names, types and texts of C++ and Go.
#[test]
#[ignore = "builds the package with Maven"]
fn metrics_have_the_names_of_other_languages() {
    let needs = ["dpb-micrometer", "io.micrometer:micrometer-registry-prometheus:1.17.2"];
    let Some(program) = program("metrics", &needs, "Scraped", &[("java/Scraped.java", SCRAPED)], "") else { return };
    let said = run(&mut java(&program, &[]));
    let (open, closed) = said.split_once("closed\n").unwrap();
    let lift = "# HELP dpb_lift_low Lower end of a 95% interval for what decisions gain over even play: 0.1 is 10% more.\n\
                # TYPE dpb_lift_low gauge\ndpb_lift_low{bandit=\"ads\"} NaN\n";
    assert!(open.contains(lift), "no lift before the first release\n{open}");
    let described = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("# ") && !line.contains(" dpb_lift_"));
        support::sorted(lines.filter(|line| !line.contains(" dpb_fleet_")).map(str::to_owned).collect())
    };
    let expected = std::fs::read_to_string(root().join("tests/cpp/metrics.txt")).unwrap();
    assert_eq!(described(open), described(&expected));
    let test = "dpb_verdict_state{bandit=\"test\"} 0.0";
    let weight = "dpb_feature_weight_deviation{arm=\"\",bandit=\"features\",feature=\"intercept\"} 0.99999";
    for line in ["dpb_decisions_total{bandit=\"ads\"} 1.0", "dpb_arm_pulls{arm=\"2\",bandit=\"ads\"} ", test, weight] {
        assert!(open.contains(line), "{line}\n{open}");
    }
    assert!(open.contains("dpb_up{bandit=\"ads\"} 1.0") && closed.contains("dpb_up{bandit=\"ads\"} 0.0"), "{said}");
    let go = std::fs::read_to_string(root().join("bindings/go/prometheus/fleet/collector.go")).unwrap();
    for (kind, ending, of) in [("Gauge", "", "gauge"), ("Count", "_total", "counter")] {
        for rest in go.split(&format!("metric.{kind}(\"")).skip(1) {
            let (name, rest) = rest.split_once('"').unwrap();
            let help = rest.split('"').nth(1).unwrap();
            let name = format!("dpb_{name}{ending}");
            assert!(open.contains(&format!("# HELP {name} {help}\n# TYPE {name} {of}\n")), "{name}: {help}\n{open}");
        }
    }
}

const EXAMPLE: &str = "examples/java";

/// The ad server with Spring Boot: a planned end loses nothing, and after a crash it has what was released.
#[test]
#[ignore = "builds the package and the example with Maven, which downloads Spring Boot"]
fn the_ad_server_restarts_without_loss() {
    if !installed() {
        return;
    }
    let place = copy_of(EXAMPLE, "java-example");
    let page = root().join("examples/go/adserver").canonicalize().unwrap();
    let Some(mut mvn) = mvn(&place) else { return };
    mvn.args([format!("-Ddpb.version={VERSION}"), format!("-Dads.page={}", page.display())]);
    if fetched(mvn.args(["clean", "package"])).is_none() {
        return;
    }
    let files = empty_directory("java", "ads");
    let start = || {
        let options = [format!("--ads.directory={}", files.display()), "--server.port=0".to_owned()];
        Server::start(java(&place.join("target/ads.jar"), &[]).args(options))
    };
    let server = start();
    assert!(server.get("/").1.contains("Released click rates"));
    let report = |server: &Server| -> Value { serde_json::from_str(&server.get("/report").1).unwrap() };
    // Returns the click's path, or reports the click itself.
    let visit = |server: &Server, clicks: bool| {
        let ad: Value = serde_json::from_str(&server.get("/ad").1).unwrap();
        let path = ad["click_url"].as_str().unwrap().to_owned();
        if clicks && ad["arm"] == 7 {
            assert_eq!(server.get(&path), (204, String::new()));
        }
        path
    };
    (0..3000).for_each(|_| drop(visit(&server, true)));
    let open: Vec<String> = (0..50).map(|_| visit(&server, false)).collect();
    assert_eq!(server.send("HEAD", "/ad", "").0, 405);
    let before = report(&server);
    assert_eq!((&before["decisions"], &before["pending"], &before["expired"]), (&3050.into(), &1000.into(), &0.into()));
    let (said, stated) = (server.get("/privacy").1, server.get("/privacy.json").1);
    let stated: Value = serde_json::from_str(&stated).unwrap();
    assert!(said.contains("Not protected: ") && stated["libdpb"]["policy"] == "dp-imed", "{said} {stated}");
    server.end(libc::SIGTERM);

    let server = start();
    assert_eq!(report(&server), before);
    for path in open.iter().chain(&open) {
        assert_eq!(server.get(path), (204, String::new()));
    }
    for wrong in ["/click/0123456789abcdef", "/click/none", "/click/"] {
        assert!([204, 404].contains(&server.get(wrong).0), "{wrong}");
    }
    (0..1000).for_each(|_| drop(visit(&server, true)));
    let best = report(&server);
    assert_eq!((&best["decisions"], &best["expired"]), (&4050.into(), &0.into()));
    let pulls = |report: &Value, arm: usize| report["arms"][arm]["pulls"].as_u64().unwrap();
    assert!((0..10).all(|arm| pulls(&best, arm) <= pulls(&best, 7)), "{best}");
    server.end(libc::SIGTERM);

    // What a crash loses are decisions that were open.
    let server = start();
    server.end(libc::SIGKILL);
    let server = start();
    let after = report(&server);
    assert_eq!((&after["decisions"], &after["pending"], &after["expired"]), (&4050.into(), &0.into(), &1000.into()));
    assert_eq!(after["arms"][7]["mean"], best["arms"][7]["mean"]);
    server.end(libc::SIGTERM);
}

/// The module of Prebid Server compiles against stubs of the server's interfaces, and passes its tests.
#[test]
#[ignore = "builds the package and the example with Maven, which downloads Vert.x and Spring Boot"]
fn the_module_of_prebid_server_learns_floors() {
    if !installed() {
        return;
    }
    let place = copy_of("examples/java/prebid", "java-prebid");
    let Some(mut mvn) = mvn(&place) else { return };
    fetched(mvn.arg(format!("-Ddpb.version={VERSION}")).args(["clean", "test"]));
}

/// All files of the package but generated ones and tests.
fn written() -> String {
    let files = std::fs::read_dir(root().join(SOURCES)).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    texts.filter(|text| !text.starts_with("// Generated by tests/header.rs")).collect()
}

/// Java has every function of the C interface, and a name for every number in the header.
#[test]
fn everything_is_wrapped() {
    let code = support::without_comments(&written());
    let mut names = support::unused(&code, "Native.");
    names.retain(|name| !support::uses(&code, &format!("Native::{name}")));
    // A policy is made by its name. A database would be called back for each row. A hash would copy its texts.
    names.retain(|name| !support::policies().iter().any(|policy| *name == format!("dpb_new_{policy}")));
    names.retain(|name| {
        !["dpb_store_run", "dpb_feature_hash", "dpb_decide", "dpb_status_name"].contains(&name.as_str())
    });
    names.retain(|name| !["dpb_request_init_sized", "dpb_policy_at", "dpb_policy_number"].contains(&name.as_str()));
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let numbers = defined.filter(|(_, value)| value.parse::<u32>().is_ok()).map(|(name, _)| name.to_owned());
    names.extend(numbers.filter(|name| name != "DPB_SEAL_BYTES" && !support::uses(&code, &format!("Native.{name}"))));
    assert!(names.is_empty(), "{PACKAGE} does not use {names:?}");
}
