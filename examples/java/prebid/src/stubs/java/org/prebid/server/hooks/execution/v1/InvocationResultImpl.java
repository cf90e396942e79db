package org.prebid.server.hooks.execution.v1;

import org.prebid.server.hooks.v1.InvocationAction;
import org.prebid.server.hooks.v1.InvocationResult;
import org.prebid.server.hooks.v1.InvocationStatus;
import org.prebid.server.hooks.v1.PayloadUpdate;

/** A stub with the fields that the module sets. */
public record InvocationResultImpl<PAYLOAD>(
        InvocationStatus status, InvocationAction action, PayloadUpdate<PAYLOAD> payloadUpdate)
        implements InvocationResult<PAYLOAD> {
    public static <PAYLOAD> InvocationResultImplBuilder<PAYLOAD> builder() {
        return new InvocationResultImplBuilder<>();
    }

    public static final class InvocationResultImplBuilder<PAYLOAD> {
        private InvocationStatus status;
        private InvocationAction action;
        private PayloadUpdate<PAYLOAD> payloadUpdate;

        public InvocationResultImplBuilder<PAYLOAD> status(InvocationStatus status) {
            this.status = status;
            return this;
        }

        public InvocationResultImplBuilder<PAYLOAD> action(InvocationAction action) {
            this.action = action;
            return this;
        }

        public InvocationResultImplBuilder<PAYLOAD> payloadUpdate(PayloadUpdate<PAYLOAD> payloadUpdate) {
            this.payloadUpdate = payloadUpdate;
            return this;
        }

        public InvocationResultImpl<PAYLOAD> build() {
            return new InvocationResultImpl<>(status, action, payloadUpdate);
        }
    }
}
