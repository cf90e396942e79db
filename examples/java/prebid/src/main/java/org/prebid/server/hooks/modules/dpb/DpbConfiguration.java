package org.prebid.server.hooks.modules.dpb;

import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * One module for the hook and for the events. The server collects its modules and its analytics reporters by their
 * types, and closes the module when it ends.
 */
@Configuration
@ConditionalOnProperty(prefix = "hooks." + DpbModule.CODE, name = "enabled", havingValue = "true")
@EnableConfigurationProperties(DpbModule.Settings.class)
public class DpbConfiguration {
    @Bean
    DpbModule dpbModule(DpbModule.Settings settings) {
        return new DpbModule(settings);
    }
}
