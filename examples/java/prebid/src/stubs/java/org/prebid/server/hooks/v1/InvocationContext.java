package org.prebid.server.hooks.v1;

/** A stub without methods: the module reads nothing of it. */
public interface InvocationContext {}
