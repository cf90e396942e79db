package org.example.ads;

import io.github.libdpb.Arm;
import io.github.libdpb.Decision;
import io.github.libdpb.DpbException;
import io.github.libdpb.Report;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.server.servlet.context.ServletWebServerInitializedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.Resource;
import org.springframework.http.HttpMethod;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** Shows ads, takes clicks, and shows on a page what it has released. */
@SpringBootApplication
@EnableScheduling
@RestController
public class AdServer {
    record Ad(int arm, String creative, String click_url, double propensity) {}

    record ShownArm(String creative, Double mean, Double width, long pulls, boolean active) {}

    record Shown(
            String policy,
            long decisions,
            int pending,
            long expired,
            String clock,
            int window,
            int memory,
            Double epsilon_spent,
            boolean is_private,
            long changes_detected,
            List<ShownArm> arms) {}

    private final Ads ads;

    AdServer(Ads ads) {
        this.ads = ads;
    }

    public static void main(String[] arguments) {
        SpringApplication.run(AdServer.class, arguments);
    }

    @EventListener
    void begun(ServletWebServerInitializedEvent event) {
        System.out.println("ads on http://127.0.0.1:" + event.getWebServer().getPort() + "/");
    }

    @GetMapping(path = "/", produces = MediaType.TEXT_HTML_VALUE)
    Resource page() {
        return new ClassPathResource("page.html");
    }

    /** Spring answers HEAD as GET, and programs that check links send it: it decides nothing. */
    private static void requireGet(HttpMethod method) {
        if (method != HttpMethod.GET) {
            throw new ResponseStatusException(HttpStatus.METHOD_NOT_ALLOWED);
        }
    }

    @GetMapping("/ad")
    Ad ad(HttpMethod method) {
        requireGet(method);
        Decision decision = ads.bandit().select(new Decision());
        String ticket = HexFormat.of().toHexDigits(decision.ticket());
        return new Ad(decision.arm(), creative(decision.arm()), "/click/" + ticket, decision.propensity());
    }

    /** The response is always the same, because the status reveals whether there was a click before. */
    @GetMapping("/click/{ticket:[0-9a-f]{16}}")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    void click(HttpMethod method, @PathVariable String ticket) {
        requireGet(method);
        try {
            ads.bandit().update(HexFormat.fromHexDigitsToLong(ticket), 1);
        } catch (DpbException refused) {
            // the bandit's diagnostics count it
        }
    }

    @GetMapping(value = "/privacy", produces = "text/plain;charset=UTF-8")
    String privacy() {
        return ads.bandit().statementText();
    }

    @GetMapping(value = "/privacy.json", produces = "application/json")
    String privacyJson() {
        return ads.bandit().statement();
    }

    @GetMapping("/report")
    Shown report() {
        Report report = ads.bandit().report();
        List<ShownArm> arms = new ArrayList<>();
        for (Arm arm : ads.bandit().arms()) {
            arms.add(new ShownArm(
                    creative(arms.size()), number(arm.mean()), number(arm.width()), arm.pulls(), arm.active()));
        }
        return new Shown(
                report.policy().label(),
                report.decisions(),
                report.pending(),
                report.expired(),
                "decisions",
                Ads.WINDOW,
                Ads.FORGET_AFTER,
                number(report.epsilonSpent()),
                report.isPrivate(),
                report.changesDetected(),
                arms);
    }

    /** JSON has no NaN. */
    private static Double number(double x) {
        return Double.isFinite(x) ? x : null;
    }

    private static String creative(int arm) {
        return "creative-" + arm;
    }
}
