/**
 * Stubs: the parts of Prebid Server that the module uses, with the same names and signatures. A build into the server
 * leaves out src/stubs.
 */
package org.prebid.server.hooks.v1;
