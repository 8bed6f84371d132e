# The project's own CMake words. A folder's CMakeLists.txt is a list of files and nothing else:
#   byteps_library(NAME SOURCES ... ALONE ... DEPS ...)   static library byteps_NAME, private to the
#                                                build; ALONE: files not compiled with others
#   byteps_test(NAME SOURCES ... DEPS ...)       one GoogleTest executable per folder, run by ctest;
#                                                PARTS n: as n tests that may run side by side, and
#                                                begin before all others
#   byteps_compile_for_tests(TARGET)             of a target that only tests use: quickly, with the
#                                                headers that all tests share
#   byteps_test_parts(NAME SOURCES ... DEPS ...) tests that several executables take, as NAME among
#                                                their DEPS; compiled once
#   byteps_compile_stand_in(TARGET)              of a library that only tests load: quickly
#   byteps_find_cuda_headers(OUT)                sets OUT to the folders with NVIDIA's cuda.h, which
#                                                only tests need
#   byteps_bench(NAME SOURCES ... DEPS ...)      one timed program, bench_NAME
#   byteps_fuzz(NAME SOURCES ... DEPS ...)       one libFuzzer program, fuzz_NAME (with BYTEPS_FUZZ)

function(byteps_configure_toolchain)
  set(CMAKE_CXX_STANDARD 20 PARENT_SCOPE)
  set(CMAKE_CXX_STANDARD_REQUIRED ON PARENT_SCOPE)
  set(CMAKE_CXX_EXTENSIONS OFF PARENT_SCOPE)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON PARENT_SCOPE)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden PARENT_SCOPE)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON PARENT_SCOPE)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON PARENT_SCOPE)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo PARENT_SCOPE)
  endif()
  # -g1: a backtrace has names and lines. More would cost a quarter of the build's time; a build of
  # type Debug has it.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG" PARENT_SCOPE)
  # -ffp-contract=off: a fused multiply-add would change bits between compilers (ARCHITECTURE.md,
  # "same inputs, same bits").
  add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
                      -Werror=return-type -ffp-contract=off -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Asio 1.22 does not detect clang's coroutines by itself.
    add_compile_definitions(ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
    add_compile_options(-Wthread-safety)
    if(BYTEPS_THREAD_SAFETY)
      add_compile_options(-Werror=thread-safety)
    endif()
  endif()
  if(BYTEPS_SANITIZE STREQUAL "address")
    # vptr opens descriptors to look at memory: tests that use them up would fail.
    add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
    add_link_options(-fsanitize=address,undefined)
  elseif(BYTEPS_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
  elseif(BYTEPS_SANITIZE)
    message(FATAL_ERROR "BYTEPS_SANITIZE must be 'address', 'thread' or empty")
  endif()
  if(NOT BYTEPS_SANITIZE AND NOT BYTEPS_FUZZ) # they look closer than these do
    byteps_harden()
  endif()
  if(BYTEPS_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      message(FATAL_ERROR "BYTEPS_FUZZ needs clang: set CMAKE_CXX_COMPILER")
    endif()
    # The libraries too: a byte read too far is seen only in code that was built to look.
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
    add_link_options(-fsanitize=address,undefined)
  endif()
endfunction()

# What stands between a mistake in a program that listens and whoever would use it;
# tests/hardening_test.py looks at what came out.
macro(byteps_harden)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
  # It needs optimization.
  add_compile_options("$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>"
                      -fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
    add_compile_options(-fcf-protection=full)
  endif()
  add_link_options(LINKER:-z,relro,-z,now)
endmacro()

# Compiles with ccache where it works. Without a folder that it may write to every call fails, which
# only a compilation shows.
function(byteps_use_ccache)
  find_program(BYTEPS_CCACHE ccache)
  if(NOT BYTEPS_CCACHE OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  set(probe "${PROJECT_BINARY_DIR}/ccache_probe")
  file(WRITE "${probe}.cc" "int main() { return 0; }\n")
  execute_process(
    COMMAND "${BYTEPS_CCACHE}" "${CMAKE_CXX_COMPILER}" -c "${probe}.cc" -o "${probe}.o"
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
  if(result EQUAL 0)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${BYTEPS_CCACHE}" PARENT_SCOPE)
  else()
    message(STATUS "Compiling without ccache, which does not work here: ${error}")
  endif()
endfunction()

# OpenSSL is linked in, and hidden like everything else: the library lives in one process with
# Python's ssl and others that bring an OpenSSL of their own (docs/decisions/0015-tls.md). Where a
# system has no archives of it, it is loaded.
function(byteps_find_openssl)
  pkg_check_modules(OPENSSL REQUIRED libssl>=3.0 libcrypto>=3.0)
  find_library(BYTEPS_SSL_ARCHIVE libssl.a HINTS ${OPENSSL_LIBRARY_DIRS})
  find_library(BYTEPS_CRYPTO_ARCHIVE libcrypto.a HINTS ${OPENSSL_LIBRARY_DIRS})
  if(BYTEPS_SSL_ARCHIVE AND BYTEPS_CRYPTO_ARCHIVE)
    set(needed_by_archives ${OPENSSL_STATIC_LIBRARIES})
    list(REMOVE_ITEM needed_by_archives ssl crypto)
    set(libraries ${BYTEPS_SSL_ARCHIVE} ${BYTEPS_CRYPTO_ARCHIVE} ${needed_by_archives})
  else()
    message(STATUS "Without libssl.a and libcrypto.a OpenSSL will be loaded, not linked in")
    set(libraries ${OPENSSL_LINK_LIBRARIES})
  endif()
  add_library(byteps_openssl INTERFACE)
  target_include_directories(byteps_openssl SYSTEM INTERFACE ${OPENSSL_INCLUDE_DIRS})
  target_link_libraries(byteps_openssl INTERFACE ${libraries} Threads::Threads)
endfunction()

macro(byteps_find_dependencies)
  find_package(Threads REQUIRED)
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(PkgConfig REQUIRED)
  byteps_find_openssl()
  pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
  find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
  add_library(byteps_asio INTERFACE)
  target_include_directories(byteps_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
  target_compile_definitions(byteps_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
  target_link_libraries(byteps_asio INTERFACE Threads::Threads)
  find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
  find_program(FLATC flatc REQUIRED)
  # Nothing is linked: libibverbs is looked for when a program runs.
  find_path(IBVERBS_INCLUDE_DIR infiniband/verbs.h REQUIRED)
  add_library(byteps_verbs INTERFACE)
  target_include_directories(byteps_verbs SYSTEM INTERFACE ${IBVERBS_INCLUDE_DIR})
  target_link_libraries(byteps_verbs INTERFACE ${CMAKE_DL_LIBS})
  if(BYTEPS_BUILD_TESTS)
    find_package(GTest REQUIRED)
    find_package(benchmark REQUIRED)
    find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
    find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
    include(GoogleTest)
  endif()
endmacro()

# In batches (BYTEPS_SOURCES_IN_BATCHES) a library's files are compiled several at a time: half of
# what a file costs is reading headers. Names in anonymous namespaces of a library must differ then.
# What a batch hides, such as a missing include, the lane clang sees: it compiles each file alone.
# ALONE: files that share a batch with no other.
function(byteps_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPS" ${ARGN})
  byteps_batches(sources ${name} ${ARG_SOURCES})
  add_library(byteps_${name} STATIC ${sources} ${ARG_ALONE})
  target_include_directories(byteps_${name} PUBLIC ${PROJECT_SOURCE_DIR}
                             ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(byteps_${name} PUBLIC ${ARG_DEPS})
endfunction()

# byteps_batches(OUT NAME FILES...): sets OUT to what is to be compiled for these files: one file
# that includes up to ten of them. CMake's own batches (UNITY_BUILD) lie in the folder of each
# build, and ccache takes a file's place into account; these lie in one place for all builds of the
# checkout, so the wheel's build finds what the gcc build has compiled.
function(byteps_batches out name)
  set(files)
  foreach(file ${ARGN})
    cmake_path(ABSOLUTE_PATH file)
    list(APPEND files "${file}")
  endforeach()
  set(batches)
  list(LENGTH files left)
  while(BYTEPS_SOURCES_IN_BATCHES AND left GREATER 1)
    list(SUBLIST files 0 10 batch)
    list(TRANSFORM batch REPLACE "^.+$" "#include \"\\0\"\n")
    list(JOIN batch "" text)
    list(LENGTH batches number)
    set(place "${PROJECT_SOURCE_DIR}/build/batches/${name}_${number}.cc")
    file(CONFIGURE OUTPUT "${place}" CONTENT "${text}" @ONLY)
    list(APPEND batches "${place}")
    if(left LESS_EQUAL 10)
      set(files)
      break()
    endif()
    list(SUBLIST files 10 -1 files)
    list(LENGTH files left)
  endwhile()
  set(${out} ${batches} ${files} PARENT_SCOPE)
endfunction()

# What is compiled more often than it runs: hardly optimized (decision 70 has the times).
set(BYTEPS_COMPILE_QUICKLY $<$<CONFIG:RelWithDebInfo>:-Og>)
# Tests say themselves where they fail: without debugging symbols they take a seventh less.
set(BYTEPS_COMPILE_TESTS "$<$<CONFIG:RelWithDebInfo>:-Og;-g0>")

# What only tests use, besides what they test. Half of what such a file costs to compile is reading
# the same headers: they are read once for all. In batches (BYTEPS_TESTS_IN_BATCHES) what else it
# includes is read once for eight files; names in their anonymous namespaces must differ then.
function(byteps_compile_for_tests target)
  if(NOT TARGET byteps_test_headers)
    file(WRITE "${PROJECT_BINARY_DIR}/test_headers.cc" "int main() { return 0; }\n")
    add_executable(byteps_test_headers EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/test_headers.cc")
    target_compile_options(byteps_test_headers PRIVATE ${BYTEPS_COMPILE_TESTS})
    target_link_libraries(byteps_test_headers PRIVATE GTest::gmock GTest::gtest_main)
    target_precompile_headers(
      byteps_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <chrono> <deque> <functional>
      <map> <memory> <optional> <set> <span> <string> <thread> <unordered_map> <variant> <vector>)
  endif()
  target_compile_options( # GoogleTest's as well: the headers fit no others
    ${target} PRIVATE ${BYTEPS_COMPILE_TESTS}
    $<TARGET_PROPERTY:GTest::gmock,INTERFACE_COMPILE_OPTIONS>)
  target_precompile_headers(${target} REUSE_FROM byteps_test_headers)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "EXECUTABLE") # as the programs that it goes into, or the headers do not fit
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIE)
  endif()
  if(BYTEPS_TESTS_IN_BATCHES AND NOT type STREQUAL "STATIC_LIBRARY") # that is in batches already
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

function(byteps_test_parts name)
  if(NOT BYTEPS_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  byteps_compile_for_tests(${name})
  target_include_directories(${name} PUBLIC ${RAPIDCHECK_INCLUDE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} GTest::gmock)
endfunction()

# Its code is position-independent, which the headers of all tests are not.
function(byteps_compile_stand_in target)
  target_compile_options(${target} PRIVATE ${BYTEPS_COMPILE_TESTS})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BYTEPS_TESTS_IN_BATCHES})
endfunction()

# What counts allocations in tests; see allocation_count_for_test.h.
set(BYTEPS_ALLOCATION_COUNT ${CMAKE_CURRENT_LIST_DIR}/../src/base/allocation_count_for_test.cc)
if(BYTEPS_SANITIZE STREQUAL "thread")
  set(BYTEPS_ALLOCATION_COUNT
      ${CMAKE_CURRENT_LIST_DIR}/../src/base/allocation_count_tsan_for_test.cc)
endif()

# ctest begins with the longest tests: those that are LONG, and then those that run in PARTS.
function(byteps_test name)
  if(NOT BYTEPS_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "LONG" "TIMEOUT;PARTS" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(BYTEPS_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  byteps_compile_for_tests(test_${name})
  target_include_directories(test_${name} PRIVATE ${RAPIDCHECK_INCLUDE_DIR})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPS} ${RAPIDCHECK_LIBRARY}
                        GTest::gmock GTest::gtest_main)
  if(NOT ARG_PARTS)
    add_test(NAME ${name} COMMAND test_${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
                         COST $<IF:$<BOOL:${ARG_LONG}>,200,0>)
    return()
  endif()
  foreach(part RANGE 1 ${ARG_PARTS})
    math(EXPR index "${part} - 1")
    add_test(NAME ${name}_${part} COMMAND test_${name})
    set_tests_properties(${name}_${part} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
                         COST 100
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_PARTS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# The library declares itself what it calls of the CUDA driver. Only the stand-in for the driver and
# the check of these declarations read NVIDIA's header, which `./dev` installs from PyPI.
function(byteps_find_cuda_headers out)
  set(BYTEPS_CUDA_HEADERS "" CACHE STRING "Folders with NVIDIA's cuda.h, for tests; oldest first")
  set(folders ${BYTEPS_CUDA_HEADERS})
  if(NOT folders)
    file(GLOB headers CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cuda_runtime/include/cuda.h
         ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/include/cuda.h)
    foreach(header ${headers})
      cmake_path(GET header PARENT_PATH folder)
      list(APPEND folders ${folder})
    endforeach()
    list(SORT folders ORDER DESCENDING) # cuda_runtime, of version 12, before cu13
  endif()
  if(NOT folders)
    message(STATUS "Without cuda.h there are no tests over the stand-in for the CUDA driver: "
                   "install nvidia-cuda-runtime from PyPI into .venv, or set BYTEPS_CUDA_HEADERS")
  endif()
  set(${out} ${folders} PARENT_SCOPE)
endfunction()

function(byteps_bench name)
  if(NOT BYTEPS_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(bench_${name} ${ARG_SOURCES})
  target_link_libraries(bench_${name} PRIVATE ${ARG_DEPS})
endfunction()

function(byteps_fuzz name)
  if(NOT BYTEPS_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(fuzz_${name} ${ARG_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
