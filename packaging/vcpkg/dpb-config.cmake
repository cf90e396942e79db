# dpb::dpb is the static or the shared library, as the triplet requires. dpb::cpp also sets C++17 for dpb.hpp.
if(TARGET dpb::dpb)
  return()
endif()
get_filename_component(_dpb_prefix "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
add_library(dpb::dpb UNKNOWN IMPORTED)
if(EXISTS "${_dpb_prefix}/lib/libdpb.a")
  set_target_properties(dpb::dpb PROPERTIES
    IMPORTED_LOCATION "${_dpb_prefix}/lib/libdpb.a"
    INTERFACE_LINK_LIBRARIES "-lpthread;-lm;-ldl")
else()
  set_target_properties(dpb::dpb PROPERTIES IMPORTED_LOCATION "${_dpb_prefix}/lib/libdpb.so")
endif()
set_target_properties(dpb::dpb PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_dpb_prefix}/include")
add_library(dpb::cpp INTERFACE IMPORTED)
set_target_properties(dpb::cpp PROPERTIES
  INTERFACE_COMPILE_FEATURES cxx_std_17
  INTERFACE_LINK_LIBRARIES dpb::dpb)
unset(_dpb_prefix)
