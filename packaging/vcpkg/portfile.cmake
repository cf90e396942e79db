# Installs the archive of a release for glibc.
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
  set(processor aarch64)
  set(hash "@SHA512:aarch64-linux-gnu@")
else()
  set(processor x86_64)
  set(hash "@SHA512:x86_64-linux-gnu@")
endif()
set(archive "libdpb-${VERSION}-${processor}-linux-gnu.tar.gz")
vcpkg_download_distfile(file
  URLS "https://github.com/libdpb/libdpb/releases/download/v${VERSION}/${archive}"
  FILENAME "${archive}"
  SHA512 "${hash}")
vcpkg_extract_source_archive(source ARCHIVE "${file}")

set(VCPKG_BUILD_TYPE release) # the archive has no debug build
file(INSTALL "${source}/include" DESTINATION "${CURRENT_PACKAGES_DIR}")
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB libraries "${source}/lib/libdpb.a")
else()
  file(GLOB libraries "${source}/lib/libdpb.so*")
endif()
file(INSTALL ${libraries} DESTINATION "${CURRENT_PACKAGES_DIR}/lib")
file(INSTALL "${source}/lib/pkgconfig/dpb.pc" DESTINATION "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
vcpkg_fixup_pkgconfig()
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/dpb-config.cmake" DESTINATION "${CURRENT_PACKAGES_DIR}/share/dpb")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
