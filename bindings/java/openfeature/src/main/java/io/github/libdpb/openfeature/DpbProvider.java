package io.github.libdpb.openfeature;

import dev.openfeature.sdk.EvaluationContext;
import dev.openfeature.sdk.FeatureProvider;
import dev.openfeature.sdk.ImmutableMetadata;
import dev.openfeature.sdk.Metadata;
import dev.openfeature.sdk.ProviderEvaluation;
import dev.openfeature.sdk.Reason;
import dev.openfeature.sdk.TrackingEventDetails;
import dev.openfeature.sdk.Value;
import dev.openfeature.sdk.exceptions.FlagNotFoundError;
import dev.openfeature.sdk.exceptions.GeneralError;
import dev.openfeature.sdk.exceptions.TypeMismatchError;
import io.github.libdpb.Decision;
import io.github.libdpb.DpbException;
import io.github.libdpb.Request;
import io.github.libdpb.Status;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A provider for OpenFeature, which decides in this process: an evaluation of a flag is a decision of a bandit, the
 * flag's value is the arm, and {@link #track} reports the reward. Any number of threads may use it.
 *
 * <pre>{@code
 * OpenFeatureAPI.getInstance().setProviderAndWait(new DpbProvider(
 *         Map.of("button-colour", new Flag(bandit, "red", "green", "blue").event("click").keep(1000))));
 * }</pre>
 *
 * <p>The metadata of an evaluation have {@link #TICKET}, {@link #PROPENSITY} and {@link #ARM}. A flag that cannot be
 * decided has the default value, and its details have the error.
 */
public final class DpbProvider implements FeatureProvider {
    /** The decision's ticket, as text; the attribute of a tracking event that names the decision. */
    public static final String TICKET = "ticket";

    /** The probability of this arm, for off-policy evaluation. */
    public static final String PROPENSITY = "propensity";

    /** The number of the value. */
    public static final String ARM = "arm";

    private record Kept(long ticket, double propensity, int arm) {}

    /** A flag, with the visitors who keep a decision. */
    private static final class Decided {
        final Flag flag;
        final LinkedHashMap<String, Kept> visitors = new LinkedHashMap<>();

        Decided(Flag flag) {
            this.flag = flag;
        }

        Kept decide(String visitor, Request request) {
            if (flag.keep <= 0 || visitor == null || visitor.isEmpty()) {
                return decide(request);
            }
            synchronized (visitors) {
                Kept kept = visitors.get(visitor);
                if (kept == null) {
                    kept = decide(request);
                    visitors.put(visitor, kept);
                    if (visitors.size() > flag.keep) {
                        visitors.pollFirstEntry();
                    }
                }
                return kept;
            }
        }

        private Kept decide(Request request) {
            Decision decision = flag.bandit.select(request, new Decision());
            return new Kept(decision.ticket(), decision.propensity(), decision.arm());
        }

        Kept kept(String visitor) {
            synchronized (visitors) {
                return visitors.get(visitor);
            }
        }
    }

    private final Map<String, Decided> flags = new HashMap<>();
    private final Map<String, Decided> events = new HashMap<>();

    /**
     * Makes a provider of these flags, by their keys.
     *
     * @throws IllegalArgumentException names the flag whose values are not as many as the arms or of several types, or
     *     whose event is that of another flag
     */
    public DpbProvider(Map<String, Flag> flags) {
        flags.forEach((key, flag) -> {
            int arms = flag.bandit.arms().size();
            if (flag.values.size() != arms || flag.variants.size() != arms) {
                throw new IllegalArgumentException("flag \"" + key + "\": " + arms + " arms, " + flag.values.size()
                        + " values, " + flag.variants.size() + " variants");
            }
            Class<?> type = flag.values.get(0).getClass();
            for (Object value : flag.values) {
                if (value.getClass() != type) {
                    throw new IllegalArgumentException("flag \"" + key + "\": values of types " + type.getSimpleName()
                            + " and " + value.getClass().getSimpleName());
                }
            }
            Decided decided = new Decided(flag);
            String event = flag.event == null ? key : flag.event;
            if (events.put(event, decided) != null) {
                throw new IllegalArgumentException(
                        "flag \"" + key + "\": another flag has the event \"" + event + "\"");
            }
            this.flags.put(key, decided);
        });
    }

    @Override
    public Metadata getMetadata() {
        return () -> "libdpb";
    }

    private <T> ProviderEvaluation<T> evaluate(Class<T> type, String key, EvaluationContext context) {
        Decided decided = flags.get(key);
        if (decided == null) {
            throw new FlagNotFoundError("no flag \"" + key + "\"");
        }
        Flag flag = decided.flag;
        if (!type.isInstance(flag.values.get(0))) {
            throw new TypeMismatchError("flag \"" + key + "\" is of type "
                    + flag.values.get(0).getClass().getSimpleName());
        }
        Kept decision;
        try {
            decision = decided.decide(context.getTargetingKey(), flag.request.apply(context));
        } catch (DpbException refusal) {
            throw new GeneralError(refusal.getMessage(), refusal);
        }
        if (decision.arm < 0 || decision.arm >= flag.values.size()) { // one that was added later, or none
            if (decision.arm != Decision.NO_ARM) {
                flag.bandit.cancel(decision.ticket);
            }
            throw new GeneralError("flag \"" + key + "\": arm " + decision.arm + " has no value");
        }
        return ProviderEvaluation.<T>builder()
                .value(type.cast(flag.values.get(decision.arm)))
                .variant(flag.variants.get(decision.arm))
                .reason(Reason.SPLIT.name())
                .flagMetadata(ImmutableMetadata.builder()
                        .addString(TICKET, Long.toUnsignedString(decision.ticket))
                        .addDouble(PROPENSITY, decision.propensity)
                        .addInteger(ARM, decision.arm)
                        .build())
                .build();
    }

    @Override
    public ProviderEvaluation<Boolean> getBooleanEvaluation(String key, Boolean otherwise, EvaluationContext context) {
        return evaluate(Boolean.class, key, context);
    }

    @Override
    public ProviderEvaluation<String> getStringEvaluation(String key, String otherwise, EvaluationContext context) {
        return evaluate(String.class, key, context);
    }

    @Override
    public ProviderEvaluation<Integer> getIntegerEvaluation(String key, Integer otherwise, EvaluationContext context) {
        return evaluate(Integer.class, key, context);
    }

    @Override
    public ProviderEvaluation<Double> getDoubleEvaluation(String key, Double otherwise, EvaluationContext context) {
        return evaluate(Double.class, key, context);
    }

    @Override
    public ProviderEvaluation<Value> getObjectEvaluation(String key, Value otherwise, EvaluationContext context) {
        return evaluate(Value.class, key, context);
    }

    /**
     * Reports a reward: the event's value, for the decision that its attribute {@link #TICKET} names, as text; without
     * it, for the decision that the context's targeting key keeps. It ignores other events, and rewards that the bandit
     * refuses, such as a second one: what a visitor sees must not depend on that.
     * {@link io.github.libdpb.Bandit#diagnostics} counts refusals.
     */
    @Override
    public void track(String event, EvaluationContext context, TrackingEventDetails details) {
        Decided decided = events.get(event);
        if (decided == null || details == null || details.getValue().isEmpty()) {
            return;
        }
        long ticket;
        Value named = details.getValue(TICKET);
        if (named != null) {
            try {
                ticket = Long.parseUnsignedLong(named.asString());
            } catch (NumberFormatException none) {
                return;
            }
        } else {
            Kept kept = context == null ? null : decided.kept(context.getTargetingKey());
            if (kept == null) {
                return;
            }
            ticket = kept.ticket;
        }
        try {
            decided.flag.bandit.update(ticket, details.getValue().get().doubleValue());
        } catch (DpbException refusal) {
            if (refusal.status() == Status.POISONED || refusal.status() == Status.CLOSED) {
                throw refusal;
            }
        }
    }
}
