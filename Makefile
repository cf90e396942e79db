# Installs libdpb where C, C++ and Go programs look for libraries, on Linux:
#
#   make install PREFIX=/opt/dpb
#
# It needs cargo, cc and GNU binutils. `make && sudo make install` builds as you and installs as root. DESTDIR is
# for packagers. bindings/c/README.md describes the installed files.

PREFIX ?= /usr/local
LIBDIR ?= lib# below PREFIX; lib64 or lib/x86_64-linux-gnu on some systems

CARGO ?= cargo
RUSTC ?= rustc
ifdef CROSS
CC = $(CROSS)gcc
endif
AR = $(CROSS)ar
LD = $(CROSS)ld.bfd
NM = $(CROSS)nm
OBJCOPY = $(CROSS)objcopy
INSTALL = install

BUILD = target/package$(TARGET:%=-%)
PACKAGE = dpb
SHELL = /bin/sh
.DELETE_ON_ERROR:

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SONAME := libdpb.so.$(firstword $(subst ., ,$(VERSION)))
# The libraries that a static link needs besides the archive and those that cc links by default.
SYSTEM_LIBRARIES = -lpthread -lm -ldl

# For musl, the libraries contain Rust's unwinder, because the one of a gcc for glibc needs glibc. The unwinder needs
# a table that the linker makes, and gcc does not always request it.
ifneq ($(findstring musl,$(TARGET)),)
UNWINDER = $(shell $(RUSTC) --print target-libdir --target $(TARGET))/self-contained/libunwind.a
SYSTEM_LIBRARIES += -Wl,--eh-frame-hdr
endif

.PHONY: all install go docs
all: $(BUILD)/libdpb.a $(BUILD)/$(SONAME)

# With little inlining and no jump tables, whose entries take 24 bytes each for the linker, the library is a seventh
# smaller than at opt-level 2. A decision takes the same time (Lazy-DP-TS: 3% longer).
RUST = $(BUILD)$(TARGET:%=/%)/packaged/libdpb.a
$(RUST): $(shell find src tests/hooked -name '*.rs') Cargo.toml Cargo.lock Makefile
	$(CARGO) rustc --locked --package $(PACKAGE) --lib --crate-type staticlib --profile packaged \
	  $(TARGET:%=--target=%) --target-dir $(BUILD) -- -C llvm-args='-inline-threshold=50 -min-jump-table-entries=1000'
	touch $@

# One object with all code that the functions of the C interface reach. Only their names are global, because another
# Rust library in the same program has the same names of the same standard library, perhaps compiled to abort. No
# section stays in a group, because a linker could replace it by that of the other library.
$(BUILD)/dpb.o: $(RUST) bindings/c/merge.ld
	$(LD) -r --gc-sections --gc-keep-exported --force-group-allocation -u dpb_version -T bindings/c/merge.ld \
	  $< $(UNWINDER) -o $@
	$(OBJCOPY) --wildcard --keep-global-symbol='dpb_*' --strip-unneeded $@

# In the archive the functions are hidden, so that a plug-in that links it does not export them: the most restrictive
# visibility of all objects applies to a symbol.
$(BUILD)/libdpb.a: $(BUILD)/dpb.o
	{ $(NM) -g --defined-only $< | sed -n 's/.* T \(dpb_.*\)/.globl \1\n.hidden \1/p'; \
	  echo '.section .note.GNU-stack,"",%progbits'; } | $(CC) -c -x assembler - -o $(BUILD)/hidden.o
	$(LD) -r $< $(BUILD)/hidden.o -o $(BUILD)/libdpb.o
	rm -f $@
	$(AR) crD $@ $(BUILD)/libdpb.o

$(BUILD)/$(SONAME): $(BUILD)/dpb.o bindings/c/libdpb.map
	$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=bindings/c/libdpb.map -Wl,-z,defs -Wl,-z,relro \
	  -Wl,--as-needed $< $(SYSTEM_LIBRARIES) -o $@

# Both files use relative paths, so that the installation can be moved.
UP = $(shell echo $(1) | sed 's|[^/][^/]*|..|g')
FILL = sed -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@SONAME@|$(SONAME)|' \
  -e 's|@SYSTEM_LIBRARIES@|$(SYSTEM_LIBRARIES)|'

TO = $(DESTDIR)$(PREFIX)
install: all
	$(INSTALL) -d $(TO)/include $(TO)/$(LIBDIR)/pkgconfig $(TO)/$(LIBDIR)/cmake/dpb
	$(INSTALL) -m 644 include/dpb.h bindings/cpp/dpb.hpp $(TO)/include
	$(INSTALL) -m 644 $(BUILD)/libdpb.a $(TO)/$(LIBDIR)
	$(INSTALL) -m 755 $(BUILD)/$(SONAME) $(TO)/$(LIBDIR)/libdpb.so.$(VERSION)
	ln -sf libdpb.so.$(VERSION) $(TO)/$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(TO)/$(LIBDIR)/libdpb.so
	$(FILL) -e 's|@UP@|$(call UP,$(LIBDIR)/pkgconfig)|' bindings/c/dpb.pc.in \
	  >$(TO)/$(LIBDIR)/pkgconfig/dpb.pc
	sed -e 's|^Libs:.*|Libs: $${libdir}/libdpb.a $(SYSTEM_LIBRARIES)|' -e '/^Libs.private/d' \
	  $(TO)/$(LIBDIR)/pkgconfig/dpb.pc >$(TO)/$(LIBDIR)/pkgconfig/dpb-static.pc
	for file in dpb-config dpb-config-version; do \
	  $(FILL) -e 's|@UP@|$(call UP,$(LIBDIR)/cmake/dpb)|' bindings/c/$$file.cmake.in \
	    >$(TO)/$(LIBDIR)/cmake/dpb/$$file.cmake; \
	done

# Puts the library into the Go module, so that its users need no Rust: see bindings/go/README.md.
GO_LIBRARY = bindings/go/internal/lib/$(shell go env GOOS)_$(shell go env GOARCH)
go: $(BUILD)/libdpb.a
	$(INSTALL) -m 644 $< $(GO_LIBRARY)/libdpb.a
	echo "/* $$(sha256sum <$<) */" >$(GO_LIBRARY)/libdpb.h

# The C interface as HTML, by Doxygen; a warning is an error.
docs:
	$(INSTALL) -d target/docs/c
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@OUTPUT@|target/docs/c|' bindings/c/Doxyfile | doxygen -
	@echo target/docs/c/html/index.html
