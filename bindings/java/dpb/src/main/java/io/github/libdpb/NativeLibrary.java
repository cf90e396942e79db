package io.github.libdpb;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.stream.Stream;

/** Finds the native library: the file that -Ddpb.library names, or the one in the jar for this system. */
final class NativeLibrary {
    private NativeLibrary() {}

    /** Throws an UnsatisfiedLinkError that says what is wrong: a static initialiser passes errors on as they are. */
    static SymbolLookup load() {
        String given = System.getProperty("dpb.library");
        if (given != null) {
            return open(Path.of(given), given);
        }
        String resource = system() + "/libdpb.so";
        try (InputStream bytes = NativeLibrary.class.getResourceAsStream(resource)) {
            if (bytes == null) {
                throw new UnsatisfiedLinkError(
                        "the jar has no " + resource + ": set -Ddpb.library to the path of libdpb.so");
            }
            Path file = Files.createTempFile("libdpb-", ".so");
            try {
                Files.copy(bytes, file, StandardCopyOption.REPLACE_EXISTING);
                return open(file, "the jar's " + resource);
            } finally {
                Files.delete(file); // what is loaded stays
            }
        } catch (IOException failure) {
            throw new UnsatisfiedLinkError("cannot write libdpb.so to java.io.tmpdir: " + failure);
        }
    }

    /** Such as linux-x86_64-gnu. */
    private static String system() {
        String processor = System.getProperty("os.arch").equals("amd64") ? "x86_64" : System.getProperty("os.arch");
        boolean isMusl = false;
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            // The loader's name may be a link to libc.so, as in Debian; glibc has libc.so.6.
            isMusl = maps.anyMatch(line -> line.contains("/ld-musl-") || line.endsWith("/libc.so"));
        } catch (IOException noLinux) {
            // then the jar has no library for it either
        }
        String system = System.getProperty("os.name").toLowerCase().replace(' ', '_');
        return system + "-" + processor + "-" + (isMusl ? "musl" : "gnu");
    }

    private static SymbolLookup open(Path file, String name) {
        SymbolLookup library;
        MemorySegment found;
        try {
            library = SymbolLookup.libraryLookup(file, Arena.global());
            found = library.find("dpb_version").orElseThrow();
        } catch (RuntimeException failure) {
            throw new UnsatisfiedLinkError(name + " is no libdpb for this system: " + failure.getMessage());
        }
        String version;
        try {
            MemorySegment text = (MemorySegment)
                    Linker.nativeLinker().downcallHandle(found, FunctionDescriptor.of(ADDRESS)).invokeExact();
            version = text.reinterpret(Long.MAX_VALUE).getString(0);
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
        if (!version.equals(Native.VERSION)) {
            throw new UnsatisfiedLinkError(
                    name + " is libdpb " + version + ", and this package needs libdpb " + Native.VERSION);
        }
        return library;
    }
}
