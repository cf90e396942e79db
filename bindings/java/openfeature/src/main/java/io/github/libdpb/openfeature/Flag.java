package io.github.libdpb.openfeature;

import dev.openfeature.sdk.EvaluationContext;
import io.github.libdpb.Bandit;
import io.github.libdpb.Request;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;

/** A flag that a bandit decides: its value is the arm. */
public final class Flag {
    final Bandit bandit;
    final List<Object> values;
    List<String> variants;
    String event;
    int keep;
    Function<EvaluationContext, Request> request = context -> new Request();

    /**
     * A flag.
     *
     * @param bandit stays yours to close
     * @param values what the flag can be, arm by arm: all Boolean, all String, all Integer, all Double, or all
     *     {@link dev.openfeature.sdk.Value}
     */
    public Flag(Bandit bandit, Object... values) {
        this.bandit = Objects.requireNonNull(bandit);
        this.values = List.of(values);
        this.variants = this.values.stream().map(Object::toString).toList();
    }

    /** The names of the values. Default their text. */
    public Flag variants(String... variants) {
        this.variants = List.of(variants);
        return this;
    }

    /** The tracking event that reports the reward. Default the flag's key. */
    public Flag event(String event) {
        this.event = event;
        return this;
    }

    /**
     * The number of decisions of the flag for which a visitor, known by the targeting key, keeps a decision: the same
     * value and the same ticket. Choose at most the rewardWindow. 0, the default: each evaluation is a decision.
     *
     * <p>A decision does not end with its reward: otherwise the number of decisions would show who clicked.
     */
    public Flag keep(int keep) {
        this.keep = keep;
        return this;
    }

    /**
     * Makes a request from the evaluation context, such as its segment, its user or its features; of one slot. Do not
     * compute it from rewards. Default a request that says nothing.
     */
    public Flag request(Function<EvaluationContext, Request> request) {
        this.request = Objects.requireNonNull(request);
        return this;
    }
}
