# Compiles for machines with an old glibc (./dev wheel). tools/dev/portable.sh makes the folder that
# PORTABLE names: `bin` starts zig's clang for the processor, `root` has packages of Debian.
set(portable "$ENV{PORTABLE}")
cmake_path(GET portable FILENAME CMAKE_SYSTEM_PROCESSOR)
set(root "${portable}/root")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER "${portable}/bin/clang")
set(CMAKE_CXX_COMPILER "${portable}/bin/clang++")
set(CMAKE_AR "${portable}/bin/ar")
set(CMAKE_RANLIB "${portable}/bin/ranlib")
set(FLATC "${portable}/bin/flatc" CACHE FILEPATH "The compiler of the schemas")
set(CMAKE_CXX_FLAGS_INIT "-isystem ${root}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
foreach(kind EXE MODULE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -s) # no symbols that only a debugger reads
endforeach()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  string(APPEND CMAKE_SHARED_LINKER_FLAGS_INIT " ${portable}/stack_guard.o")
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " ${portable}/stack_guard.o")
endif()
set(CMAKE_FIND_ROOT_PATH "${root}")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")
set(ENV{PKG_CONFIG_LIBDIR}
    "${root}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:${root}/usr/share/pkgconfig")

# The library and the programs have zig's libc++ inside. The module of Python exchanges exceptions
# with nanobind-backend, so the modules need the libstdc++ of the machine. They get the headers of
# an old one, which ask for no function that a later one has brought.
set(BYTEPS_BINDINGS_COMPILE_OPTIONS
    -nostdinc++ "-I${root}/usr/include/c++/10"
    "-I${root}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/c++/10")
set(BYTEPS_BINDINGS_LINK_OPTIONS
    -nostdlib++ "${root}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libstdc++.so.6"
    "${root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libgcc_s.so.1")
