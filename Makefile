# Installs libdpb where C, C++ and Go programs look for libraries:
#
#   make install PREFIX=/opt/dpb
#
# It needs cargo, cc and GNU binutils. `make && sudo make install` builds as you and installs as root. DESTDIR is
# for packagers. bindings/c/README.md describes the installed files.
#
#   make check        builds and runs C programs with both libraries (EMULATOR=... for another system)
#   make audit        audits the privacy of a library: LIBRARY=/usr/lib/libdpb.so.0; docs/audit.md
#   make uninstall    removes the files; give it the PREFIX and LIBDIR of the installation
#   make clean        removes what this Makefile has built
#   make go           puts the library into the Go module
#   make python       makes a wheel of the Python package in dist/
#   make site         makes the site with all pages and the API of each language: packaging/README.md
#   make dist         makes all files of a release; `make release` tags them too: packaging/README.md

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
# Links the shared library. `make dist` sets a linker that can link against an old glibc.
LINK = $(CC)

BUILD = target/package$(TARGET:%=-%)
# The package, and the name of its library.
PACKAGE = dpb
CRATE = dpb
PROFILE = packaged
SHELL = /bin/sh
.DELETE_ON_ERROR:

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
MAJOR := $(firstword $(subst ., ,$(VERSION)))
SYSTEM := $(or $(TARGET),$(shell $(RUSTC) -vV | sed -n 's/^host: //p'))

# The shared library below the prefix, its links (each: name=target), and its property for CMake. NATIVE is the library of
# the Python package. SYSTEM_LIBRARIES are the libraries that a static link needs in addition to the archive and the
# default libraries of cc.
ifneq ($(findstring windows,$(SYSTEM)),)
SHARED = bin/dpb.dll
NATIVE = _native.dll
IMPORT = $(LIBDIR)/libdpb.dll.a
EXE = .exe
SHARED_PROPERTY = IMPORTED_IMPLIB "$${_dpb_prefix}/$(IMPORT)"
SYSTEM_LIBRARIES = -lntdll -luserenv -lws2_32 -ldbghelp
else ifneq ($(findstring apple,$(SYSTEM)),)
SHARED = $(LIBDIR)/libdpb.$(MAJOR).dylib
NATIVE = _native.dylib
LINKS = libdpb.dylib=libdpb.$(MAJOR).dylib
SHARED_PROPERTY = IMPORTED_SONAME "@rpath/libdpb.$(MAJOR).dylib"
else
SONAME = libdpb.so.$(MAJOR)
SHARED = $(LIBDIR)/libdpb.so.$(VERSION)
NATIVE = _native.so
LINKS = $(SONAME)=libdpb.so.$(VERSION) libdpb.so=$(SONAME)
SHARED_PROPERTY = IMPORTED_SONAME "$(SONAME)"
SYSTEM_LIBRARIES = -lpthread -lm -ldl
endif

# For musl, the libraries contain Rust's unwinder, because the one of a gcc for glibc needs glibc. The unwinder needs
# a table that the linker makes, and gcc does not always request it.
ifneq ($(findstring musl,$(TARGET)),)
UNWINDER = $(shell $(RUSTC) --print target-libdir --target $(TARGET))/self-contained/libunwind.a
SYSTEM_LIBRARIES += -Wl,--eh-frame-hdr
endif

.PHONY: all audit check clean dist docs go install python release site uninstall
all: $(BUILD)/libdpb.a $(BUILD)/$(notdir $(SHARED))

# With little inlining and no jump tables, the library is a seventh smaller than at opt-level 2: each entry of a jump
# table takes 24 bytes for the linker. A decision and its update take a tenth longer, and a fifth longer if users are
# counted. No file contains a path of this machine, so that every machine builds the same files.
SMALL = -C llvm-args='-inline-threshold=50 -min-jump-table-entries=1000'
# Each is in another object of the archive.
ROOTS = -u dpb_version
RUST = $(BUILD)$(TARGET:%=/%)/$(PROFILE)
REMAP = --remap-path-prefix=$(CURDIR)=/libdpb --remap-path-prefix=$(abspath $(BUILD))=/build \
  --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=/cargo --remap-path-prefix=$(shell $(RUSTC) --print sysroot)/lib/rustlib/src/rust=/rust
# For Python's package cargo also links libdpb.so, on which it depends. Nothing uses that, but it needs the target's linker.
ARCHIVE = $(RUST)/lib$(CRATE).a
$(ARCHIVE): $(shell find src tests/hooked bindings/python/native examples/plan -name '*.rs') $(wildcard tests/hooked/faults.txt) Cargo.toml Cargo.lock build.rs Makefile
	RUSTFLAGS="$$RUSTFLAGS $(REMAP) $(CROSS:%=-C linker=%gcc)" $(CARGO) rustc --locked --package $(PACKAGE) --lib --profile $(PROFILE) \
	  --crate-type staticlib$(if $(SONAME),,,cdylib) $(TARGET:%=--target=%) --target-dir $(BUILD) -- $(SMALL)
	touch -c $@

ifdef SONAME
# One object with all code that the functions of the C interface reach. Only their names are global, because another
# Rust library in the same program has the same names of the same standard library, perhaps compiled to abort. No
# section stays in a group, because a linker could replace it by that of the other library.
$(BUILD)/dpb.o: $(ARCHIVE) bindings/c/merge.ld
	$(LD) -r --gc-sections --gc-keep-exported --force-group-allocation $(ROOTS) -T bindings/c/merge.ld \
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

$(BUILD)/$(notdir $(SHARED)): $(BUILD)/dpb.o bindings/c/libdpb.map
	$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=bindings/c/libdpb.map -Wl,-z,defs -Wl,-z,relro \
	  -Wl,--as-needed $< $(SYSTEM_LIBRARIES) -o $@
else
# On other systems, the libraries are those that cargo makes.
$(BUILD)/libdpb.a: $(ARCHIVE)
	cp $< $@

$(BUILD)/$(notdir $(SHARED)): $(ARCHIVE)
	cp $(<D)/$(if $(IMPORT),$(CRATE).dll,lib$(CRATE).dylib) $@
endif

# The files for pkg-config and CMake use relative paths, so that the installation can be moved.
UP = $(shell echo $(1) | sed 's|[^/][^/]*|..|g')
FILL = sed -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@SHARED@|$(SHARED)|' \
  -e 's|@SHARED_PROPERTY@|$(SHARED_PROPERTY)|' -e 's|@SYSTEM_LIBRARIES@|$(SYSTEM_LIBRARIES)|'

TO = $(DESTDIR)$(PREFIX)
HEADERS = dpb.hpp dpb_metrics.hpp dpb_fleet.hpp dpb_table.hpp
install: all
	$(INSTALL) -d $(TO)/include $(TO)/$(LIBDIR)/pkgconfig $(TO)/$(LIBDIR)/cmake/dpb $(dir $(TO)/$(SHARED))
	$(INSTALL) -m 644 include/dpb.h $(addprefix bindings/cpp/,$(HEADERS)) $(TO)/include
	$(INSTALL) -m 644 $(BUILD)/libdpb.a $(TO)/$(LIBDIR)
	$(INSTALL) -m 755 $(BUILD)/$(notdir $(SHARED)) $(TO)/$(SHARED)
	for link in $(LINKS); do ln -sf $${link#*=} $(TO)/$(LIBDIR)/$${link%=*}; done
	$(if $(IMPORT),$(INSTALL) -m 644 $(RUST)/libdpb.dll.a $(TO)/$(IMPORT))
	$(FILL) -e 's|@UP@|$(call UP,$(LIBDIR)/pkgconfig)|' bindings/c/dpb.pc.in \
	  >$(TO)/$(LIBDIR)/pkgconfig/dpb.pc
	sed -e 's|^Libs:.*|Libs: $${libdir}/libdpb.a $(SYSTEM_LIBRARIES)|' -e '/^Libs.private/d' \
	  $(TO)/$(LIBDIR)/pkgconfig/dpb.pc >$(TO)/$(LIBDIR)/pkgconfig/dpb-static.pc
	for file in dpb-config dpb-config-version; do \
	  $(FILL) -e 's|@UP@|$(call UP,$(LIBDIR)/cmake/dpb)|' bindings/c/$$file.cmake.in \
	    >$(TO)/$(LIBDIR)/cmake/dpb/$$file.cmake; \
	done

uninstall:
	cd $(TO) && rm -rf $(LIBDIR)/cmake/dpb && rm -f include/dpb.h $(addprefix include/,$(HEADERS)) \
	  $(LIBDIR)/libdpb.a $(SHARED) $(IMPORT) $(foreach link,$(LINKS),$(LIBDIR)/$(firstword $(subst =, ,$(link)))) \
	  $(LIBDIR)/pkgconfig/dpb.pc $(LIBDIR)/pkgconfig/dpb-static.pc

# Builds and runs C programs of the tests with both installed libraries.
CHECKED = arms bad_input budget counter grow linear se segments shuffle slate snapshot stopping users threads $(if $(IMPORT),,fork)
CFLAGS = -O1 -pthread
check: all
	rm -rf $(BUILD)/check
	$(MAKE) install DESTDIR= PREFIX=$(abspath $(BUILD))/check LIBDIR=lib >/dev/null
	set -e; cd $(BUILD)/check; for program in $(CHECKED); do \
	  for library in lib/libdpb.a '-Llib -ldpb -Wl,-rpath,$$ORIGIN'/lib; do \
	    $(CC) -std=gnu11 $(CFLAGS) -Iinclude $(CURDIR)/tests/c/$$program.c $$library $(SYSTEM_LIBRARIES) -o $$program$(EXE); \
	    $(EMULATOR) ./$$program$(EXE); \
	  done; echo "passed: $$program"; \
	done

# Measures the privacy loss of a shared library of this version.
LIBRARY = $(BUILD)/$(notdir $(SHARED))
audit: $(if $(filter command line,$(origin LIBRARY)),,all)
	$(CARGO) run --locked --quiet --release -p dpb-tests --example audit -- --library $(abspath $(LIBRARY))

clean:
	rm -rf $(BUILD) dist

dist:
	CARGO='$(CARGO)' RUSTC='$(RUSTC)' packaging/dist $(TARGETS)

# The tags of the Go modules are at a commit that contains their libraries and is on no branch.
TAGS = v$(VERSION) $(foreach module,go go/fleet go/prometheus go/openfeature,bindings/$(module)/v$(VERSION))
release: dist
	for tag in $(TAGS); do case $$tag in v*) git tag $$tag ;; *) git tag $$tag $$(cat target/dist/go-commit) ;; esac; done
	@echo "git push origin $(TAGS)"

# Puts the library into the Go module, so that its users do not need Rust: see bindings/go/README.md.
GO_LIBRARY = bindings/go/internal/lib/$(shell go env GOOS)_$(shell go env GOARCH)
go: $(BUILD)/libdpb.a
	$(INSTALL) -m 644 $< $(GO_LIBRARY)/libdpb.a
	echo "/* $$(sha256sum <$<) */" >$(GO_LIBRARY)/libdpb.h

# A wheel with the package's own library, for all Pythons. It is as fast as possible, and not as small as possible. PLATFORM
# is the wheel's, such as manylinux_2_28_x86_64. PIP_FLAGS can be --no-build-isolation.
WHEELS = dist
python:
	+$(MAKE) PACKAGE=dpb-python CRATE=dpb_python PROFILE=release SMALL= ROOTS='-u dpb_version -u dpb_plan' BUILD=$(BUILD)-python \
	  SHARED=$(NATIVE) SONAME=$(SONAME:%=$(NATIVE)) $(BUILD)-python/$(NATIVE)
	DPB_LIBRARY=$(abspath $(BUILD)-python/$(NATIVE)) DPB_PLATFORM=$(PLATFORM) \
	  python3 -m pip wheel --quiet --no-deps $(PIP_FLAGS) --wheel-dir $(WHEELS) bindings/python

# The C interface as HTML, by Doxygen; a warning is an error.
docs:
	$(INSTALL) -d target/docs/c
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@OUTPUT@|target/docs/c|' bindings/c/Doxyfile | doxygen -
	@echo target/docs/c/html/index.html

# The pages of docs/ and the API of each language as a site. SITE_FLAGS: packaging/site/build --help.
site:
	packaging/site/build $(SITE_FLAGS)
