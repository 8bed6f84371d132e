// The main function of bps-server and bps-scheduler, which differ only in their names.
#pragma once

#include <cstdio>
#include <span>

#include "byteps/byteps.h"
#include "src/base/types.h"

namespace byteps::apps {

// Exit statuses of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;   // the job failed; the reason is on `error`
inline constexpr int kExitUsage = 2;    // the command line or the environment is wrong
inline constexpr int kExitEvicted = 3;  // the job goes on without this server, for good

// A program and the functions of the library that it calls (tests pass their own).
struct Service {
  Role role;
  const char* program;
  byteps_code (*serve)(const char* const* settings, size_t count, byteps_error* error);
  const char* (*version)();
};

// Reads `arguments` (argv without the program's name) and runs the service until the job is over.
// Blocks. Returns the exit status.
int RunService(const Service& service, std::span<const char* const> arguments, std::FILE* output,
               std::FILE* error);

}  // namespace byteps::apps
