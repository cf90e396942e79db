package io.github.libdpb.fleet;

import io.github.libdpb.Command;

/** Runs the commands of nodes. {@link Redis} is one. */
public interface Store {
    /**
     * Runs a command, atomically, and returns its reply. It returns within {@link Command#timeout}. Two threads call it
     * at once. It throws every error as it is, whatever the reason and whether the command has run or not: the node
     * repeats it.
     */
    byte[] run(Command command) throws Exception;
}
